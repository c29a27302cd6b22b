import { onTestFinished } from 'vitest';
import { subscribe, type LeaseholdEvent } from '../src/channel.ts';
import { virtualClock, type VirtualClock } from '../src/clock.ts';
import type { BrokerDriver, LedgerDriver } from '../src/driver.ts';
import type { TaskCodec } from '../src/envelope.ts';
import { hashJson } from '../src/json.ts';
import type { Acquired, ClaimPolicy, Handled, Lease } from '../src/lease.ts';
import { createLeaseBroker, type LeaseBroker, type Settlement } from '../src/lease-broker.ts';
import { memoryBroker, memoryLedger, memoryQueue, memoryTable } from '../src/memory/index.ts';
import type { MemoryBrokerOptions, MemoryLedgerOptions, MemoryQueue, MemoryTable } from '../src/memory/index.ts';
import type { TaskRecord } from '../src/record.ts';
import { faultPlan, faultyBroker, faultyLedger, type FaultPlan } from '../src/testing/index.ts';
import { TIMING } from './lease-bench.ts';
import { RETENTION_MS } from './task-events.ts';

export const OWNER = 'svc/a#1';

/** One queue and one ledger in memory, under a clock that stands still, with everything that is said and done on record. */
export interface BrokerBench {
  readonly clock: VirtualClock;
  readonly queue: MemoryQueue;
  readonly table: MemoryTable;
  readonly brokerCalls: FaultPlan<BrokerDriver>;
  readonly ledgerCalls: FaultPlan<LedgerDriver>;
  readonly broker: LeaseBroker;
  readonly events: readonly LeaseholdEvent[];
  record(taskId: string): TaskRecord;
  /** Puts a message into the queue that no enqueue made. */
  put(body: string, attributes?: Readonly<Record<string, string>>): void;
  /** Receives and claims, moving the clock as far as that takes. */
  acquire(options?: {
    readonly max?: number;
    readonly policy?: Partial<ClaimPolicy>;
    readonly broker?: LeaseBroker;
  }): Promise<readonly Acquired[]>;
  /** The lease of the only message there is. */
  lease(options?: { readonly policy?: Partial<ClaimPolicy>; readonly broker?: LeaseBroker }): Promise<Lease>;
  /** Waits until everything that was told to the broker is answered. */
  drained(): Promise<void>;
  /** Waits for `work`, moving the clock. */
  done<Result>(work: Promise<Result>): Promise<Result>;
}

export function brokerBench(
  options: {
    readonly broker?: MemoryBrokerOptions;
    readonly ledger?: MemoryLedgerOptions;
    readonly codec?: TaskCodec;
    readonly wrap?: (driver: BrokerDriver) => BrokerDriver;
  } = {},
): BrokerBench {
  const clock = virtualClock();
  const queue = memoryQueue();
  const table = memoryTable();
  const brokerCalls = faultPlan<BrokerDriver>();
  const ledgerCalls = faultPlan<LedgerDriver>();
  const events: LeaseholdEvent[] = [];
  onTestFinished(subscribe((event) => events.push(event)));
  const memory = memoryBroker({ queue, clock, ...options.broker });
  const broker = createLeaseBroker({
    driver: faultyBroker(options.wrap ? options.wrap(memory) : memory, brokerCalls, clock),
    ledger: faultyLedger(memoryLedger({ table, clock, ...options.ledger }), ledgerCalls, clock),
    clock,
    ...(options.codec && { codec: options.codec }),
  });
  const done = async <Result>(work: Promise<Result>): Promise<Result> => {
    let open = true;
    const end = (): void => void (open = false);
    work.then(end, end);
    await clock.runUntil(() => !open, 600_000);
    return work;
  };
  const acquire: BrokerBench['acquire'] = ({ max = 10, policy, broker: from = broker } = {}) => {
    const full: ClaimPolicy = { timing: TIMING, attempts: 3, retentionMs: RETENTION_MS, ...policy };
    return done(from.acquire({ max, leaseMs: TIMING.leaseMs, waitMs: 0, owner: OWNER, policy: () => full }));
  };
  return {
    clock,
    queue,
    table,
    brokerCalls,
    ledgerCalls,
    broker,
    events,
    acquire,
    done,
    drained: () => done(broker.drain()),
    put: (body, attributes = {}) => {
      void memory.send([{ body: new TextEncoder().encode(body), attributes }], new AbortController().signal);
    },
    record(taskId) {
      const found = table.records.find((record) => record.taskId === taskId);
      if (!found) throw new Error(`no record of ${taskId}`);
      return found;
    },
    async lease(ask = {}) {
      const acquired = await acquire(ask);
      const [only] = acquired;
      if (acquired.length !== 1 || only?.kind !== 'lease') throw new Error(`acquired ${JSON.stringify(acquired)}`);
      return only;
    },
  };
}

/** How a task without effects ends well. */
export function settlement(lease: Lease, fields: Partial<Settlement> = {}): Settlement {
  return {
    receipt: {
      taskId: lease.taskId,
      stage: 'settled',
      externalSystem: 'none',
      externalId: hashJson(null),
      status: 'done',
      idempotencyKey: lease.record.idempotencyKey,
      verifiedAt: 0,
    },
    ...fields,
  };
}

export const FAILED = { errorClass: 'retryable', code: 'E', message: 'the provider was down' } as const;

/** What kinds of deliveries these are, and why those were handled that were. */
export function kinds(acquired: readonly Acquired[]): readonly string[] {
  return acquired.map((one) => (one.kind === 'handled' ? `handled: ${(one satisfies Handled).why}` : one.kind));
}

/** The entries of every call of one method, call by call. */
export function batches(
  calls: BrokerBench['brokerCalls'],
  method: 'complete' | 'extend' | 'release' | 'send',
): readonly (readonly unknown[])[] {
  return calls.callsOf(method).map((call) => call.args[0] as readonly unknown[]);
}
