import type { DynamoDbTableDesign } from '@leasehold/dynamodb';

/** How a table is written: as options of a command, or in an address. `false` and `none` = without. */
export interface WrittenTable {
  readonly prefix?: string;
  readonly partitionKey?: string;
  readonly sortKey?: string;
  readonly ttl?: string | boolean;
  readonly index?: string | boolean;
}

/** The same as the driver takes it. */
export function tableOptions(written: WrittenTable): Omit<DynamoDbTableDesign, 'table'> {
  const { prefix, partitionKey, sortKey } = written;
  const [ttl, index] = [written.ttl, written.index].map((value) => (value === 'none' ? false : value));
  const keys = { partition: partitionKey ?? 'pk', ...(sortKey !== undefined && { sort: sortKey }) };
  return {
    ...(prefix !== undefined && { prefix }),
    ...((partitionKey !== undefined || sortKey !== undefined) && { keys }),
    ...((typeof ttl === 'string' || ttl === false) && { ttl }),
    ...(index !== undefined && { index: typeof index === 'string' ? { name: index } : index }),
  };
}

/** `value` under `name`, if there is one. */
export function given<Name extends string>(name: Name, value: string | undefined): { readonly [Key in Name]?: string } {
  return value === undefined ? {} : ({ [name]: value } as { readonly [Key in Name]?: string });
}
