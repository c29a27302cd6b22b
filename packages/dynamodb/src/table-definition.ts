import { namesOf, type DynamoDbIndex, type DynamoDbTableOptions } from './options.ts';

/** A table to be made. */
export interface DynamoDbTableDesign extends DynamoDbTableOptions {
  /** The index for `list`; `false` = none. Default `true`. */
  readonly index?: boolean | DynamoDbIndex;
}

/** One attribute of a key. */
export type KeyPart = {
  readonly AttributeName: string;
  readonly KeyType: 'HASH' | 'RANGE';
};

/** A table in the words of `CreateTable`, CloudFormation uses the same; and the attribute of its TTL. */
export interface TableDefinition {
  readonly create: {
    readonly TableName: string;
    readonly BillingMode: 'PAY_PER_REQUEST';
    readonly AttributeDefinitions: { readonly AttributeName: string; readonly AttributeType: 'S' }[];
    readonly KeySchema: KeyPart[];
    readonly GlobalSecondaryIndexes?: {
      readonly IndexName: string;
      readonly KeySchema: KeyPart[];
      readonly Projection: { readonly ProjectionType: 'KEYS_ONLY' };
    }[];
  };
  readonly ttl: string | undefined;
}

/**
 * The table that ledger and guard store need: on demand, with a sparse index of keys alone. Everything that makes or describes a table
 * (`createTable`, `cloudFormation`, `terraform`) renders this.
 *
 * @throws LeaseholdError `bad-option`
 */
export function tableDefinition(design: DynamoDbTableDesign): TableDefinition {
  const { index = true } = design;
  const names = namesOf(design, index);
  const key = (partition: string, sort: string | undefined): KeyPart[] => [
    { AttributeName: partition, KeyType: 'HASH' },
    ...(sort === undefined ? [] : [{ AttributeName: sort, KeyType: 'RANGE' as const }]),
  ];
  const table = key(names.partition, names.sort);
  const indexed = index === false ? [] : key(names.index.partition, names.index.sort);
  return {
    create: {
      TableName: names.table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [...table, ...indexed].map(({ AttributeName }) => ({ AttributeName, AttributeType: 'S' })),
      KeySchema: table,
      ...(index !== false && {
        GlobalSecondaryIndexes: [
          { IndexName: names.index.name, KeySchema: indexed, Projection: { ProjectionType: 'KEYS_ONLY' } },
        ],
      }),
    },
    ttl: names.ttl,
  };
}
