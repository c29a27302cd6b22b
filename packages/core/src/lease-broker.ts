import { brokerSession, type HeldDelivery } from './broker-session.ts';
import { claimTask } from './claim-task.ts';
import { systemClock, type Clock } from './clock.ts';
import { deliveryDesk } from './delivery-desk.ts';
import type { BrokerCapabilities, BrokerDriver, Delivery, HandleOutcome, LedgerDriver } from './driver.ts';
import { checkTask, enqueueTasks } from './enqueue.ts';
import { cloudEvents, traceIdOf, type TaskCodec, type TaskMessage } from './envelope.ts';
import { errorLabel, isLeaseholdError, LeaseholdError } from './errors.ts';
import type { Refusal } from './events.ts';
import type {
  AcquireOptions,
  Acquired,
  AdoptOptions,
  Busy,
  ClaimPolicy,
  EnqueueOutcome,
  Lease,
  NewTask,
  Outcome,
  PolicyAnswer,
} from './lease.ts';
import { remedyFor } from './classify.ts';
import { checkNames, type OptionNames } from './option-names.ts';
import { checkPart } from './parts.ts';
import { ledgerSession, type LedgerSession } from './ledger-session.ts';
import { rescaleTiming } from './lease-timing.ts';
import type { Lost } from './ownership.ts';
import type { Closing, Content, FollowUp, SettlementReceipt, Stage, TaskError, TaskRecord } from './record.ts';
import type { ApplyOutcome, TaskLease } from './task-lease.ts';

/** How a task ends well. */
export interface Settlement {
  readonly receipt: Omit<SettlementReceipt, 'token'>;
  readonly result?: Content;
  readonly next?: readonly FollowUp[];
}

/**
 * Tasks under lease over one queue and one ledger. Made by {@link createLeaseBroker}. Acquiring, renewing, releasing, settling and
 * dead-lettering are separate operations; losing a lease is a value, not an exception.
 */
export interface LeaseBroker extends AsyncDisposable {
  readonly name: string;
  readonly capabilities: BrokerCapabilities;
  readonly clock: Clock;
  readonly ledger: LedgerSession;
  /** How long terminal records are kept, in milliseconds. */
  readonly retentionMs: number;
  /** The longest a renewal may wait for others to share its call, in milliseconds. */
  readonly lingerMs: number;
  /** Sends tasks; writes nothing to the ledger. One outcome per task, in order; one that cannot be sent fails alone. */
  enqueue(tasks: readonly NewTask[]): Promise<readonly EnqueueOutcome[]>;
  /** Throws a LeaseholdError for a task that this queue would never take: what `enqueue` would answer, without asking the broker. */
  check(task: NewTask): void;
  /**
   * Receives and claims up to `max`. Rejects when the receive itself fails, or the ledger cannot be opened; a bad message fails alone. Resolves when the slowest has been dealt
   * with: a worker that is to start each task at once uses `receive` and `adopt`.
   */
  acquire(ask: AcquireOptions): Promise<readonly Acquired[]>;
  /** Receives without claiming, for a worker that starts each delivery on its own with {@link LeaseBroker.adopt}. Rejects as `acquire` does. */
  receive(ask: Pick<AcquireOptions, 'max' | 'leaseMs' | 'waitMs' | 'signal'>): Promise<readonly HeldDelivery[]>;
  /** Claims the task of a delivery: one that was pushed to us, was received, or was busy before. */
  adopt(delivery: Delivery | HeldDelivery, ask: AdoptOptions): Promise<Acquired>;
  /** Ledger first; on its yes the broker is told, in a batch with others, without waiting for the answer. */
  renew(lease: Lease, claim: { readonly stage: Stage; readonly reason: string }): Promise<'held' | 'unknown' | Lost>;
  /** Gives the task back for another attempt. Only after everything the attempt started has ended. */
  release(
    lease: Lease,
    why: { readonly error: TaskError; readonly delayMs?: number; readonly failure: boolean },
  ): Promise<Outcome>;
  /** Passes the task on to a fresh delivery because this one's time is capped. */
  handOff(lease: Lease, why: { readonly reason: string; readonly progressed: boolean }): Promise<Outcome>;
  /** Repeated until answered or the confirmed time is over. After `unknown` nothing is acknowledged: redelivery reconciles. */
  settle(lease: Lease, outcome: Settlement): Promise<'settled' | 'unknown' | Lost | { readonly refused: Refusal }>;
  /** Ledger first, then the broker's dead-letter queue. Refused while an effect is unverified: close it first. */
  deadLetter(lease: Lease, why: TaskError): Promise<Outcome>;
  /** Takes a new token so that the open effects can be read back with the older call sealed off. */
  beginClose(lease: Lease, closing: Closing): Promise<Outcome>;
  /** Writes the end of a closing, and tells the broker. `done` with the lease still running: a verified effect beat a cancellation. */
  endClose(lease: Lease): Promise<Outcome>;
  /** Waits for a person: the message is parked in the record, then acknowledged. */
  askHuman(lease: Lease, question: string): Promise<Outcome>;
  /** Sends the parked message of a task again, after a person said yes or the task was reopened. False when there is none or it was not confirmed. */
  resend(record: TaskRecord): Promise<boolean>;
  /** Sends the follow-ups of a settled task whose message will not come back. False when not all was confirmed: call it again. */
  sendFollowUps(record: TaskRecord): Promise<boolean>;
  /** Prolongs a parked delivery. */
  extend(busy: Busy, leaseMs: number): Promise<HandleOutcome>;
  /** Gives a delivery back unstarted. */
  handBack(held: HeldDelivery, delayMs: number): Promise<HandleOutcome>;
  /** Resolves when everything told to the broker so far has been answered. */
  drain(): Promise<void>;
  /** Drains, then closes the broker's driver and the ledger's. */
  close(): Promise<void>;
}

