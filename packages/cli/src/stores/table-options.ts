import type { DynamoDbTableDesign } from '@leasehold/dynamodb';
import { CliFailure } from '../failure.ts';

/** How a table is written: as options of a command, or in an address. `false` and `none` = without. */
export interface WrittenTable {
  readonly prefix?: string;
  readonly partitionKey?: string;
  readonly sortKey?: string;
  readonly ttl?: string | boolean;
  readonly index?: string | boolean;
  readonly indexPartition?: string;
  readonly indexSort?: string;
}

/**
 * The same as the driver takes it.
 *
 * @throws CliFailure for the key of an index that is not there.
 */
export function tableOptions(written: WrittenTable): Omit<DynamoDbTableDesign, 'table'> {
  const { prefix, partitionKey, sortKey, indexPartition, indexSort } = written;
  const [ttl, index] = [written.ttl, written.index].map((value) => (value === 'none' ? false : value));
  const keys = { partition: partitionKey ?? 'pk', ...(sortKey !== undefined && { sort: sortKey }) };
  const named = {
    ...given('name', typeof index === 'string' ? index : undefined),
    ...given('partition', indexPartition),
    ...given('sort', indexSort),
  };
  const isNamed = Object.keys(named).length > 0;
  if (index === false && isNamed)
    throw new CliFailure(2, 'without an index there is no key of one: leave out index-partition and index-sort.');
  return {
    ...(prefix !== undefined && { prefix }),
    ...((partitionKey !== undefined || sortKey !== undefined) && { keys }),
    ...((typeof ttl === 'string' || ttl === false) && { ttl }),
    ...(isNamed ? { index: named } : typeof index === 'boolean' && { index }),
  };
}

/** `value` under `name`, if there is one. */
export function given<Name extends string>(name: Name, value: string | undefined): { readonly [Key in Name]?: string } {
  return value === undefined ? {} : ({ [name]: value } as { readonly [Key in Name]?: string });
}
