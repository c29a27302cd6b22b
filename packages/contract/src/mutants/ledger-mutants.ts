import type { LedgerCapabilities, LedgerDriver, LedgerQuery, PutOutcome, TaskRecord } from '@leasehold/core';
import { memoryLedger, type MemoryLedgerOptions } from '@leasehold/core/memory';
import type { LedgerHarness } from '../conformance-case.ts';
import type { Mutant } from './mutant.ts';
import { ledgerHarness } from './memory-harness.ts';

type Change = (driver: LedgerDriver) => Partial<LedgerDriver>;

const broken = (wrong: string, fails: readonly string[], change: Change, really: MemoryLedgerOptions = {}) => {
  const { capabilities } = memoryLedger();
  const make = () => ledgerHarness(really, (driver) => ({ ...driver, capabilities, ...change(driver) }));
  return { wrong, fails, make, capabilities };
};
const never = (): AbortSignal => new AbortController().signal;

/** Records are changed on their way into the store. */
const stored = (driver: LedgerDriver, map: (record: TaskRecord) => TaskRecord): Partial<LedgerDriver> => ({
  put: (next, lease, expect, signal) => driver.put(map(next), lease, expect, signal),
});
/** Task ids are changed on their way into the store and in reads, as a column's collation would. */
const collated = (driver: LedgerDriver, map: (id: string) => string): Partial<LedgerDriver> => ({
  put: (next, lease, expect, signal) => driver.put({ ...next, taskId: map(next.taskId) }, lease, expect, signal),
  get: (taskId, signal) => driver.get(map(taskId), signal),
});
const filtered =
  (without: keyof LedgerQuery): Change =>
  (driver) => ({
    list: ({ [without]: _, ...query }, signal) => driver.list(query as LedgerQuery, signal),
  });
/** The expectation is `weakened` to whatever the stored record happens to fulfil. */
const expecting = (driver: LedgerDriver, weaken: 'version' | 'live' | 'lapsed'): Partial<LedgerDriver> => ({
  put: async (next, lease, expect, signal) => {
    const { record } = await driver.get(next.taskId, signal);
    if (!('lease' in expect) || record === undefined) return driver.put(next, lease, expect, signal);
    const version = weaken === 'version' ? record.version : expect.version;
    return driver.put(next, lease, { version, lease: expect.lease === weaken ? 'any' : expect.lease }, signal);
  },
});
const refusing = (
  driver: LedgerDriver,
  map: (outcome: PutOutcome & { ok: false }) => PutOutcome,
): Partial<LedgerDriver> => ({
  put: async (next, lease, expect, signal) => {
    const outcome = await driver.put(next, lease, expect, signal);
    return outcome.ok ? outcome : map(outcome);
  },
});

