import type { Closing, FollowUp, HandleOutcome, Lease, LeaseBroker, Lost, Outcome, Settlement, Stage, TaskError, TaskLease } from '@leasehold/core';

/** What an attempt needs of whoever gave it the task: a lease broker, or a ledger alone. */
export interface AttemptPort {
  readonly task: TaskLease;
  /** The monotonic instant until which the message is kept for us; infinite without a message, or where that cannot be prolonged. */
  brokerUntil(): number;
  /** The monotonic instant of the backend's total cap; infinite without one. */
  readonly capAt: number;
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
export function brokerPort(broker: LeaseBroker, lease: Lease): AttemptPort {
  return {
    task: lease.task,
    brokerUntil: () => (broker.capabilities.extend ? lease.held.heldUntil : Number.POSITIVE_INFINITY),
    capAt: lease.held.capAt,
    renew: (claim) => broker.renew(lease, claim),
    settle: (outcome) => broker.settle(lease, outcome),
    release: (why) => broker.release(lease, why),
    handOff: (why) => broker.handOff(lease, why),
    deadLetter: (why) => broker.deadLetter(lease, why),
    beginClose: (closing) => broker.beginClose(lease, closing),
    endClose: () => broker.endClose(lease),
    askHuman: (question) => broker.askHuman(lease, question),
  };
}

/** A task that somebody else's consumer holds the message of: the ledger's half alone, and `extend` to keep the message. */
export function ledgerPort(
  task: TaskLease,
  parts: { readonly retentionMs: number; readonly extend?: (leaseMs: number) => Promise<unknown>; readonly onFollowUps?: (next: readonly FollowUp[]) => void },
): AttemptPort {
  const leaseMs = task.timing.leaseMs;
  const apply = async (request: Parameters<TaskLease['apply']>[0]): Promise<Outcome> => {
    const answer = await task.apply(request, { repeat: true });
    if ('applied' in answer) return 'done';
    return 'unknown' in answer ? 'unknown' : answer;
  };
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
    async renew(claim) {
      task.carryProgress(claim.stage, claim.reason);
      const answer = await task.apply({ type: 'renew', leaseMs }, { repeat: false });
      if ('lost' in answer) return answer;
      if (!('applied' in answer)) return 'unknown';
      void extend();
      return task.ownership() === 'held' ? 'held' : 'unknown';
    },
    async settle(outcome) {
      const result = await apply({ type: 'settle', retentionMs: parts.retentionMs, ...outcome });
      return result === 'done' ? 'settled' : result;
    },
    release: (why) => apply({ type: 'release', error: why.error, delayMs: Math.ceil(why.delayMs ?? 0), failure: why.failure }),
    handOff: (why) => apply({ type: 'hand-off', ...why }),
    deadLetter: (why) => apply({ type: 'dead-letter', error: why, retentionMs: parts.retentionMs }),
    beginClose: (closing) => apply({ type: 'begin-close', closing, leaseMs }),
    endClose: () => apply({ type: 'end-close', retentionMs: parts.retentionMs, leaseMs }),
    askHuman: (question) => apply({ type: 'ask-human', question, parked: { omitted: 'the message is its consumer\'s own' } }),
  };
}
