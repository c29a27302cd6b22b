import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  UpdateTimeToLiveCommand,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { LeaseholdError, sleep, type Clock } from '@leasehold/core';
import { errorName } from './dynamodb-errors.ts';
import { clockOf, namesOf, type DynamoDbConnection } from './options.ts';
import { service, type Service } from './service.ts';
import { indexFault, tableFault } from './table-check.ts';
import { tableDefinition, type DynamoDbTableDesign } from './table-definition.ts';

/** What {@link createTable} takes. */
export interface CreateTableOptions extends DynamoDbConnection, DynamoDbTableDesign {
  /** For waits between two looks. Default: the machine's. */
  readonly clock?: Clock;
}

/** What {@link createTable} did. */
export interface CreateTableReport {
  /** False when the table was there already. */
  readonly created: boolean;
  /** `unsupported`: the server has no TTL, as some emulators and global tables with strong consistency; expired records stay. */
  readonly ttl: 'turned on' | 'was on' | 'none asked for' | 'unsupported';
}

const LOOK_MS = 1_000;
/** States of a table that end by themselves. */
const PASSING: readonly (string | undefined)[] = ['CREATING', 'UPDATING', 'DELETING'];

/**
 * Makes the table and turns its TTL on; waits until both table and index can be used. On a table that is there already it checks that it
 * fits, and turns the TTL on if it is off. One that is being deleted is waited for, and made anew. It may be run again at any time.
 *
 * @throws LeaseholdError `bad-option` when the table that is there does not fit, `unavailable` when it is in a state that does not end by
 * itself, such as ARCHIVED; the SDK's errors otherwise; the signal's reason when it aborts.
 * @see https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html
 */
export async function createTable(
  options: CreateTableOptions,
  signal: AbortSignal = new AbortController().signal,
): Promise<CreateTableReport> {
  const clock = clockOf(options);
  const { ttl } = tableDefinition(options);
  const remote = service(options, clock);
  try {
    const { table, created } = await untilActive(remote, options, clock, signal);
    if (ttl === undefined) return { created, ttl: 'none asked for' };
    if (table.MultiRegionConsistency === 'STRONG') return { created, ttl: 'unsupported' };
    return { created, ttl: await turnTtlOn(remote, options.table, ttl, signal) };
  } finally {
    await remote.close();
  }
}

async function create(
  remote: Service,
  input: ReturnType<typeof tableDefinition>['create'],
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await remote.send(new CreateTableCommand(input), signal);
    return true;
  } catch (error) {
    // There already, or just being made: by somebody else, or by an earlier sending whose answer was lost.
    if (errorName(error) === 'ResourceInUseException') return false;
    throw error;
  }
}

async function untilActive(
  remote: Service,
  options: CreateTableOptions,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ readonly table: TableDescription; readonly created: boolean }> {
  const names = namesOf(options, options.index);
  const input = tableDefinition(options).create;
  let created = await create(remote, input, signal);
  for (;;) {
    const table = await describe(remote, options.table, signal);
    const unfit = tableFault(table, names);
    if (unfit?.code === 'unavailable' && !PASSING.includes(table?.TableStatus)) throw unfit;
    const fault = unfit ?? (options.index === false ? undefined : indexFault(table, names));
    if (table && !fault) return { table, created };
    if (fault && fault.code !== 'unavailable') throw fault;
    await sleep(clock, LOOK_MS, signal);
    // Not seen yet, or it was being deleted and is gone by now.
    if (!table && (await create(remote, input, signal))) created = true;
  }
}

async function describe(remote: Service, table: string, signal: AbortSignal): Promise<TableDescription | undefined> {
  try {
    return (await remote.send(new DescribeTableCommand({ TableName: table }), signal)).Table;
  } catch (error) {
    // A table that was made a moment ago may not be seen yet.
    if (errorName(error) === 'ResourceNotFoundException') return undefined;
    throw error;
  }
}

async function turnTtlOn(
  remote: Service,
  table: string,
  attribute: string,
  signal: AbortSignal,
): Promise<CreateTableReport['ttl']> {
  try {
    const { TimeToLiveDescription: now } = await remote.send(
      new DescribeTimeToLiveCommand({ TableName: table }),
      signal,
    );
    if (now?.TimeToLiveStatus === 'ENABLED' || now?.TimeToLiveStatus === 'ENABLING') {
      if (now.AttributeName === attribute) return 'was on';
      throw new LeaseholdError(
        'bad-option',
        `ttl: table ${table} already has its TTL on the attribute ${now.AttributeName}; write ttl: '${now.AttributeName}' everywhere, or turn it off.`,
        { field: 'ttl' },
      );
    }
    const TimeToLiveSpecification = { AttributeName: attribute, Enabled: true };
    await remote.send(new UpdateTimeToLiveCommand({ TableName: table, TimeToLiveSpecification }), signal);
    return 'turned on';
  } catch (error) {
    if (errorName(error) === 'UnknownOperationException') return 'unsupported';
    throw error;
  }
}
