import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  cloudEvents,
  createLeaseBroker,
  leaseTiming,
  type Acquired,
  type BrokerDriver,
  type ClaimPolicy,
  type Clock,
  type HeldDelivery,
  type Json,
  type Lease,
  type LeaseBroker,
  type LedgerDriver,
  type OutgoingMessage,
  type Settlement,
  type StoreTime,
  type TaskRecord,
} from '@leasehold/core';
import { faultPlan, faultyBroker, faultyLedger, type FaultPlan } from '@leasehold/core/testing';
import type { PairCapabilities, PairHarness } from './conformance-case.ts';
import { never, outlast, within } from './waiting.ts';

/** One process: a lease broker over a pair of drivers, between which faults can be planned. */
export interface Process {
  readonly harness: PairHarness;
  readonly broker: LeaseBroker;
  /** The drivers as core has them: their calls are logged, and planned faults befall them. */
  readonly queue: BrokerDriver;
  readonly ledger: LedgerDriver;
  readonly queueFaults: FaultPlan<BrokerDriver>;
  readonly ledgerFaults: FaultPlan<LedgerDriver>;
  readonly capabilities: PairCapabilities;
  /** The lease of every task, in milliseconds. */
  readonly leaseMs: number;
  readonly policy: ClaimPolicy;
  readonly owner: string;
  /** From now on no time goes by as this process sees it, as if it were stopped between any two of its steps. */
  pause(): void;
  /** Steps the wall clock. */
  stepWall(ms: number): void;
}

const TYPE = 'contract-task';
/** Where time can be moved, long enough to tell its parts apart; where not, short. */
const MOVED_LEASE_MS = 9_000;
const REAL_LEASE_MS = 2_000;
/** Far more than any step takes, besides the lease that some wait for. */
const STEP_MS = 10_000;

/** The shortest lease that both backends can keep, but at least `wanted`. */
function leaseFor(wanted: number, { broker, ledger }: PairCapabilities): number {
  // The margin, two ninths, has to exceed the error of the store's clock.
  const least = Math.max(wanted, ledger.minLeaseMs, ledger.clockErrorMs * 5 + 10, broker.leaseMs.min);
  return Math.min(broker.leaseMs.max, Math.ceil(least / broker.leaseMs.step) * broker.leaseMs.step);
}

/** Whether a delivery can be held for `leases` times the lease that the cases use. */
export function canBeHeld(leases: number, capabilities: PairCapabilities): boolean {
  const { extend, totalLeaseMs = Number.POSITIVE_INFINITY } = capabilities.broker;
  return extend && totalLeaseMs >= leases * leaseFor(MOVED_LEASE_MS, capabilities);
}

/** Starts a process. */
export async function start(harness: PairHarness, owner: string, policy: Partial<ClaimPolicy> = {}): Promise<Process> {
  const drivers = await harness.open();
  const capabilities = { broker: drivers.broker.capabilities, ledger: drivers.ledger.capabilities };
  const [queueFaults, ledgerFaults] = [faultPlan<BrokerDriver>(), faultPlan<LedgerDriver>()];
  let paused: { readonly wall: number; readonly monotonic: number } | undefined;
  let stepped = 0;
  const clock: Clock = {
    wall: () => (paused?.wall ?? harness.clock.wall()) + stepped,
    monotonic: () => paused?.monotonic ?? harness.clock.monotonic(),
    timer: (delayMs, fire, options) => harness.clock.timer(delayMs, fire, options),
  };
  const queue = opened(faultyBroker(drivers.broker, queueFaults, clock));
  const ledger = opened(faultyLedger(drivers.ledger, ledgerFaults, clock));
  const leaseMs = leaseFor(harness.advance ? MOVED_LEASE_MS : REAL_LEASE_MS, capabilities);
  return {
    harness,
    broker: createLeaseBroker({ driver: queue, ledger, clock }),
    queue,
    ledger,
    queueFaults,
    ledgerFaults,
    capabilities,
    leaseMs,
    policy: { timing: leaseTiming(leaseMs), attempts: 10, retentionMs: 30 * 86_400_000, ...policy },
    owner,
    pause() {
      paused = { wall: harness.clock.wall(), monotonic: harness.clock.monotonic() };
    },
    stepWall(ms) {
      if (harness.stepWall) harness.stepWall(ms);
      else stepped += ms;
    },
  };
}

/** The harness has opened the driver: core is not to do it again. */
function opened<Driver extends object>(driver: Driver): Driver {
  return new Proxy(driver, {
    get: (target, property) => (property === 'open' ? undefined : (Reflect.get(target, property) as unknown)),
  });
}

/** The end of something a process does, while time goes on. */
export function ends<T>(process: Process, work: Promise<T>, what: string): Promise<T> {
  return within(process.harness, work, STEP_MS + process.leaseMs, `${what} of ${process.owner}`);
}

/** A message of a task, as `enqueue` would write it. Each is a message of its own, whatever the backend deduplicates. */
export function taskMessage(taskId: string, more: Partial<OutgoingMessage> = {}, payload: Json = {}): OutgoingMessage {
  const { body } = cloudEvents().encode({ taskId, idempotencyKey: taskId, type: TYPE, payload });
  return { body, deduplicationId: `${taskId} ${randomUUID()}`, ...more, attributes: more.attributes ?? {} };
}

