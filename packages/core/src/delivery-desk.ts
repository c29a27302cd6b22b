import type { BrokerSession, HeldDelivery } from './broker-session.ts';
import { publish, type LeaseholdEvent } from './channel.ts';
import { sleep, type Clock } from './clock.ts';
import { decide, isRefusal } from './decide.ts';
import { enqueueTasks, followUpTask } from './enqueue.ts';
import {
  IDENTITY_ATTRIBUTE,
  readMessage,
  TASK_ID_ATTRIBUTE,
  TOKEN_ATTRIBUTE,
  type TaskCodec,
  type TaskMessage,
} from './envelope.ts';
import { isLeaseholdError } from './errors.ts';
import type { Refusal, TaskEvent } from './events.ts';
import type { Acquired, Busy, Handled, Lease } from './lease.ts';
import type { LedgerSession } from './ledger-session.ts';
import type { Ownership } from './ownership.ts';
import { parcelOf, unparcel } from './parked-message.ts';
import type { Content, TaskRecord } from './record.ts';
import { newOpId, type TaskLease } from './task-lease.ts';

const CALL_TIMEOUT_MS = 10_000;
/** How long a message that cannot be handled here stays away, where the broker keeps delays that long. */
const LONGEST_DELAY_MS = 15 * 60_000;
/** How long such a message is held before it is given back, where the broker keeps no delay at all. */
const HOLD_MS = 1_000;

/** Everything that a delivery can need besides being worked on: replies to refusals, copies, dead letters, follow-ups. */
export interface DeliveryDesk {
  readonly longestDelay: number;
  /** Runs the broker's half of something the ledger already has. */
  inBackground(work: Promise<unknown>): void;
  drain(): Promise<void>;
  read(held: HeldDelivery): Promise<TaskMessage | Handled>;
  granted(held: HeldDelivery, message: TaskMessage, task: TaskLease): Lease;
  ended(held: HeldDelivery, message: TaskMessage, record: TaskRecord): Promise<Handled>;
  refused(
    held: HeldDelivery,
    message: TaskMessage,
    refusal: Refusal,
    record: TaskRecord | undefined,
  ): Promise<Acquired>;
  giveBack(held: HeldDelivery, message: TaskMessage, why: Handled['why'], delayMs: number): Promise<Handled>;
  /** A task that cannot start here just now: given back for others, or kept when it was given back too often already. */
  defer(held: HeldDelivery, message: TaskMessage, delayMs: number): Promise<Handled | Busy>;
  reject(held: HeldDelivery, message: TaskMessage, why: Handled['why'], description: string): Promise<Handled>;
  leaveToLapse(message: TaskMessage, cause: string): Handled;
  drop(message: TaskMessage): Handled;
  /** After a release in the ledger: in place where it can wait there, else as a delayed copy. */
  sendBack(lease: Lease, delayMs: number): Promise<void>;
  /** After a hand-off in the ledger: a copy with a fresh delivery count and age, in place where there is ordering. */
  passOn(lease: Lease): Promise<void>;
  /** The message as a record parks it. */
  parcel(held: HeldDelivery): Content;
  resend(record: TaskRecord): Promise<boolean>;
  /** Sends what a settled task asked for and notes it; false when the broker did not confirm all of it, or the ledger the note. */
  sendFollowUps(record: TaskRecord, groupId?: string): Promise<boolean>;
  /** After a settle in the ledger: pending follow-ups, then the acknowledgement. */
  finishSettled(held: HeldDelivery, record: TaskRecord): Promise<void>;
  /** After a dead-lettering in the ledger: the broker's half, then the note that it is done. */
  finishDeadLettered(held: HeldDelivery, record: TaskRecord): Promise<boolean>;
}

class HeldLease implements Lease {
  readonly kind = 'lease';
  readonly held: HeldDelivery;
  readonly message: TaskMessage;
  readonly task: TaskLease;

  constructor(held: HeldDelivery, message: TaskMessage, task: TaskLease) {
    this.held = held;
    this.message = message;
    this.task = task;
  }

  get taskId(): string {
    return this.task.taskId;
  }

  get token(): number {
    return this.task.token;
  }

