import { virtualClock, type BrokerDriver, type Clock, type GuardStore, type LedgerDriver } from '@leasehold/core';
import {
  memoryBroker,
  memoryGuard,
  memoryGuardState,
  memoryLedger,
  memoryQueue,
  memoryTable,
  type MemoryBrokerOptions,
  type MemoryLedgerOptions,
} from '@leasehold/core/memory';
import type { BrokerHarness, CaseHarness, GuardHarness, LedgerHarness, PairHarness } from '../conformance-case.ts';

/** What to put around each driver a harness opens. */
export type Around<Driver> = (driver: Driver, clock: Clock) => Driver;

/** Drivers that share one store; under a virtual clock unless `clock` is a real one. */
function harness<Driver extends { close(): Promise<void> }>(
  make: (clock: Clock) => Driver,
  real?: Clock,
): CaseHarness<Driver> {
  const moved = virtualClock();
  const clock = real ?? moved;
  const opened: Driver[] = [];
  return {
    async open() {
      const driver = make(clock);
      opened.push(driver);
      return driver;
    },
    ...(real ? {} : { advance: (ms: number) => moved.advance(ms) }),
    async dispose() {
      await Promise.all(opened.map((driver) => driver.close()));
    },
  };
}

const asIs = <Driver>(driver: Driver): Driver => driver;

/** A queue in memory, under a virtual clock unless `real` is given. */
export function brokerHarness(
  options: MemoryBrokerOptions,
  around: Around<BrokerDriver> = asIs,
  real?: Clock,
): BrokerHarness {
  const queue = memoryQueue();
  const base = harness<BrokerDriver>((clock) => around(memoryBroker({ ...options, queue, clock }), clock), real);
  return { ...base, deadLetters: async () => queue.deadLetters };
}

/** A table in memory. */
export function ledgerHarness(
  options: MemoryLedgerOptions,
  around: Around<LedgerDriver> = asIs,
  real?: Clock,
): LedgerHarness {
  const table = memoryTable();
  return harness<LedgerDriver>((clock) => around(memoryLedger({ ...options, table, clock }), clock), real);
}

/** A guard's memory. */
export function guardHarness(around: Around<GuardStore> = asIs, real?: Clock): GuardHarness {
  const state = memoryGuardState();
  return harness<GuardStore>((clock) => around(memoryGuard({ state, clock }), clock), real);
}

/** What the stores of a pair are like. */
export interface PairOptions {
  readonly queue?: MemoryBrokerOptions;
  readonly table?: MemoryLedgerOptions;
}

/** What to put around the two drivers of a pair. */
export interface AroundPair {
  readonly broker?: Around<BrokerDriver>;
  readonly ledger?: Around<LedgerDriver>;
}

/** A queue and a table in memory. */
export function pairHarness(options: PairOptions = {}, around: AroundPair = {}, real?: Clock): PairHarness {
  const queue = memoryQueue();
  const table = memoryTable();
  const moved = virtualClock();
  const clock = real ?? moved;
  const opened: (BrokerDriver | LedgerDriver)[] = [];
  return {
    clock,
    async open() {
      const broker = (around.broker ?? asIs)(memoryBroker({ ...options.queue, queue, clock }), clock);
      const ledger = (around.ledger ?? asIs)(memoryLedger({ ...options.table, table, clock }), clock);
      opened.push(broker, ledger);
      return { broker, ledger };
    },
    deadLetters: async () => queue.deadLetters,
    ...(real ? {} : { advance: (ms: number) => moved.advance(ms), stepWall: (ms: number) => moved.stepWall(ms) }),
    async dispose() {
      await Promise.all(opened.map((driver) => driver.close()));
    },
  };
}

/** Queues whose capabilities between them make every broker case apply. */
export const QUEUES: Readonly<Record<string, MemoryBrokerOptions>> = {
  'the usual capabilities': {},
  'hidden stale handles, no delays, counts or dead-letter queue': {
    staleHandle: 'silent',
    releaseDelayMs: 0,
    sendDelayMs: 0,
    deliveryCount: false,
    deadLetter: 'none',
  },
  'ordering, caps on time, deliveries and batches': {
    ordering: true,
    maxDeliveries: 4,
    totalLeaseMs: 30_000,
    deadLetter: 'copy',
    maxBatchBytes: 262_144,
  },
  'pushed one at a time, not to be prolonged': {
    extend: false,
    maxBatch: { send: 1, receive: 1, handles: 1 },
    leaseMs: { min: 600_000, max: 600_000, step: 600_000 },
    maxBodyBytes: 1_000,
  },
};

/** Stores whose capabilities between them make every pair case apply. */
export const PAIRS: Readonly<Record<string, PairOptions>> = {
  ...Object.fromEntries(Object.entries(QUEUES).map(([name, queue]) => [name, { queue }])),
  'delays kept on sending only, and a store whose clock is 750 ms off': {
    queue: { releaseDelayMs: 0 },
    table: { clockErrorMs: 750 },
  },
};