/** The parts of a lease broker. `codec` reads and writes the queue's messages; CloudEvents by default. */
export interface LeaseBrokerParts {
  readonly driver: BrokerDriver;
  readonly ledger: LedgerDriver;
  readonly clock?: Clock;
  readonly codec?: TaskCodec;
  /** How long terminal records are kept, in milliseconds. Default 30 days. */
  readonly retentionMs?: number;
}

const PARTS: OptionNames<LeaseBrokerParts> = {
  driver: true,
  ledger: true,
  clock: true,
  codec: true,
  retentionMs: true,
};

/** In a rolling deploy the worker that knows a new type is not far; each hand-back costs a delivery, so it is not asked for every second. */
const FOREIGN_TYPE_DELAY_MS = 60_000;

/** Terminal records are kept this long unless told otherwise. */
export const DEFAULT_RETENTION_MS: number = 30 * 86_400_000;

/**
 * Tasks under lease over a broker and a ledger.
 *
 * @example
 * ```ts
 * import { createLeaseBroker } from '@leasehold/core';
 * import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
 *
 * const broker = createLeaseBroker({ driver: memoryBroker(), ledger: memoryLedger() });
 * ```
 */
export function createLeaseBroker(parts: LeaseBrokerParts): LeaseBroker {
  checkNames(parts, PARTS);
  checkPart('driver', parts.driver, 'a broker driver');
  checkPart('ledger', parts.ledger, 'a ledger driver');
  const clock = parts.clock ?? systemClock();
  const codec = parts.codec ?? cloudEvents();
  const retentionMs = parts.retentionMs ?? DEFAULT_RETENTION_MS;
  const session = brokerSession(parts.driver, clock);
  const ledger = ledgerSession(parts.ledger, clock);
  const desk = deliveryDesk({ session, ledger, clock, codec });

  const outcomeOf = (answer: ApplyOutcome): Exclude<Outcome, 'done'> | { readonly applied: TaskRecord } => {
    if ('applied' in answer || 'refused' in answer || 'lost' in answer) return answer;
    return 'unknown';
  };
  /** The ledger's half first; on its yes the broker's, in the background: a lost answer there is mended by redelivery. */
  const ledgerThen = async (
    lease: Lease,
    request: Parameters<TaskLease['apply']>[0],
    then: (record: TaskRecord) => Promise<unknown>,
  ): Promise<Outcome> => {
    const outcome = outcomeOf(await lease.task.apply(request, { repeat: true }));
    if (outcome === 'unknown' || !('applied' in outcome)) return outcome;
    desk.inBackground(then(outcome.applied));
    return 'done';
  };

  const openLedger = async (signal?: AbortSignal): Promise<void> => {
    try {
      await ledger.open(signal);
    } catch (error) {
      if (isLeaseholdError(error) || signal?.aborted) throw error;
      const { name } = ledger.driver;
      const why = `the ledger ${name} cannot be opened (${errorLabel(error)}).${remedyFor(ledger.driver.classify(error))}`;
      throw new LeaseholdError('unavailable', why, { cause: error });
    }
  };
  /** Without a ledger nothing could be claimed: what was taken would only use up its deliveries, and nobody would say why. */
  const receive: LeaseBroker['receive'] = async (ask) => {
    await openLedger(ask.signal);
    return session.receive(ask, ask.signal);
  };

  const adopt = async (delivery: Delivery | HeldDelivery, ask: AdoptOptions): Promise<Acquired> => {
    const held = 'delivery' in delivery ? delivery : session.hold(delivery, clock.monotonic());
    const message = await desk.read(held);
    if ('kind' in message) return message;
    let policy: PolicyAnswer;
    try {
      policy = await ask.policy(message);
    } catch {
      // Whatever the caller's rule failed at, the rest of the batch is not to suffer.
      return desk.leaveToLapse(message, 'policy');
    }
    if (policy === 'refuse')
      return desk.giveBack(held, message, 'refused-type', Math.min(FOREIGN_TYPE_DELAY_MS, desk.longestDelay));
    if ('unanswered' in policy) return desk.leaveToLapse(message, policy.unanswered);
    if ('deferMs' in policy) return desk.defer(held, message, policy.deferMs);
    const left = held.heldUntil - clock.monotonic();
    if (left <= 0) return desk.drop(message);
    return claim(held, message, policy, ask, left);
  };

  const claim = async (
    held: HeldDelivery,
    message: TaskMessage,
    policy: ClaimPolicy,
    ask: AdoptOptions,
    left: number,
  ): Promise<Acquired> => {
    const granted = session.capabilities.extend
      ? Math.max(left, Math.min(held.delivery.leaseMs, policy.timing.leaseMs))
      : left;
    const timing = rescaleTiming(policy.timing, granted);
    const { minLeaseMs, clockErrorMs } = ledger.capabilities;
    // Too little is left for the ledger to tell it from nothing.
    if (timing.leaseMs < minLeaseMs || timing.marginMs <= clockErrorMs) return desk.drop(message);
    const traceId = traceIdOf(message.traceparent);
    const outcome = await claimTask(ledger, clock, timing, {
      taskId: message.taskId,
      taskType: message.taskType,
      owner: ask.owner,
      idempotencyKey: message.idempotencyKey,
      payloadHash: message.payloadHash,
      attempts: policy.attempts,
      retentionMs: policy.retentionMs,
      ...(message.agentRunId !== undefined && { agentRunId: message.agentRunId }),
      ...(traceId !== undefined && { traceId }),
      ...(policy.deadlineMs !== undefined && { deadlineMs: policy.deadlineMs }),
      ...(message.carriedToken !== undefined && { carriedToken: message.carriedToken }),
      ...(held.delivery.sentAt !== undefined && { sentAt: held.delivery.sentAt }),
    });
    if ('lease' in outcome) return desk.granted(held, message, outcome.lease);
    if ('ended' in outcome) return desk.ended(held, message, outcome.ended);
    if ('unknown' in outcome) return desk.leaveToLapse(message, outcome.unknown);
    return desk.refused(held, message, outcome.refused, outcome.record);
  };

  const broker: LeaseBroker = {
    name: parts.driver.name,
    get capabilities() {
      return session.capabilities;
    },
    clock,
    ledger,
    retentionMs,
    lingerMs: session.lingerMs,
    enqueue: (tasks) => enqueueTasks(session, codec, tasks),
    check: (task) => checkTask(session, codec, task),
    receive,
    async acquire(ask) {
      const received = await receive(ask);
      return Promise.all(received.map((held) => adopt(held, ask)));
    },
    adopt,
    async renew(lease, progress) {
      lease.task.carryProgress(progress.stage, progress.reason);
      const outcome = outcomeOf(
        await lease.task.apply({ type: 'renew', leaseMs: lease.task.timing.leaseMs }, { repeat: false }),
      );
      if (outcome === 'unknown' || 'refused' in outcome) {
        lease.task.announce('heartbeat_unknown', { ownership: 'unknown', lastConfirmedAt: lease.task.lastConfirmedAt });
        return 'unknown';
      }
      if ('lost' in outcome) {
        lease.task.announce('heartbeat_lost', { cause: outcome.lost, lastConfirmedAt: lease.task.lastConfirmedAt });
        return outcome;
      }
      lease.task.announce('heartbeat_ok');
      desk.inBackground(
        session.extend(lease.held, lease.task.timing.leaseMs).then((extended) => {
          // An event, not a loss: the ledger says who owns the task.
          if (extended === 'gone') lease.task.announce('delivery_gone', { cause: 'extend' });
        }),
      );
      return lease.task.ownership() === 'held' ? 'held' : 'unknown';
    },
    release(lease, why) {
      const delayMs = Math.max(0, Math.ceil(why.delayMs ?? 0));
      return ledgerThen(lease, { type: 'release', error: why.error, delayMs, failure: why.failure }, () => {
        lease.task.announce('task_released', { errorClass: why.error.errorClass, errorCode: why.error.code, delayMs });
        return desk.sendBack(lease, delayMs);
      });
    },
    handOff: (lease, why) =>
      ledgerThen(lease, { type: 'hand-off', reason: why.reason, progressed: why.progressed }, () => {
        lease.task.announce('task_handed_off', { reason: why.reason });
        return desk.passOn(lease);
      }),
    async settle(lease, outcome) {
      const answer = outcomeOf(
        await lease.task.apply(
          {
            type: 'settle',
            receipt: outcome.receipt,
            retentionMs,
            ...(outcome.result && { result: outcome.result }),
            ...(outcome.next?.length && { next: outcome.next }),
          },
          { repeat: true },
        ),
      );
      if (answer === 'unknown' || !('applied' in answer)) return answer;
      lease.task.announce('task_settled', {
        externalSystem: outcome.receipt.externalSystem,
        externalId: outcome.receipt.externalId,
      });
      desk.inBackground(desk.finishSettled(lease.held, answer.applied));
      return 'settled';
    },
    deadLetter: (lease, why) =>
      ledgerThen(lease, { type: 'dead-letter', error: why, retentionMs }, (record) =>
        desk.finishDeadLettered(lease.held, record),
      ),
    async beginClose(lease, closing) {
      const request = { type: 'begin-close', closing, leaseMs: lease.task.timing.leaseMs } as const;
      const outcome = outcomeOf(await lease.task.apply(request, { repeat: true }));
      if (outcome === 'unknown' || !('applied' in outcome)) return outcome;
      lease.task.announce('task_closing', { errorClass: closing.errorClass, reason: closing.to });
      return 'done';
    },
    endClose: (lease) =>
      ledgerThen(lease, { type: 'end-close', retentionMs, leaseMs: lease.task.timing.leaseMs }, async (record) => {
        if (record.state === 'dead_lettered') await desk.finishDeadLettered(lease.held, record);
        if (record.state === 'cancelled') {
          lease.task.announce('task_cancelled');
          await session.complete(lease.held);
        }
      }),
    askHuman: async (lease, question) =>
      ledgerThen(
        lease,
        { type: 'ask-human', question: question.slice(0, 500), parked: desk.parcel(lease.held) },
        () => {
          lease.task.announce('human_asked');
          return session.complete(lease.held);
        },
      ),
    resend: (record) => desk.resend(record),
    sendFollowUps: (record) => desk.sendFollowUps(record),
    extend: (busy, leaseMs) => session.extend(busy.held, leaseMs),
    handBack: (held, delayMs) => session.release(held, delayMs),
    drain: () => desk.drain(),
    async close() {
      await desk.drain();
      await session.close();
      await ledger.close();
    },
    [Symbol.asyncDispose]: () => broker.close(),
  };
  return broker;
}