/** Ledger drivers with one thing wrong each. */
export const ledgerMutants: readonly Mutant<LedgerHarness, LedgerCapabilities>[] = [
  broken('loses what it does not know', ['a record comes back', 'fields that this version'], (driver) =>
    stored(driver, ({ extra: _, ...record }) => record),
  ),
  broken('answers another record than it stores', ['a record comes back'], (driver) => ({
    put: async (next, lease, expect, signal) => {
      const outcome = await driver.put(next, lease, expect, signal);
      return outcome.ok ? { ...outcome, record: { ...outcome.record, opId: 'mine' } } : outcome;
    },
  })),
  broken('makes up records', ['an unknown task'], (driver) => ({
    get: async (taskId, signal) => {
      const { record, now } = await driver.get(taskId, signal);
      return { record: record ?? ({ taskId } as TaskRecord), now };
    },
  })),
  broken('is less sure of the time than it says', ['an unknown task'], () => ({}), { clockErrorMs: 500 }),
  broken('looks before it writes, in two steps', ['field case 45: of 50', 'I1: of many takeovers'], (driver) => ({
    put: async (next, lease, expect, signal) => {
      const { record, now } = await driver.get(next.taskId, signal);
      if ((record?.version ?? 0) !== expect.version) return { ok: false, current: record, now };
      await new Promise((resolve) => setImmediate(resolve));
      const again = (await driver.get(next.taskId, signal)).record;
      return driver.put(next, lease, again ? { version: again.version, lease: 'any' } : { version: 0 }, signal);
    },
  })),
  broken(
    'refuses without showing the record',
    ['field case 45: of 50', 'a write that expects another version'],
    (driver) => refusing(driver, ({ now }) => ({ ok: false, current: undefined, now })),
  ),
  broken('ignores versions', ['a write that expects another version', 'a live lease cannot be taken over'], (driver) =>
    expecting(driver, 'version'),
  ),
  broken('reads from a replica that lags', ['a read sees the last write'], (driver) => {
    const before = new Map<string, TaskRecord | undefined>();
    return {
      put: async (next, lease, expect, signal) => {
        before.set(next.taskId, (await driver.get(next.taskId, signal)).record);
        return driver.put(next, lease, expect, signal);
      },
      get: async (taskId, signal) => ({ record: before.get(taskId), now: (await driver.get(taskId, signal)).now }),
    };
  }),
  broken('merges a write into what was there', ['a later write replaces'], (driver) => ({
    put: async (next, lease, expect, signal) => {
      const { record } = await driver.get(next.taskId, signal);
      return driver.put({ ...record, ...next }, lease, expect, signal);
    },
  })),
  broken('trips over effects named like parts of an object', ['field case 45: effects'], (driver) =>
    stored(driver, (record) => {
      const effects: Record<string, unknown> = {};
      for (const [name, effect] of Object.entries(record.effects)) if (!(name in effects)) effects[name] = effect;
      return { ...record, effects: effects as TaskRecord['effects'] };
    }),
  ),
  broken('has ids without case', ['task ids are told apart'], (driver) => collated(driver, (id) => id.toLowerCase())),
  broken('normalises ids', ['task ids are told apart'], (driver) => collated(driver, (id) => id.normalize())),
  broken('cuts ids', ['task ids are told apart'], (driver) => collated(driver, (id) => id.slice(0, 199))),
  broken('stores text that no database column takes', ['text comes back'], (driver) =>
    stored(driver, (record) => ({ ...record, renewalReason: (record.renewalReason ?? '').replaceAll('\u0000', '') })),
  ),
  broken('measures records in characters', ['a record beyond the size limit'], (driver) => ({
    put: (next, lease, expect, signal) => {
      const short = JSON.stringify(next).length <= 400 * 1024;
      const narrow = JSON.parse(JSON.stringify(next).replaceAll('中', '.')) as TaskRecord;
      return driver.put(short ? narrow : next, lease, expect, signal);
    },
  })),
  broken('takes records beyond its limit', ['a record beyond the size limit'], () => ({}), {
    maxRecordBytes: 10_000_000,
  }),
  broken('rounds counts that are too large', ['counts beyond 2^53'], (driver) =>
    stored(driver, (record) => ({ ...record, fencingToken: Math.min(record.fencingToken, Number.MAX_SAFE_INTEGER) })),
  ),
  broken('writes for a caller that gave up', ['a write whose signal'], (driver) => ({
    put: (next, lease, expect) => driver.put(next, lease, expect, never()),
  })),
  broken('answers after close', ['a call after close'], () => ({ close: async () => undefined })),
  broken('cannot classify', ['classify'], () => ({ classify: (error) => (error as { code: 'invalid' }).code })),
  broken('stamps from the earliest it could be', ['the expiry is stamped'], (driver) => ({
    put: (next, lease, expect, signal) => driver.put(next, lease && { ...lease, ms: lease.ms - 5_000 }, expect, signal),
  })),
  broken('ignores notBeyond', ['a stamp never lies beyond', 'I7: a renewal whose bound'], (driver) => ({
    put: (next, lease, expect, signal) => driver.put(next, lease && { ms: lease.ms }, expect, signal),
  })),
  broken('takes notBeyond for the expiry', ['a stamp never lies beyond'], (driver) => ({
    put: (next, lease, expect, signal) =>
      driver.put(next, lease && { ...lease, ms: lease.notBeyond ? 1e9 : lease.ms }, expect, signal),
  })),
  broken('stamps every write', ['without a stamp', 'a record that nobody holds'], (driver) => ({
    put: (next, lease, expect, signal) => driver.put(next, lease ?? { ms: 60_000 }, expect, signal),
  })),
  broken('believes the expiry in the record', ['a stamp wins'], (driver) => ({
    put: (next, lease, expect, signal) =>
      driver.put(next, next.leaseExpiresAt === undefined ? lease : undefined, expect, signal),
  })),
  broken(
    'revives lapsed leases',
    ['I7: a renewal of a lapsed lease', 'I7: a renewal whose bound', 'a record that nobody holds'],
    (driver) => expecting(driver, 'live'),
  ),
  broken('gives live leases away', ['a live lease cannot be taken over', 'a lease is renewed while'], (driver) =>
    expecting(driver, 'lapsed'),
  ),
  broken('never lets a lease lapse', ['a live lease cannot be taken over'], (driver) => ({
    put: (next, lease, expect, signal) => driver.put(next, lease && { ms: lease.ms * 1_000 }, expect, signal),
  })),
  broken('wants a live lease for any write', ['any lease is accepted'], (driver) => ({
    put: (next, lease, expect, signal) =>
      driver.put(
        next,
        lease,
        'lease' in expect && expect.lease === 'any' ? { ...expect, lease: 'live' } : expect,
        signal,
      ),
  })),
  broken('reports a time that stands still', ['the store’s time goes on'], (driver) => ({
    get: async (taskId, signal) => ({ ...(await driver.get(taskId, signal)), now: { earliest: 1, latest: 1 } }),
  })),
  ...(['states', 'stages', 'taskTypes', 'agentRunId', 'errorClass', 'lapsed'] as const).map((field) =>
    broken(`does not filter by ${field}`, ['each filter'], filtered(field)),
  ),
  broken('gives one page only', ['pages follow one another'], (driver) => ({
    list: async (query, signal) => {
      const { cursor: _, ...page } = await driver.list(query, signal);
      return page;
    },
  })),
  broken('ignores the limit of a page', ['pages follow one another'], (driver) => ({
    list: (query, signal) => driver.list({ ...query, limit: 100 }, signal),
  })),
  broken('counts its way through pages', ['a cursor that is not one', 'records that are dealt with'], (driver) => ({
    list: async ({ cursor, ...query }, signal) => {
      const from = Number(cursor ?? 0) || 0;
      const { records, now } = await driver.list({ ...query, limit: 1_000 }, signal);
      const page = records.slice(from, from + query.limit);
      return {
        records: page,
        now,
        ...(from + page.length < records.length ? { cursor: String(from + page.length) } : {}),
      };
    },
  })),
  broken('lists records in short', ['a listed record'], (driver) => ({
    list: async (query, signal) => {
      const page = await driver.list(query, signal);
      return { ...page, records: page.records.map(({ extra: _, ...record }) => record) };
    },
  })),
];
