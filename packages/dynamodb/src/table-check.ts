import type { KeySchemaElement, TableDescription } from '@aws-sdk/client-dynamodb';
import { LeaseholdError } from '@leasehold/core';
import type { TableNames } from './table-names.ts';

/** What is wrong with the table itself. A description that lacks a part says nothing about that part. */
export function tableFault(table: TableDescription | undefined, names: TableNames): LeaseholdError | undefined {
  if (!table) return undefined;
  const { TableStatus: status = 'ACTIVE', Replicas: replicas = [] } = table;
  if (status !== 'ACTIVE' && status !== 'UPDATING') {
    return new LeaseholdError('unavailable', `table ${names.table} is ${status}; wait until it is ACTIVE.`, {
      field: 'table',
    });
  }
  if (replicas.length > 0 && table.MultiRegionConsistency !== 'STRONG') {
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
  const remedy =
    'add it as `leasehold aws create-table` would (see its text output), or set index to false: list then reads the whole table.';
  if (!index) {
    return new LeaseholdError('bad-option', `table ${names.table} has no index ${name}; ${remedy}`, { field: 'index' });
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
