import type { LeaseStamp, LedgerDriver, PutExpectation, StoreTime, TaskRecord } from '@leasehold/core';
import { MAX_ITEM_BYTES, type Item } from './attribute.ts';
import { classifyDynamoDbError } from './dynamodb-errors.ts';
import { itemTable, type Condition } from './item-table.ts';
import { listRecords } from './ledger-list.ts';
import { clockOf, namesOf, type DynamoDbIndex, type DynamoDbOptions } from './options.ts';
import { recordFromItem, recordToItem } from './record-item.ts';
import { service } from './service.ts';
import { CLOCK_ERROR_MS } from './service-clock.ts';
import type { TableNames } from './table-names.ts';

/** What {@link dynamoDbLedger} takes. */
export interface DynamoDbLedgerOptions extends DynamoDbOptions {
  /** The index `list` reads; `false`: it reads the whole table. Default `true`: the index that `createTable` makes. */
  readonly index?: boolean | DynamoDbIndex;
}

/** A ledger driver on DynamoDB. */
export interface DynamoDbLedger extends LedgerDriver {
  /** Looks at the table once and reports what is wrong with it. Without the right to describe it nothing is looked at. */
  open(signal: AbortSignal): Promise<void>;
}

/*
 * Why a condition may carry the time. DynamoDB's expressions have no clock, so a write brings the driver's estimate of the service's time,
 * and a write that was held up on its way brings an old one. That is safe, because a condition names the version as well:
 *
 * - `lapsed` with an old time: the expiry that belongs to that version was over at the *earliest* the time could have been at the sending.
 *   Time only goes on, so it is over now. What it grants is stamped from the old time and never beyond `notBeyond`: shorter, not longer.
 * - `live` with an old time can pass although the lease has lapsed since. The version says that nobody was granted the task in between,
 *   and nobody will be by this write: token and owner stay. What it stamps ends at the first sending + L + the clock's error at the latest
 *   (I7), after which the lease is as lapsed as it was. Its owner counts from its own first sending and does not learn of it later.
 *   Without a stamp (a settle, a release) the last owner of the highest token ends its own work: I2 holds by the version.
 * - A repeated sending that arrives after a later write finds another version, and does nothing.
 * - Where the estimate errs (hosts more than 20 ms apart, a clock beyond 1000 ppm) a lease ends early or late by that error; the version
 *   still lets one owner in at a time, and the guard refuses the older token.
 */

/**
 * A ledger in a DynamoDB table: one item per task, changed by conditional writes of that item alone; strongly consistent reads; lost
 * answers recognised by the write's nonce on the item a refusal brings (or, where a server does not bring it, on the item read then).
 *
 * Leases are judged by the service's clock as its answers show it, to 1.25 s or better: `minLeaseMs` says what that allows. `list` reads a
 * sparse index of the tasks that are not settled or cancelled, newest first, and the whole table for those that are.
 *
 * @throws LeaseholdError `bad-option` at once. Calls reject with the SDK's errors, `not-found`, `unavailable` or `bad-option` from `open`,
 * `record-corrupt`, `record-too-large`, or `bad-request` for a record no reader could use.
 *
 * @example
 * ```ts
 * import { dynamoDbLedger } from '@leasehold/dynamodb';
 *
 * const ledger = dynamoDbLedger({ table: 'leasehold', region: 'eu-central-1' });
 * ```
 *
 * See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.ConditionExpressions.html
 */
export function dynamoDbLedger(options: DynamoDbLedgerOptions): DynamoDbLedger {
  const { index = true } = options;
  const names = namesOf(options, index);
  const clock = clockOf(options);
  const remote = service(options, clock);
  const table = itemTable(remote, names);

  const read = async (taskId: string, key: Item, signal: AbortSignal): Promise<TaskRecord | undefined> => {
    const item = await table.get(key, signal);
    return item && recordFromItem(item, taskId, names);
  };
  return {
    specVersion: 1,
    name: 'dynamodb',
    capabilities: {
      clockErrorMs: CLOCK_ERROR_MS,
      // A renewal is judged by the latest, a takeover by the earliest time: below that, a lease might never be seen live.
      minLeaseMs: 2 * CLOCK_ERROR_MS,
      maxRecordBytes: MAX_ITEM_BYTES,
      list: index === false ? 'scan' : 'index',
    },
    open: (signal) => table.check(index !== false, signal),
    async put(next, lease, expect, signal) {
      const key = names.key('task', next.taskId);
      const timed = lease !== undefined || ('lease' in expect && expect.lease !== 'any');
      const draft = lease ? { ...next, leaseExpiresAt: 0 } : next;
      // What cannot be written is refused before anything is asked.
      const unstamped = recordToItem(draft, names);
      let now = table.estimate();
      if (timed && !now) ({ now } = await table.getTimed(key, signal));
      const record = lease ? { ...next, leaseExpiresAt: expiryOf(lease, now as StoreTime) } : next;
      const item = lease ? { ...unstamped, lease_expires_at: { N: String(record.leaseExpiresAt) } } : unstamped;
      const written = await table.put(item, key, conditionOf(expect, now, names), signal);
      if (written.ok) return { ok: true, record, now: remote.now() };
      const current = written.current && recordFromItem(written.current, next.taskId, names);
      return { ok: false, current, now: remote.now() };
    },
    async get(taskId, signal) {
      const record = await read(taskId, names.key('task', taskId), signal);
      return { record, now: remote.now() };
    },
    list: (query, signal) => listRecords({ remote, names, read, clock, byIndex: index !== false }, query, signal),
    classify: classifyDynamoDbError,
    close: () => remote.close(),
  };
}

function expiryOf({ ms, notBeyond }: LeaseStamp, now: StoreTime): number {
  return Math.floor(Math.min(now.latest + ms, notBeyond ?? Infinity));
}

function conditionOf(expect: PutExpectation, now: StoreTime | undefined, names: TableNames): Condition {
  if (!('lease' in expect)) return { expression: 'attribute_not_exists(#key)', names: { '#key': names.partition } };
  const same = '#version = :version';
  const values = { ':version': { N: String(expect.version) } };
  if (expect.lease === 'any') return { expression: same, names: { '#version': 'version' }, values };
  const aliases = { '#version': 'version', '#expiry': 'lease_expires_at' };
  const { earliest, latest } = now as StoreTime;
  return expect.lease === 'live'
    ? { expression: `${same} AND #expiry > :now`, names: aliases, values: { ...values, ':now': { N: String(latest) } } }
    : {
        expression: `${same} AND (attribute_not_exists(#expiry) OR #expiry <= :now)`,
        names: aliases,
        values: { ...values, ':now': { N: String(earliest) } },
      };
}