/** Sends messages past core. */
export async function post(process: Process, messages: readonly OutgoingMessage[]): Promise<void> {
  for (const message of messages) {
    const [outcome] = await process.queue.send([message], never());
    assert.ok(outcome && 'messageId' in outcome, `a message was not accepted: ${JSON.stringify(outcome)}`);
  }
}

/** Enqueues a task under each of these ids. */
export async function enqueue(process: Process, taskIds: readonly string[], groupId?: string): Promise<void> {
  const tasks = taskIds.map((taskId) => ({ type: TYPE, input: {}, taskId, ...(groupId !== undefined && { groupId }) }));
  for (const outcome of await ends(process, process.broker.enqueue(tasks), 'an enqueue')) {
    assert.ok(outcome.ok, `a task was not enqueued: ${JSON.stringify(outcome)}`);
  }
}

/** Acquires until `count` deliveries have been dealt with. */
export async function take(process: Process, count: number): Promise<readonly Acquired[]> {
  const taken: Acquired[] = [];
  for (let tries = 0; taken.length < count && tries < count + 5; tries++) {
    taken.push(...(await acquire(process, count - taken.length, process.harness.advance ? 0 : 1_000)));
  }
  assert.equal(taken.length, count, `${process.owner} got ${taken.length} deliveries, not ${count}`);
  return taken;
}

function acquire(process: Process, max: number, waitMs: number): Promise<readonly Acquired[]> {
  const { owner, policy, leaseMs } = process;
  return ends(process, process.broker.acquire({ owner, policy: () => policy, max, leaseMs, waitMs }), 'an acquire');
}

/** Claims with a delivery that is in hand. */
export function adopt(process: Process, held: HeldDelivery): Promise<Acquired> {
  const { owner, policy } = process;
  return ends(process, process.broker.adopt(held, { owner, policy: () => policy }), 'an adoption');
}

/** Acquires one delivery, which has to turn out as `kind`. */
export async function takeA<Kind extends Acquired['kind']>(
  process: Process,
  kind: Kind,
): Promise<Extract<Acquired, { readonly kind: Kind }>> {
  const [one] = await take(process, 1);
  assert.equal(
    one?.kind,
    kind,
    `${process.owner} got ${JSON.stringify(one && { kind: one.kind, taskId: one.taskId, ...('why' in one && { why: one.why }) })}`,
  );
  return one as Extract<Acquired, { readonly kind: Kind }>;
}

/** What one acquire brings now. */
export function whatIsThere(process: Process): Promise<readonly Acquired[]> {
  return acquire(process, 10, 0);
}

/** Fails when the queue hands anything out now. */
export async function nothing(process: Process, when: string): Promise<void> {
  const got = await whatIsThere(process);
  assert.deepEqual(
    got.map(({ kind, taskId }) => `${kind} ${taskId}`),
    [],
    `nothing may come ${when}`,
  );
}

/** Settles with this result. Gives what core said. */
export function settle(
  process: Process,
  lease: Lease,
  result: Json = 'done',
  more: Partial<Settlement> = {},
): ReturnType<LeaseBroker['settle']> {
  const receipt = {
    taskId: lease.taskId,
    stage: 'settled',
    externalSystem: 'none',
    externalId: process.owner,
    status: 'done',
    idempotencyKey: lease.record.idempotencyKey,
    verifiedAt: 0,
  } as const;
  return ends(process, process.broker.settle(lease, { receipt, result: { inline: result }, ...more }), 'a settle');
}

/** Settles, which has to succeed, and waits until the broker knows. */
export async function finish(process: Process, lease: Lease, result?: Json): Promise<void> {
  assert.equal(await settle(process, lease, result), 'settled');
  await drain(process);
}

/** Waits until the broker has been told everything. */
export function drain(process: Process): Promise<void> {
  return ends(process, process.broker.drain(), 'a drain');
}

/** Lets every lease go by that is not renewed, in the ledger and at the broker. */
export function lapse(process: Process): Promise<void> {
  const { harness, leaseMs, capabilities } = process;
  return outlast(harness, leaseMs, capabilities.ledger.clockErrorMs);
}

/** What the ledger holds of a task, and its time. */
export async function look(
  process: Process,
  taskId: string,
): Promise<{ readonly record: TaskRecord | undefined; readonly now: StoreTime }> {
  return process.ledger.get(taskId, never());
}

/** The record of a task, which has to exist. */
export async function recordOf(process: Process, taskId: string): Promise<TaskRecord> {
  const { record } = await look(process, taskId);
  assert.ok(record, `there is no record of ${taskId}`);
  return record;
}

/** Writes a record as another program would. */
export async function overwrite(process: Process, next: TaskRecord): Promise<TaskRecord> {
  const written = { ...next, version: next.version + 1, opId: `other program ${next.version}` };
  const outcome = await process.ledger.put(written, undefined, { version: next.version, lease: 'any' }, never());
  assert.ok(outcome.ok, 'the ledger refused a write with the right version');
  return outcome.record;
}
