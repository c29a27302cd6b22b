import { followUpTask, LeaseholdError } from '@leasehold/core';
import type {
  Closing,
  EventName,
  FollowUp,
  HandleOutcome,
  Lease,
  LeaseBroker,
  Lost,
  Outcome,
  Settlement,
  Stage,
  TaskError,
  TaskLease,
} from '@leasehold/core';

/** What an attempt needs of whoever gave it the task: a lease broker, or a ledger alone. */
export interface AttemptPort {
  readonly task: TaskLease;
  /** The monotonic instant until which the message is kept for us; infinite without a message, or where that cannot be prolonged. */
  brokerUntil(): number;
  /** The monotonic instant of the backend's total cap; infinite without one. */
  readonly capAt: number;
  /** Throws for a follow-up that could never be sent: its parent would be settled, and its message stay for ever. */
  checkFollowUp(followUp: FollowUp): void;
  renew(claim: { readonly stage: Stage; readonly reason: string }): Promise<'held' | 'unknown' | Lost>;
  settle(outcome: Settlement): ReturnType<LeaseBroker['settle']>;
  release(why: { readonly error: TaskError; readonly delayMs?: number; readonly failure: boolean }): Promise<Outcome>;
  handOff(why: { readonly reason: string; readonly progressed: boolean }): Promise<Outcome>;
  deadLetter(why: TaskError): Promise<Outcome>;
  beginClose(closing: Closing): Promise<Outcome>;
  endClose(): Promise<Outcome>;
  askHuman(question: string): Promise<Outcome>;
}

/** A task that a broker delivered. */
export class BrokerPort implements AttemptPort {
  readonly #broker: LeaseBroker;
  readonly #lease: Lease;
  constructor(broker: LeaseBroker, lease: Lease) {
    this.#broker = broker;
    this.#lease = lease;
  }

  get task(): TaskLease {
    return this.#lease.task;
  }

  checkFollowUp(followUp: FollowUp): void {
    const { held, record } = this.#lease;
    this.#broker.check(followUpTask(followUp, { agentRunId: record.agentRunId, groupId: held.delivery.groupId }));
  }

  get capAt(): number {
    return this.#lease.held.capAt;
  }

  brokerUntil(): number {
    return this.#broker.capabilities.extend ? this.#lease.held.heldUntil : Number.POSITIVE_INFINITY;
  }

  renew(claim: Parameters<AttemptPort['renew']>[0]): ReturnType<AttemptPort['renew']> {
    return this.#broker.renew(this.#lease, claim);
  }

  settle(outcome: Settlement): ReturnType<AttemptPort['settle']> {
    return this.#broker.settle(this.#lease, outcome);
  }

  release(why: Parameters<AttemptPort['release']>[0]): Promise<Outcome> {
    return this.#broker.release(this.#lease, why);
  }

  handOff(why: Parameters<AttemptPort['handOff']>[0]): Promise<Outcome> {
    return this.#broker.handOff(this.#lease, why);
  }

  deadLetter(why: TaskError): Promise<Outcome> {
    return this.#broker.deadLetter(this.#lease, why);
  }

  beginClose(closing: Closing): Promise<Outcome> {
    return this.#broker.beginClose(this.#lease, closing);
  }

  endClose(): Promise<Outcome> {
    return this.#broker.endClose(this.#lease);
  }

  askHuman(question: string): Promise<Outcome> {
    return this.#broker.askHuman(this.#lease, question);
  }
}

/** A task that somebody else's consumer holds the message of: the ledger's half alone, and `extend` to keep the message. */
export function ledgerPort(
  task: TaskLease,
  parts: { readonly retentionMs: number; readonly extend?: (leaseMs: number) => Promise<unknown> },
): AttemptPort {
  const { retentionMs } = parts;
  const leaseMs = task.timing.leaseMs;
  const apply = async (
    request: Parameters<TaskLease['apply']>[0],
    name?: EventName,
    fields: Parameters<TaskLease['announce']>[1] = {},
  ): Promise<Outcome> => {
    const answer = await task.apply(request, { repeat: true });
    if (!('applied' in answer)) return 'unknown' in answer ? 'unknown' : answer;
    if (name) task.announce(name, fields);
    return 'done';
  };
  const inQuestion = (): { lastConfirmedAt: number } => ({ lastConfirmedAt: task.lastConfirmedAt });
  const extend = async (): Promise<HandleOutcome> => {
    try {
      await parts.extend?.(leaseMs);
      return 'done';
    } catch {
      // The message is the consumer's own; the ledger says who owns the task.
      task.announce('delivery_gone', { cause: 'extend' });
      return 'gone';
    }
  };
  return {
    task,
    brokerUntil: () => Number.POSITIVE_INFINITY,
    capAt: Number.POSITIVE_INFINITY,
    checkFollowUp() {
      throw new LeaseholdError(
        'bad-task',
        'ctx.next: there is no broker here to send follow-ups; send them yourself once this has settled.',
      );
    },
    async renew(claim) {
      task.carryProgress(claim.stage, claim.reason);
      const answer = await task.apply({ type: 'renew', leaseMs }, { repeat: false });
      if ('lost' in answer) {
        task.announce('heartbeat_lost', { cause: answer.lost, ...inQuestion() });
        return answer;
      }
      if (!('applied' in answer)) {
        task.announce('heartbeat_unknown', { ownership: 'unknown', ...inQuestion() });
        return 'unknown';
      }
      task.announce('heartbeat_ok');
      void extend();
      return task.ownership() === 'held' ? 'held' : 'unknown';
    },
    async settle(outcome) {
      const { externalSystem, externalId } = outcome.receipt;
      const result = await apply({ type: 'settle', retentionMs, ...outcome }, 'task_settled', {
        externalSystem,
        externalId,
      });
      return result === 'done' ? 'settled' : result;
    },
    release({ error, delayMs = 0, failure }) {
      const delay = Math.ceil(delayMs);
      const fields = { errorClass: error.errorClass, errorCode: error.code, delayMs: delay };
      return apply({ type: 'release', error, delayMs: delay, failure }, 'task_released', fields);
    },
    handOff: (why) => apply({ type: 'hand-off', ...why }, 'task_handed_off', { reason: why.reason }),
    deadLetter: (error) =>
      apply({ type: 'dead-letter', error, retentionMs }, 'task_dead_lettered', {
        errorClass: error.errorClass,
        errorCode: error.code,
      }),
    beginClose: (closing) =>
      apply({ type: 'begin-close', closing, leaseMs }, 'task_closing', {
        errorClass: closing.errorClass,
        reason: closing.to,
      }),
    async endClose() {
      const outcome = await apply({ type: 'end-close', retentionMs, leaseMs });
      const { state, lastError } = task.record;
      if (outcome === 'done' && state === 'cancelled') task.announce('task_cancelled');
      if (outcome === 'done' && state === 'dead_lettered')
        task.announce('task_dead_lettered', {
          ...(lastError && { errorClass: lastError.errorClass, errorCode: lastError.code }),
        });
      return outcome;
    },
    askHuman: (question) =>
      apply({ type: 'ask-human', question, parked: { omitted: "the message is its consumer's own" } }, 'human_asked'),
  };
}
