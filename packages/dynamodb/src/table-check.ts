import type { KeySchemaElement, TableDescription } from '@aws-sdk/client-dynamodb';
import { LeaseholdError } from '@leasehold/core';
import type { TableNames } from './table-names.ts';

/**
 * The version of global tables whose replicas `DescribeTable` does not list. AWS documents `DescribeGlobalTable` as the way to find one,
 * so it is refused where it shows, and may not show.
 * See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_versions.html
 */
const LEGACY_GLOBAL = '2017.11.29';

/** What is wrong with the table itself. A description that lacks a part says nothing about that part. */
export function tableFault(table: TableDescription | undefined, names: TableNames): LeaseholdError | undefined {
  if (!table) return undefined;
  const { TableStatus: status = 'ACTIVE', Replicas: replicas = [], GlobalTableVersion: version } = table;
  if (status !== 'ACTIVE' && status !== 'UPDATING') {
    return new LeaseholdError('unavailable', `table ${names.table} is ${status}; wait until it is ACTIVE.`, {
      field: 'table',
    });
  }
  if ((replicas.length > 0 && table.MultiRegionConsistency !== 'STRONG') || version === LEGACY_GLOBAL) {
    return new LeaseholdError(
      'bad-option',
      `table ${names.table} is an eventually consistent global table: a condition is judged by one Region alone and the last writer wins, ` +
        'so two workers could hold one lease. Use a table of one Region, or a global table with multi-Region strong consistency.',
      { field: 'table' },
    );
  }
  return keysFault(table, names, table.KeySchema, [names.partition, names.sort], 'keys');
}

/** What is wrong with the index. */
export function indexFault(table: TableDescription | undefined, names: TableNames): LeaseholdError | undefined {
  if (!table) return undefined;
  const { name, partition, sort } = names.index;
  const index = (table.GlobalSecondaryIndexes ?? []).find(({ IndexName }) => IndexName === name);
  if (!index) {
    return new LeaseholdError(
      'bad-option',
      `table ${names.table} has no index ${name}; name the one that the other processes on this table name, or add it as \`leasehold aws create-table\` ` +
        'would (see its text output). Only where no process names one may index be false: list then reads the whole table.',
      { field: 'index' },
    );
  }
  if (index.IndexStatus === 'CREATING' || index.IndexStatus === 'DELETING') {
    return new LeaseholdError(
      'unavailable',
      `index ${name} of table ${names.table} is ${index.IndexStatus}; wait until it is ACTIVE.`,
      {
        field: 'index',
      },
    );
  }
  return keysFault(table, names, index.KeySchema, [partition, sort], 'index');
}

function keysFault(
  table: TableDescription,
  names: TableNames,
  schema: readonly KeySchemaElement[] | undefined,
  wanted: readonly (string | undefined)[],
  field: 'keys' | 'index',
): LeaseholdError | undefined {
  if (!schema) return undefined;
  const found = ['HASH', 'RANGE'].map((type) => schema.find(({ KeyType }) => KeyType === type)?.AttributeName);
  if (field === 'index' && found[1] === undefined) {
    return new LeaseholdError(
      'bad-option',
      `index: index ${names.index.name} of table ${names.table} has no sort key; name an index that has one.`,
      { field },
    );
  }
  if (found[0] !== wanted[0] || found[1] !== wanted[1]) {
    return new LeaseholdError(
      'bad-option',
      `${field}: table ${names.table} has the key ${show(found)}${field === 'index' ? ` in index ${names.index.name}` : ''}, but ${show(wanted)} was given; write ` +
        `${field}: { ${field === 'index' ? `name: '${names.index.name}', ` : ''}partition: '${found[0]}'${found[1] === undefined ? '' : `, sort: '${found[1]}'`} }.`,
      { field },
    );
  }
  const other = (table.AttributeDefinitions ?? []).find(
    ({ AttributeName, AttributeType }) => wanted.includes(AttributeName) && AttributeType !== 'S',
  );
  return (
    other &&
    new LeaseholdError(
      'bad-option',
      `${field}: attribute ${other.AttributeName} of table ${names.table} has type ${other.AttributeType}; only strings (S) can be used as keys.`,
      { field },
    )
  );
}

function show([partition, sort]: readonly (string | undefined)[]): string {
  return sort === undefined ? `${partition}` : `${partition} + ${sort}`;
}
