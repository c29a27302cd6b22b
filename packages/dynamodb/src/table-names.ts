import type { Item } from './attribute.ts';
import { LeaseholdError } from '@leasehold/core';

/** What one item is about. Both kinds may be in one table. */
type Kind = 'task' | 'guard';

/** Names of the index for `list` and of its two key attributes, both strings. */
export interface IndexNames {
  readonly name: string;
  readonly partition: string;
  readonly sort: string;
}

/** How the items of one table are named. */
export interface TableNames {
  readonly table: string;
  readonly prefix: string;
  readonly partition: string;
  readonly sort: string | undefined;
  readonly ttl: string | undefined;
  readonly index: IndexNames;
  /** Attributes that are the table's, not the record's. */
  readonly own: ReadonlySet<string>;
  /** The key of one item. @throws LeaseholdError `bad-request` for an id that no key can hold. */
  key(kind: Kind, id: string): Item;
  /** The id of an item of that kind; nothing for any other item. */
  idOf(kind: Kind, item: Item): string | undefined;
}

/** Half of a surrogate pair. */
export const LONE_SURROGATE: RegExp = /\p{Surrogate}/u;
/** The most bytes of a partition key. */
const MAX_KEY_BYTES = 2_048;
/** In a table with a sort key, each of our items is the only one of ours in its partition. */
const SORT = 'leasehold';

/** Names from options that were checked. */
export function tableNames(options: Omit<TableNames, 'own' | 'key' | 'idOf'>): TableNames {
  const { prefix, partition, sort, ttl, index } = options;
  const own = [partition, sort, ttl, index.partition, index.sort].filter((name) => name !== undefined);
  return {
    ...options,
    own: new Set(own),
    key(kind, id) {
      const value = `${prefix}${kind}#${id}`;
      if (Buffer.byteLength(value) > MAX_KEY_BYTES) {
        throw new LeaseholdError(
          'bad-request',
          `${kind === 'task' ? 'taskId' : 'scope'} has ${Buffer.byteLength(id)} bytes; with its prefix a key holds ${MAX_KEY_BYTES}.`,
          { field: kind === 'task' ? 'taskId' : 'scope' },
        );
      }
      // A half of a surrogate pair has no UTF-8: two such ids would be one key.
      if (LONE_SURROGATE.test(value)) {
        throw new LeaseholdError('bad-request', `${kind === 'task' ? 'taskId' : 'scope'} is not valid Unicode text.`, {
          field: kind === 'task' ? 'taskId' : 'scope',
        });
      }
      return { [partition]: { S: value }, ...(sort === undefined ? {} : { [sort]: { S: SORT } }) };
    },
    idOf(kind, item) {
      const value = item[partition]?.S;
      const start = `${prefix}${kind}#`;
      if (value === undefined || !value.startsWith(start)) return undefined;
      return sort === undefined || item[sort]?.S === SORT ? value.slice(start.length) : undefined;
    },
  };
}
