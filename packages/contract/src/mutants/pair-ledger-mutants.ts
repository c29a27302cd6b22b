import type { Clock, LedgerDriver, PutExpectation, PutOutcome, TaskRecord } from '@leasehold/core';
import { memoryLedger, memoryTable, type MemoryLedger, type MemoryTable } from '@leasehold/core/memory';
import { PAIRS, pairHarness, type PairOptions } from './memory-harness.ts';
import { declared, type PairMutant } from './pair-mutant.ts';

type Stored = TaskRecord | undefined;

const [usual, silent, , , delayedSends] = Object.values(PAIRS) as [
  PairOptions,
  PairOptions,
  PairOptions,
  PairOptions,
  PairOptions,
];

/** A pair whose ledger is changed. */
const ledger = (
  wrong: string,
  fails: readonly string[],
  change: (driver: LedgerDriver, clock: Clock) => Partial<LedgerDriver>,
  options: PairOptions = usual,
): PairMutant => ({
  wrong,
  fails,
  make: () => pairHarness(options, { ledger: (driver, clock) => ({ ...driver, ...change(driver, clock) }) }),
  capabilities: declared(options),
});
/** The expectation of a write is replaced by one that `forgive` makes of what is stored. */
const forgiving =
  (forgive: (stored: TaskRecord, expect: PutExpectation, next: TaskRecord) => PutExpectation) =>
  (driver: LedgerDriver): Partial<LedgerDriver> => ({
    put: async (next, lease, expect, signal) => {
      const { record } = await driver.get(next.taskId, signal);
      return driver.put(next, lease, record ? forgive(record, expect, next) : expect, signal);
    },
  });
const any = (stored: TaskRecord): PutExpectation => ({ version: stored.version, lease: 'any' });
const leaseOf = (expect: PutExpectation): 'live' | 'lapsed' | 'any' => ('lease' in expect ? expect.lease : 'any');
/** Records are changed on their way into the store. */
const storing =
  (change: (next: TaskRecord, stored: Stored) => TaskRecord) =>
  (driver: LedgerDriver): Partial<LedgerDriver> => ({
    put: async (next, lease, expect, signal) => {
      const { record } = await driver.get(next.taskId, signal);
      return driver.put(change(next, record), lease, expect, signal);
    },
  });
const refusing =
  (change: (outcome: PutOutcome & { readonly ok: false }) => PutOutcome) =>
  (driver: LedgerDriver): Partial<LedgerDriver> => ({
    put: async (next, lease, expect, signal) => {
      const outcome = await driver.put(next, lease, expect, signal);
      return outcome.ok ? outcome : change(outcome);
    },
  });
