import type {
  BrokerCapabilities,
  BrokerDriver,
  Clock,
  GuardStore,
  LedgerCapabilities,
  LedgerDriver,
} from '@leasehold/core';

/**
 * What one case works with: a store of its own, empty at first. The runner makes one per case and disposes of it afterwards.
 *
 * With `advance` the store's time stands still until a case moves it; without, a case waits in real time on the shortest lease that
 * the backend allows.
 */
export interface CaseHarness<Driver> {
  /** A driver on this harness's store, ready for use (its own `open` was called). Each further call stands for another process. */
  open(): Promise<Driver>;
  /** Moves the store's time, and the drivers', by `ms`. */
  advance?(ms: number): Promise<void>;
  /** Closes every driver that `open` gave and throws the store away. Called once, after failures too. */
  dispose(): Promise<void>;
}

/** A message as it lies in the dead-letter queue. */
export interface DeadLetter {
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  /** The reason it was rejected with. A backend without a field for it carries it in an attribute: the harness reads it out. */
  readonly reason?: string;
  readonly description?: string;
}

/** A queue for one case. */
export interface BrokerHarness extends CaseHarness<BrokerDriver> {
  /** What lies in the dead-letter queue now; empty where there is none. */
  deadLetters(): Promise<readonly DeadLetter[]>;
}

/** A table for one case. */
export type LedgerHarness = CaseHarness<LedgerDriver>;

/** A guard's memory for one case. */
export interface GuardHarness extends CaseHarness<GuardStore> {
  /** The shortest hold this store tells apart, for waits in real time. Default 1,000 ms. */
  readonly shortestHoldMs?: number;
  /** How wide the interval is at most, in milliseconds, in which this store knows its own time. Default 0: it stamps by one exact clock. */
  readonly clockErrorMs?: number;
}

/** The two drivers of one process: what `createLeaseBroker` is made of. */
export interface PairDrivers {
  readonly broker: BrokerDriver;
  readonly ledger: LedgerDriver;
}

/** What the two drivers of a pair declare. */
export interface PairCapabilities {
  readonly broker: BrokerCapabilities;
  readonly ledger: LedgerCapabilities;
}

/** A queue and a table for one case. Both drivers of every `open` work on the same ones; the case makes the lease brokers itself. */
export interface PairHarness extends CaseHarness<PairDrivers> {
  /** The clock that core gets. `advance` moves it together with the stores; without `advance` it is the machine's. */
  readonly clock: Clock;
  /** What lies in the dead-letter queue now; empty where there is none. */
  deadLetters(): Promise<readonly DeadLetter[]>;
  /** Steps the wall clock that drivers and core see, as an administrator would. Without it a case steps core's alone. */
  stepWall?(ms: number): void;
}

/** One thing a driver promises, as data: any test runner can register it. */
export interface ConformanceCase<Harness, Capabilities> {
  /** A sentence about behaviour, unique within its list. */
  readonly name: string;
  /** False where a driver that declares these capabilities promises something else; absent = every driver promises it. */
  readonly needs?: (capabilities: Capabilities) => boolean;
  /** Resolves when the driver keeps the promise, rejects with an `AssertionError` when it does not. */
  readonly run: (harness: Harness) => Promise<void>;
}

/** A promise of broker drivers. */
export type BrokerCase = ConformanceCase<BrokerHarness, BrokerCapabilities>;
/** A promise of ledger drivers. */
export type LedgerCase = ConformanceCase<LedgerHarness, LedgerCapabilities>;
/** A promise of guard stores. They have no capabilities: every case applies. */
export type GuardCase = ConformanceCase<GuardHarness, undefined>;
/** A promise of a broker driver and a ledger driver together, as users of `createLeaseBroker` see it. */
export type PairCase = ConformanceCase<PairHarness, PairCapabilities>;