  get ownership(): Ownership {
    return this.task.ownership();
  }

  get record(): TaskRecord {
    return this.task.record;
  }
}

/** Makes the desk of one lease broker. */
export function deliveryDesk(parts: {
  readonly session: BrokerSession;
  readonly ledger: LedgerSession;
  readonly clock: Clock;
  readonly codec: TaskCodec;
}): DeliveryDesk {
  const { session, ledger, clock, codec } = parts;
  const background = new Set<Promise<unknown>>();
  /** Deliveries whose message names no task. */
  const unnamed = new WeakSet<HeldDelivery['delivery']>();
  /** The attributes of a message that is sent again, or away. */
  const attributesOf = ({ delivery }: HeldDelivery): Record<string, string> => ({
    ...delivery.attributes,
    ...(unnamed.has(delivery) && { [IDENTITY_ATTRIBUTE]: 'message-id' }),
  });
  const longestDelay = (): number => Math.min(LONGEST_DELAY_MS, session.capabilities.releaseDelayMs);

  const announce = (
    name: LeaseholdEvent['name'],
    message: Pick<TaskMessage, 'taskId' | 'taskType'>,
    fields: Partial<LeaseholdEvent> = {},
  ): void => publish({ ...fields, name, at: clock.wall(), taskId: message.taskId, taskType: message.taskType });
  const handled = (why: Handled['why'], taskId: string | undefined, acknowledged: boolean): Handled => ({
    kind: 'handled',
    why,
    taskId,
    acknowledged,
  });

  /** Notes the broker's half of something in the record. False when the ledger did not answer, so that the record may not say it. */
  const note = async (record: TaskRecord, type: 'follow-ups-sent' | 'dead-letter-sent'): Promise<boolean> => {
    const now = await ledger.time(record.taskId, CALL_TIMEOUT_MS);
    if ('unanswered' in now) return false;
    const event: TaskEvent = { type, opId: newOpId() };
    const outcome = decide(record, event, now);
    if (isRefusal(outcome)) return true;
    return !('unanswered' in (await ledger.put(outcome.next, undefined, outcome.expect, CALL_TIMEOUT_MS)));
  };
  /** Moves a message to the dead-letter queue; without one it is released as far away as the broker can. True when it left the queue. */
  const toDeadLetters = async (
    held: HeldDelivery,
    reason: string,
    description: string,
    record?: TaskRecord,
  ): Promise<boolean> => {
    if (session.capabilities.deadLetter === 'none') {
      if (session.capabilities.releaseDelayMs === 0) await sleep(clock, HOLD_MS);
      await session.release(held, longestDelay());
      return false;
    }
    const attributes: Record<string, string> = { ...attributesOf(held), leaseholdreason: reason };
    if (record) {
      attributes[TASK_ID_ATTRIBUTE] = record.taskId;
      attributes[TOKEN_ATTRIBUTE] = String(record.fencingToken);
    }
    return (await session.reject(held, { reason, description: description.slice(0, 500), attributes })) === 'done';
  };
  /** Sends the message again and, once that is confirmed, acknowledges the old one. */
  const copy = async (
    held: HeldDelivery,
    again: { readonly taskId: string; readonly token?: number; readonly once?: string },
    delayMs: number,
  ): Promise<boolean> => {
    const attributes: Record<string, string> = { ...attributesOf(held), [TASK_ID_ATTRIBUTE]: again.taskId };
    if (again.token !== undefined) attributes[TOKEN_ATTRIBUTE] = String(again.token);
    const [sent] = await session.send([
      {
        body: held.delivery.body,
        attributes,
        ...(again.token !== undefined && {
          deduplicationId: [again.taskId, again.token, ...(again.once === undefined ? [] : [again.once])].join(':'),
        }),
        ...(delayMs > 0 && { delayMs }),
        ...(held.delivery.groupId !== undefined && { groupId: held.delivery.groupId }),
      },
    ]);
    // Unconfirmed, the old message stays: two copies are harmless, none would be a lost task.
    if (!sent || !('messageId' in sent)) return false;
    await session.complete(held);
    return true;
  };
  /** In place where the broker keeps the delay (or the order), else as a delayed copy. */
  const back = async (held: HeldDelivery, again: Parameters<typeof copy>[1], delayMs: number): Promise<void> => {
    const { releaseDelayMs, sendDelayMs } = session.capabilities;
    if (!ordered(held) && delayMs > releaseDelayMs && sendDelayMs > releaseDelayMs) {
      if (await copy(held, again, Math.min(delayMs, sendDelayMs))) return;
    }
    await session.release(held, delayMs);
  };
  /** The longest a message can be made to wait outside of this process. */
  const longestWait = (held: HeldDelivery): number => {
    const { releaseDelayMs, sendDelayMs } = session.capabilities;
    return ordered(held) ? releaseDelayMs : Math.max(releaseDelayMs, sendDelayMs);
  };
  const ordered = (held: HeldDelivery): boolean => session.capabilities.ordering && held.delivery.groupId !== undefined;

  const desk: DeliveryDesk = {
    get longestDelay() {
      return longestDelay();
    },
    inBackground(work) {
      background.add(work);
      const gone = (): void => void background.delete(work);
      work.then(gone, (error: unknown) => {
        gone();
        publish({
          name: 'warning',
          at: clock.wall(),
          reason: 'the broker was not told',
          cause: error instanceof Error ? error.name : 'unknown',
        });
      });
    },
    async drain() {
      do {
        await Promise.allSettled(background);
        await session.drain();
      } while (background.size > 0);
    },
    async read(held) {
      try {
        const message = readMessage(codec, session.driver.name, held.delivery);
        if (message.identity === 'message-id') unnamed.add(held.delivery);
        return message;
      } catch (error) {
        // A codec of the user's may throw anything; the rest of the batch is not to suffer.
        const what = isLeaseholdError(error) ? error.message : 'the codec of this queue could not read it';
        // Elsewhere the field is a path into the payload, which no event may show.
        const field = isLeaseholdError(error) && error.code === 'bad-message' ? error.field : undefined;
        const gone = await toDeadLetters(held, 'undecodable', what);
        publish({
          name: 'task_dead_lettered',
          at: clock.wall(),
          errorClass: 'undecodable',
          ...(field !== undefined && { cause: field }),
        });
        return handled('undecodable', undefined, gone);
      }
    },
    granted(held, message, task) {
      task.announce('task_claimed', { count: task.record.failures });
      return new HeldLease(held, message, task);
    },
    async ended(held, message, record) {
      if (record.state === 'cancelled') {
        announce('task_cancelled', message, { token: record.fencingToken });
        await session.complete(held);
        return handled('cancelled', message.taskId, true);
      }
      return handled('dead-lettered', message.taskId, await desk.finishDeadLettered(held, record));
    },
    async refused(held, message, refusal, record) {
      switch (refusal.refused) {
        case 'settled':
          if (!record) break;
          announce('task_replayed', message, { token: record.fencingToken });
          await desk.finishSettled(held, record);
          return { kind: 'replay', taskId: message.taskId, receipt: record.settlementReceipt, record };
        case 'busy':
          announce('duplicate_delivery', message, {
            ...(record && { token: record.fencingToken, owner: record.leaseOwner ?? '' }),
          });
          return { kind: 'busy', taskId: message.taskId, waitMs: refusal.waitMs ?? 0, held };
        case 'not-yet':
          if (!record) break;
          announce('task_deferred', message, { reason: 'not-yet', delayMs: refusal.waitMs ?? 0 });
          // Given back, it would return at once, and again, until the broker gave it up: it is held like a busy one.
          if (longestWait(held) === 0)
            return { kind: 'busy', taskId: message.taskId, waitMs: refusal.waitMs ?? 0, held };
          // A copy that came too early is copied once more: under its old name a broker that deduplicates would drop it, and the task with it.
          await back(
            held,
            { taskId: record.taskId, token: record.fencingToken, once: held.delivery.messageId },
            refusal.waitMs ?? 0,
          );
          return handled('not-yet', message.taskId, false);
        case 'cancelled':
        case 'waiting-human':
          await session.complete(held);
          return handled(refusal.refused, message.taskId, true);
        case 'dead-lettered':
          if (!record) break;
          return handled('dead-lettered', message.taskId, await desk.finishDeadLettered(held, record));
        case 'task-id-reused':
        case 'older-than-ledger':
          return desk.reject(held, message, refusal.refused, refusal.message);
        case 'newer-schema':
          return desk.giveBack(held, message, 'newer-schema', longestDelay());
        default:
          break;
      }
      return desk.leaveToLapse(message, refusal.refused);
    },
    async giveBack(held, message, why, delayMs) {
      announce('task_deferred', message, { reason: why, delayMs });
      if (session.capabilities.releaseDelayMs === 0) await sleep(clock, HOLD_MS);
      await session.release(held, delayMs);
      return handled(why, message.taskId, false);
    },
    async defer(held, message, delayMs) {
      const { maxDeliveries, releaseDelayMs } = session.capabilities;
      const deliveries = held.delivery.deliveryCount ?? Number.POSITIVE_INFINITY;
      // Waiting for its turn must not use up the deliveries after which the broker gives a message up.
      if (releaseDelayMs > 0 && !(deliveries > (maxDeliveries ?? Number.POSITIVE_INFINITY) / 3))
        return desk.giveBack(held, message, 'deferred', delayMs);
      announce('task_deferred', message, { reason: 'kept', delayMs });
      return { kind: 'busy', taskId: message.taskId, waitMs: delayMs, held, deferred: true };
    },
    async reject(held, message, why, description) {
      announce('task_dead_lettered', message, { errorClass: why });
      return handled(why, message.taskId, await toDeadLetters(held, why, description));
    },
    leaveToLapse(message, cause) {
      announce('task_left_to_lapse', message, { cause });
      return { ...handled('unanswered', message.taskId, false), cause };
    },
    drop(message) {
      announce('task_left_to_lapse', message, { cause: 'lapsed-delivery' });
      return handled('lapsed-delivery', message.taskId, false);
    },
    sendBack: (lease, delayMs) => back(lease.held, { taskId: lease.taskId, token: lease.token }, delayMs),
    async passOn(lease) {
      if (!ordered(lease.held) && (await copy(lease.held, { taskId: lease.taskId, token: lease.token }, 0))) return;
      await session.release(lease.held, 0);
    },
    parcel: (held) => parcelOf(held.delivery, attributesOf(held), ledger.driver),
    async resend(record) {
      const parked = unparcel(record);
      if (!parked) return false;
      const [sent] = await session.send([parked]);
      return sent !== undefined && 'messageId' in sent;
    },
    async finishSettled(held, record) {
      // Unsent follow-ups stay in the record; the message is not acknowledged, so its next delivery sends them.
      if (record.next && !(await desk.sendFollowUps(record, held.delivery.groupId))) return;
      await session.complete(held);
    },
    async sendFollowUps(record, groupId) {
      if (!record.next) return true;
      const parent = { agentRunId: record.agentRunId, groupId };
      const outcomes = await enqueueTasks(
        session,
        codec,
        record.next.map((followUp) => followUpTask(followUp, parent)),
      );
      if (!outcomes.every((outcome) => outcome.ok)) return false;
      publish({
        name: 'follow_ups_sent',
        at: clock.wall(),
        taskId: record.taskId,
        taskType: record.taskType,
        count: outcomes.length,
      });
      // Not noted, they are sent once more at the next delivery, under the same ids: else the record would keep their content.
      return note(record, 'follow-ups-sent');
    },
    async finishDeadLettered(held, record) {
      const error = record.lastError;
      publish({
        name: 'task_dead_lettered',
        at: clock.wall(),
        taskId: record.taskId,
        taskType: record.taskType,
        token: record.fencingToken,
        stage: record.stage,
        errorClass: error?.errorClass ?? 'unknown',
        errorCode: error?.code ?? 'unknown',
      });
      const gone = await toDeadLetters(held, error?.errorClass ?? 'dead-lettered', error?.message ?? '', record);
      if (gone) await note(record, 'dead-letter-sent');
      return gone;
    },
  };
  return desk;
}