const lapsedLooks = (record: Stored): Stored => record && { ...record, leaseExpiresAt: 0 };
/** Pairs whose ledger has one thing wrong each, found out at the level of the protocol. */
export const pairLedgerMutants: readonly PairMutant[] = [
  ledger('creates a record over one that is there', ['I1: four processes', 'a task that was cancelled'], (driver) => ({
    put: async (next, lease, expect, signal) => {
      const outcome = await driver.put(next, lease, expect, signal);
      if (outcome.ok || expect.version !== 0 || !outcome.current) return outcome;
      return driver.put(next, lease, any(outcome.current), signal);
    },
  })),
  ledger(
    'has a stale token accepted, since it compares no versions',
    ['field case 6, I3: the settle'],
    forgiving((stored, expect) => ({ version: stored.version, lease: leaseOf(expect) })),
  ),
  ledger(
    'has a lapsed lease renewed, or settled under',
    ['I7: an owner that slept', 'I7: a renewal that was given up'],
    forgiving((_, expect) => (leaseOf(expect) === 'live' ? { ...expect, lease: 'any' } : expect)),
  ),
  ledger(
    'has a token reused by the next owner',
    ['field case 28', 'field case 19', 'a redrive', 'a hand-off', 'a busy duplicate'],
    storing((next) => ({ ...next, fencingToken: Math.min(next.fencingToken, 1) })),
  ),
  ledger(
    'has a token reused where releases keep no delay',
    ['where the broker keeps no delay'],
    storing((next) => ({ ...next, fencingToken: Math.min(next.fencingToken, 1) })),
    silent,
  ),
  ledger(
    'has a token reused by the next owner of a copy',
    ['where only a send keeps a delay, a copy that the broker'],
    storing((next) => ({ ...next, fencingToken: Math.min(next.fencingToken, 1) })),
    delayedSends,
  ),
  ledger(
    'has a task settled twice',
    ['I2: a task that is settled'],
    forgiving((stored, expect) => (stored.state === 'settled' ? any(stored) : expect)),
  ),
  ledger(
    'has a busy delivery run, since it shows live leases as lapsed and gives them away',
    ['I1: four processes', 'a busy duplicate', 'field case 34'],
    (driver) => ({
      ...forgiving((stored, expect) => (leaseOf(expect) === 'lapsed' ? any(stored) : expect))(driver),
      async put(next, lease, expect, signal) {
        const { record } = await driver.get(next.taskId, signal);
        const taken = record && leaseOf(expect) === 'lapsed' && expect.version === record.version;
        const outcome = await driver.put(next, lease, taken ? any(record) : expect, signal);
        return outcome.ok ? outcome : { ...outcome, current: lapsedLooks(outcome.current) };
      },
    }),
  ),
  ledger(
    'hides the record that stands there, so that an own lost write is not recognised',
    ['field case 13', 'field case 15', 'a renewal whose answer was lost'],
    refusing((outcome) => ({ ...outcome, current: undefined })),
  ),
  ledger(
    'keeps no nonce, so that a claim whose answer was lost is not recognised as an own write',
    ['field case 13'],
    storing((next) => ({ ...next, opId: 'none' })),
  ),
  ledger(
    'has a late write of an older owner applied',
    ['I3: a late write of an older owner'],
    forgiving((stored, expect, next) => (next.fencingToken < stored.fencingToken ? any(stored) : expect)),
  ),
  ledger('stamps a late write as if it had just been sent', ['I7: a renewal that lands late'], (driver) => ({
    put: (next, lease, expect, signal) => driver.put(next, lease && { ms: lease.ms }, expect, signal),
  })),
  ledger(
    'drops an unknown field',
    ['fields of a newer minor version'],
    storing(({ extra: _, ...next }) => next),
  ),
  ledger(
    'writes its own format over a newer one',
    ['fields of a newer minor version', 'a record of a newer major version'],
    storing((next) => ({ ...next, schemaVersion: '1.0' })),
  ),
  ledger('never lets a lease lapse', ['field case 28', 'a busy duplicate'], (driver) => ({
    put: (next, lease, expect, signal) => driver.put(next, lease && { ms: lease.ms * 1_000 }, expect, signal),
  })),
  ledger('does not prolong a lease that is there', ['field case 17'], (driver) => ({
    put: async (next, lease, expect, signal) =>
      driver.put(next, next.renewalCount > 0 ? undefined : lease, expect, signal),
  })),
  ledger('takes its time from the container’s wall clock', ['field case 34'], (driver, clock) => {
    const byWall = memoryLedger({ table: walled(driver), clock: { ...clock, monotonic: () => clock.wall() } });
    return { put: byWall.put, get: byWall.get };
  }),
  ledger(
    'forgets the follow-ups of a settled task',
    ['a delivery of a settled task'],
    storing(({ next: _, ...record }) => record),
  ),
  ledger(
    'forgets checkpoints',
    ['a hand-off comes'],
    storing(({ checkpoint: _, ...next }) => next),
  ),
  ledger(
    'forgets whether the dead letter was sent',
    ['a dead-lettering that ended'],
    storing((next) => (next.deadLetterSent ? { ...next, deadLetterSent: false } : next)),
  ),
  ledger('makes up a record for any id', ['I1: a message that was sent again'], (driver) => ({
    async get(taskId, signal) {
      const found = await driver.get(taskId, signal);
      if (found.record) return found;
      const { record } = await driver.get('nothing', signal);
      return { ...found, record: record ?? made(taskId) };
    },
  })),
  ledger(
    'forgets that a dead-lettered task is over',
    ['without a dead-letter queue a dead-lettered'],
    storing((next) => (next.state === 'dead_lettered' ? { ...next, state: 'queued' } : next)),
    silent,
  ),
];

/** A table of its own for each one that was shared: a table keeps the clock of its first driver. */
const walledTables = new WeakMap<MemoryTable, MemoryTable>();
function walled(driver: LedgerDriver): MemoryTable {
  const { table } = driver as MemoryLedger;
  const found = walledTables.get(table) ?? memoryTable();
  walledTables.set(table, found);
  return found;
}

function made(taskId: string): TaskRecord {
  return {
    schemaVersion: '1.0',
    taskId,
    taskType: 'made-up',
    state: 'queued',
    stage: 'preflight',
    stageEnteredAt: 0,
    renewalCount: 0,
    history: [],
    fencingToken: 0,
    attempt: 0,
    failures: 0,
    idempotencyKey: taskId,
    effects: {},
    version: 1,
    opId: 'made up',
    createdAt: 0,
    updatedAt: 0,
  };
}
