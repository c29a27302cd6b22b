import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { badOption, checkNames, systemClock, type Clock, type OptionNames } from '@leasehold/core';
import { isReserved } from './record-item.ts';
import { LONE_SURROGATE, tableNames, type IndexNames, type TableNames } from './table-names.ts';

/**
 * What is used of a `DynamoDBClient` of `@aws-sdk/client-dynamodb`. Structural, so that a client of another copy of the SDK fits.
 * It has to run the middleware of a command, as the SDK's clients do: that is how the service's clock is read from its answers.
 */
export interface DynamoDbSender {
  /** Sends one command; rejects with the SDK's error. */
  send(command: never, options?: { readonly abortSignal?: AbortSignal }): Promise<unknown>;
}

/** How to reach DynamoDB: a client of your own, or what one is made of. */
export interface DynamoDbConnection {
  /** Your client; it is used as it is, retries included, and never closed. Without it the driver makes one that does not retry: core does. */
  readonly client?: DynamoDbSender;
  /** Default: what the SDK finds in the environment. */
  readonly region?: string;
  /** For emulators and private endpoints. */
  readonly endpoint?: string;
  /** Default: the SDK's own chain. */
  readonly credentials?: NonNullable<DynamoDBClientConfig['credentials']>;
}

/** Where the items are. All drivers on one table take the same. */
export interface DynamoDbTableOptions {
  /** Name or ARN of the table. Ledger and guard may share one. */
  readonly table: string;
  /** Its key attributes, both strings. Default `{ partition: 'pk' }`; with `sort` for an existing table that has a sort key. */
  readonly keys?: { readonly partition: string; readonly sort?: string };
  /** Put before every key, for a table that holds other things as well, or several ledgers. Default none. */
  readonly prefix?: string;
  /** The attribute of the table's TTL, in epoch seconds. Default `'ttl'`; `false` where nothing is to be deleted by itself. */
  readonly ttl?: string | false;
}

/** The index that `list` reads, by its name and its two key attributes, both strings. */
export interface DynamoDbIndex {
  /** Default `'leasehold-open'`. */
  readonly name?: string;
  /** Default `'lane'`. */
  readonly partition?: string;
  /** Default `'lane_at'`. */
  readonly sort?: string;
}

/** Options of a driver. */
export interface DynamoDbOptions extends DynamoDbConnection, DynamoDbTableOptions {
  /** Measures the time between answers, and how long a list takes. Default: the machine's. */
  readonly clock?: Clock;
}

const DEFAULT_INDEX: IndexNames = { name: 'leasehold-open', partition: 'lane', sort: 'lane_at' };
const machine = systemClock();

type OthersOption = 'index' | 'account' | 'awsPartition' | 'mayCancel';
// Whatever is built for one table may be given the same options.
const OPTIONS: OptionNames<DynamoDbOptions> & Readonly<Record<OthersOption, true>> = {
  client: true,
  region: true,
  endpoint: true,
  credentials: true,
  clock: true,
  table: true,
  keys: true,
  prefix: true,
  ttl: true,
  index: true,
  account: true,
  awsPartition: true,
  mayCancel: true,
};
const KEYS: OptionNames<NonNullable<DynamoDbTableOptions['keys']>> = { partition: true, sort: true };
const INDEX: OptionNames<DynamoDbIndex> = { name: true, partition: true, sort: true };

/** @throws LeaseholdError `bad-option` naming the option. */
export function namesOf(options: DynamoDbTableOptions, index: boolean | DynamoDbIndex = true): TableNames {
  checkNames(options, OPTIONS);
  const { table, prefix = '', keys = { partition: 'pk' }, ttl = 'ttl' } = options;
  if (typeof table !== 'string' || !/^(?:[A-Za-z0-9_.-]{3,255}|arn:.{1,1020})$/.test(table)) {
    throw badOption('table', table, 'write the name of a table (3 to 255 letters, digits, _, . or -), or its ARN.');
  }
  if (typeof prefix !== 'string' || Buffer.byteLength(prefix) > 256 || LONE_SURROGATE.test(prefix)) {
    throw badOption('prefix', prefix, "write a text of at most 256 bytes, such as 'orders#'.");
  }
  if (/(?:task|guard)#/.test(prefix)) {
    throw badOption('prefix', prefix, "leave 'task#' and 'guard#' out of it: they tell our own items apart.");
  }
  if (typeof keys !== 'object' || keys === null)
    throw badOption('keys', keys, "write { partition: 'pk', sort: 'sk' }.");
  checkNames(keys, KEYS, 'keys.');
  if (typeof index !== 'boolean' && (typeof index !== 'object' || index === null)) {
    throw badOption('index', index, 'write true, false, or { name, partition, sort } of an existing index.');
  }
  if (typeof index === 'object') checkNames(index, INDEX, 'index.');
  const chosen = { ...DEFAULT_INDEX, ...(typeof index === 'object' && index) };
  if (typeof chosen.name !== 'string' || !/^[A-Za-z0-9_.-]{3,255}$/.test(chosen.name)) {
    throw badOption('index.name', chosen.name, 'a name has 3 to 255 letters, digits, _, . or -.');
  }
  const names = {
    table,
    prefix,
    partition: attributeName('keys.partition', keys.partition),
    sort: keys.sort === undefined ? undefined : attributeName('keys.sort', keys.sort),
    ttl: ttl === false ? undefined : attributeName('ttl', ttl),
    index: {
      name: chosen.name,
      partition: attributeName('index.partition', chosen.partition),
      sort: attributeName('index.sort', chosen.sort),
    },
  };
  const used = [names.partition, names.sort, names.ttl, names.index.partition, names.index.sort];
  const twice = used.find((name, at) => name !== undefined && used.indexOf(name) !== at);
  if (twice !== undefined) {
    throw badOption('keys', twice, 'the key attributes, the index and the ttl need different names.');
  }
  return tableNames(names);
}

function attributeName(field: string, name: unknown): string {
  if (typeof name !== 'string' || name === '' || Buffer.byteLength(name) > 255) {
    throw badOption(field, name, 'write the name of an attribute, at most 255 bytes.');
  }
  if (isReserved(name)) throw badOption(field, name, 'a record has a field of that name; choose another.');
  return name;
}

/** The clock of the options. @throws LeaseholdError `bad-option` */
export function clockOf({ clock = machine }: { readonly clock?: Clock }): Clock {
  if (typeof clock?.monotonic !== 'function' || typeof clock.wall !== 'function') {
    throw badOption('clock', clock, 'pass a Clock of @leasehold/core, or leave it out.');
  }
  return clock;
}
