import { badOption } from '@leasehold/core';
import { namesOf } from './options.ts';
import type { DynamoDbTableDesign } from './table-definition.ts';

/**
 * Who does what with the table:
 * `worker` claims, renews and settles; `producer` asks how tasks are doing (enqueueing needs no table); `operator` also lists, cancels,
 * sweeps and redrives; `guard` is a receiver with its guard store; `deployer` makes the table.
 */
export type IamRole = 'worker' | 'producer' | 'operator' | 'guard' | 'deployer';

/** Where the table is, and what a role is to do beyond its usual. */
export interface IamPolicyOptions extends DynamoDbTableDesign {
  /** Default `*`: any Region. Not needed where `table` is an ARN. */
  readonly region?: string;
  /** The account's number; default `*`. Not needed where `table` is an ARN. */
  readonly account?: string;
  /** `aws`, `aws-cn` or `aws-us-gov`. Default `aws`. */
  readonly awsPartition?: string;
  /** For `producer`: it may also cancel tasks by their ids, and answer for people. Default false. */
  readonly mayCancel?: boolean;
}

/** One statement of a policy. */
export interface IamStatement {
  readonly Sid: string;
  readonly Effect: 'Allow';
  readonly Action: readonly string[];
  readonly Resource: string;
  readonly Condition?: {
    readonly 'ForAllValues:StringLike': Readonly<Record<'dynamodb:LeadingKeys', readonly string[]>>;
  };
}

/** A policy document, to be written as JSON. */
export interface IamPolicy {
  readonly Version: '2012-10-17';
  readonly Statement: readonly IamStatement[];
}

const ROLES: readonly string[] = ['worker', 'producer', 'operator', 'guard', 'deployer'] satisfies readonly IamRole[];

/**
 * What a role needs and nothing more: the calls that its code makes, on this table, and for single items only on the keys of its own kind
 * (tasks or guard scopes) under this prefix.
 *
 * @throws LeaseholdError `bad-option`
 * @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
 */
export function iamPolicy(role: IamRole, options: IamPolicyOptions): IamPolicy {
  if (!ROLES.includes(role)) throw badOption('role', role, `write one of ${ROLES.join(', ')}.`);
  const { index = true, region = '*', account = '*', awsPartition = 'aws', table } = options;
  const names = namesOf(options, index);
  const arn = table.startsWith('arn:') ? table : `arn:${awsPartition}:dynamodb:${region}:${account}:table/${table}`;
  const allow = (Sid: string, calls: readonly string[], Resource: string, keys?: string): IamStatement => ({
    Sid,
    Effect: 'Allow',
    Action: calls.map((call) => `dynamodb:${call}`),
    Resource,
    ...(keys !== undefined && {
      Condition: { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': [`${escaped(names.prefix)}${keys}#*`] } },
    }),
  });
  const describe = allow('Check', ['DescribeTable'], arn);
  const statements: Readonly<Record<IamRole, readonly IamStatement[]>> = {
    worker: [allow('Tasks', ['GetItem', 'PutItem'], arn, 'task'), describe],
    producer: [allow('Tasks', options.mayCancel ? ['GetItem', 'PutItem'] : ['GetItem'], arn, 'task'), describe],
    operator: [
      allow('Tasks', ['GetItem', 'PutItem'], arn, 'task'),
      describe,
      ...(index === false ? [] : [allow('List', ['Query'], `${arn}/index/${names.index.name}`, 'task')]),
      // A scan has no leading keys. In a table with other things it could read those too.
      allow('ListAll', ['Scan'], arn),
    ],
    guard: [allow('Scopes', ['GetItem', 'PutItem'], arn, 'guard'), describe],
    deployer: [allow('Make', ['CreateTable', 'DescribeTable', 'DescribeTimeToLive', 'UpdateTimeToLive'], arn)],
  };
  return { Version: '2012-10-17', Statement: statements[role] };
}

/** A text that a pattern takes literally. */
function escaped(text: string): string {
  return text.replace(/[*?$]/g, (sign) => `\${${sign}}`);
}
