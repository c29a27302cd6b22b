import type { PutExpectation } from './driver.ts';
import type { CancelEvent, ClaimEvent, Decision, OwnersEvent, Refusal, RefusalCause, TaskEvent } from './events.ts';
import {
  blank,
  buried,
  cancelled,
  carry,
  changed,
  deadLettered,
  decision,
  effectOf,
  ENDED,
  entered,
  hasVerified,
  inDoubt,
  REOPENED,
  toError,
  withEffect,
  type Changes,
} from './record-changes.ts';
import { isLapsed, isNewerSchema, isTerminal, MOST_QUESTIONS, SCHEMA_VERSION } from './record.ts';
import type { Closing, EffectRecord, StoreTime, TaskRecord } from './record.ts';
import { keepsMessage } from './parked-message.ts';

/**
 * The rules of the protocol, all of them: what a record becomes when something happens to it, or why it does not.
 * Pure. Expiries are left to the store: the decision says how long a lease to stamp and on what the write is conditional;
 * `now` only shows what is already certain.
 */
export function decide(record: TaskRecord | undefined, event: TaskEvent, now: StoreTime): Decision | Refusal {
  if (record && isNewerSchema(record)) {
    return refuse(
      'newer-schema',
      `the record has format ${record.schemaVersion}, this version knows ${SCHEMA_VERSION}`,
    );
  }
  if (event.type === 'claim') return record ? claim(record, event, now) : create(event, now);
  if (event.type === 'cancel') return record ? cancel(record, event, now) : tombstone(event, now);
  if (!record) return refuse('no-record', 'there is no record of this task');
  switch (event.type) {
    case 'answer': {
      if (record.state !== 'waiting_human')
        return refuse('nothing-to-do', `the task is ${record.state}, not waiting for a person`);
      // The envelope stays until the next claim: whoever was to send it again may die in between.
      const asked = record.human?.at(-1) ?? { question: '', askedAt: record.updatedAt };
      const answer = { ...asked, approved: event.approve, reason: event.reason, answeredAt: now.latest };
      const human = [...(record.human ?? []).slice(0, -1), answer];
      if (event.approve)
        return decision(record, event.opId, now, { state: 'queued', retryAt: undefined, human }, 'any');
      const error = { errorClass: 'rejected', code: 'rejected-by-human', message: event.reason };
      return decision(
        record,
        event.opId,
        now,
        {
          // The message was acknowledged long ago: there is nothing to move, and the parked one stays for a reopening.
          ...buried(record, error, event.retentionMs, now),
          human,
          effects: inDoubt(record.effects),
          parked: record.parked,
          deadLetterSent: true,
        },
        'any',
      );
    }
    case 'reopen':
      if (record.state !== 'dead_lettered')
        return refuse('nothing-to-do', `the task is ${record.state}, not dead-lettered`);
      return decision(record, event.opId, now, REOPENED, 'any');
    case 'sweep': {
      if (isTerminal(record.state)) return refuse('nothing-to-do', `the task is ${record.state} already`);
      if (record.state === 'running' && !isLapsed(record, now)) return busy(record, now);
      if (openEffects(record).length > 0) return effectOpen(record);
      const error = { errorClass: 'swept', code: 'swept', message: event.reason };
      return decision(
        record,
        event.opId,
        now,
        buried(record, error, event.retentionMs, now),
        record.state === 'running' ? 'lapsed' : 'any',
      );
    }
    case 'follow-ups-sent':
      if (record.state !== 'settled' || !record.next)
        return refuse('nothing-to-do', 'the task has no follow-ups to send');
      return decision(record, event.opId, now, { next: undefined }, 'any');
    case 'dead-letter-sent':
      if (record.state !== 'dead_lettered' || record.deadLetterSent)
        return refuse('nothing-to-do', 'nothing is left to send');
      return decision(record, event.opId, now, { deadLetterSent: true }, 'any');
    default:
      return ownersWrite(record, event, now);
  }
}

/** True for a refusal. */
export function isRefusal(outcome: Decision | Refusal): outcome is Refusal {
  return 'refused' in outcome;
}

/** The names of the effects that were intended and not read back since. */
export function openEffects(record: Pick<TaskRecord, 'effects'>): readonly string[] {
  return Object.keys(record.effects).filter((name) => record.effects[name]?.status === 'intended');
}

function create(event: ClaimEvent, now: StoreTime): Decision | Refusal {
  // A message that was sent again had a record, and one older than the retention may have had: starting over would restart the tokens.
  if (event.carriedToken !== undefined) {
    return refuse('older-than-ledger', `the message bears token ${event.carriedToken}, but its record is gone`);
  }
  if (event.sentAt !== undefined && event.sentAt + event.retentionMs <= now.latest) {
    return refuse('older-than-ledger', 'the message is older than the retention of the ledger and has no record');
  }
  const first: TaskRecord = {
    ...blank(event.taskId, event.taskType, event.idempotencyKey, now),
    state: 'queued',
    payloadHash: event.payloadHash,
    ...(event.agentRunId !== undefined && { agentRunId: event.agentRunId }),
    ...(event.traceId !== undefined && { traceId: event.traceId }),
  };
  return grant(first, event, now, { version: 0 });
}

function claim(record: TaskRecord, event: ClaimEvent, now: StoreTime): Decision | Refusal {
  if (
    record.payloadHash !== undefined &&
    (record.payloadHash !== event.payloadHash || record.taskType !== event.taskType)
  ) {
    return refuse('task-id-reused', 'the task is known under this id with another type or payload');
  }
  switch (record.state) {
    case 'settled':
      return refuse('settled', 'the task is settled');
    case 'cancelled':
      return refuse('cancelled', 'the task was cancelled');
    case 'waiting_human':
      return refuse('waiting-human', 'the task waits for a person');
    case 'dead_lettered':
      // Only the message that was dead-lettered last bears the current token: its return is a redrive.
      if (event.carriedToken !== record.fencingToken) return refuse('dead-lettered', 'the task was dead-lettered');
      return grant(changed(record, REOPENED), event, now, { version: record.version, lease: 'any' });
    case 'queued':
      if (record.retryAt !== undefined && record.retryAt > now.earliest) {
        return { ...refuse('not-yet', 'the task is to be retried later'), waitMs: record.retryAt - now.earliest };
      }
      return grant(record, event, now, { version: record.version, lease: 'any' });
    case 'running': {
      if (!isLapsed(record, now)) return busy(record, now);
      const lapse = {
        errorClass: 'lapsed',
        code: 'lapsed',
        message: `the lease of ${record.leaseOwner ?? 'its owner'} ended`,
      };
      const failed = changed(record, { failures: record.failures + 1, lastError: lapse });
      return grant(failed, event, now, { version: record.version, lease: 'lapsed' });
    }
  }
}

/** A claim is where attempts, deadline and cancellation are examined: an owner that died never got to. */
function grant(record: TaskRecord, event: ClaimEvent, now: StoreTime, expect: PutExpectation): Decision {
  const open = openEffects(record).length > 0;
  // What exists outside cannot be cancelled any more: the task goes on to its settling.
  const begun = record.closing?.to === 'cancelled' && !open && hasVerified(record) ? undefined : record.closing;
  const out = begun ? undefined : wayOut(record, event, now);
  const closing = begun ?? (out && { ...out, failures: record.failures });
  const written = { version: record.version + 1, opId: event.opId, updatedAt: now.latest };
  if (closing && !open) {
    const error = toError(closing);
    const end =
      closing.to === 'cancelled'
        ? cancelled(error, event.retentionMs, now)
        : buried(record, error, event.retentionMs, now);
    return { next: changed(record, { ...end, ...written }), expect };
  }
  const next = changed(record, {
    ...written,
    state: 'running',
    leaseOwner: event.owner,
    fencingToken: record.fencingToken + 1,
    attempt: record.attempt + 1,
    heartbeatAt: now.latest,
    deadlineAt: record.deadlineAt ?? (event.deadlineMs === undefined ? undefined : now.latest + event.deadlineMs),
    retryAt: undefined,
    expiresAt: undefined,
    parked: undefined,
    closing,
  });
  return { next, leaseMs: event.leaseMs, expect };
}

function wayOut(record: TaskRecord, event: ClaimEvent, now: StoreTime): Closing | undefined {
  if (record.cancelRequested && !hasVerified(record)) {
    return { to: 'cancelled', reason: 'cancelled on request', errorClass: 'cancelled' };
  }
  if (record.failures >= event.attempts) {
    const last = record.lastError ? ` (last: ${record.lastError.errorClass}: ${record.lastError.message})` : '';
    return {
      to: 'dead_lettered',
      reason: `${record.failures} of ${event.attempts} attempts failed${last}`,
      errorClass: 'attempts-exhausted',
    };
  }
  if (record.deadlineAt !== undefined && record.deadlineAt <= now.earliest) {
    return { to: 'dead_lettered', reason: 'the deadline of the task has passed', errorClass: 'deadline' };
  }
  return undefined;
}

function ownersWrite(before: TaskRecord, event: OwnersEvent, now: StoreTime): Decision | Refusal {
  const lost = ownershipLost(before, event, now);
  if (lost) return lost;
  const record = carry(before, event.carry, now);
  const write = (fields: Changes, leaseMs?: number): Decision =>
    decision(record, event.opId, now, fields, 'live', leaseMs);
  const given = { state: 'queued', leaseOwner: undefined, leaseExpiresAt: undefined } as const;
  switch (event.type) {
    case 'renew':
      return write({ renewalCount: record.renewalCount + 1, heartbeatAt: now.latest }, event.leaseMs);
    case 'intend': {
      if (record.cancelRequested && !hasVerified(record)) {
        return refuse('cancel-requested', 'the task is to be cancelled: no new effect may start');
      }
      if (record.closing) return refuse('closing', 'the task is being closed: no new effect may start');
      const known = effectOf(record, event.effect);
      if (known && known.key !== event.details.key) {
        return refuse(
          'effect-key-changed',
          `effect "${event.effect}" has the key ${known.key}; one name cannot have two keys`,
        );
      }
      if (known?.status === 'verified') return refuse('effect-verified', `effect "${event.effect}" exists already`);
      const intended: EffectRecord = {
        ...known,
        ...event.details,
        status: 'intended',
        token: event.token,
        intendedAt: now.latest,
        leaseMs: event.leaseMs,
      };
      return write(
        {
          ...entered(record, 'commit', now),
          heartbeatAt: now.latest,
          effects: withEffect(record.effects, event.effect, intended),
        },
        event.leaseMs,
      );
    }
    case 'checkpoint':
      return write({ checkpoint: event.checkpoint, heartbeatAt: now.latest }, event.leaseMs);
    case 'settle': {
      if (openEffects(record).length > 0) return effectOpen(record);
      if (record.cancelRequested && !hasVerified(record))
        return refuse('cancel-requested', 'the task is to be cancelled and has no effect');
      if (record.closing && !(record.closing.to === 'cancelled' && hasVerified(record)))
        return refuse('closing', 'the task is being closed');
      if (event.receipt.taskId !== record.taskId || event.receipt.idempotencyKey !== record.idempotencyKey) {
        return refuse('receipt-mismatch', 'the receipt is about another task or key');
      }
      return write({
        ...ENDED,
        ...entered(record, 'settled', now),
        state: 'settled',
        settlementReceipt: { ...event.receipt, token: record.fencingToken },
        result: event.result,
        next: event.next?.length ? event.next : undefined,
        expiresAt: now.latest + event.retentionMs,
      });
    }
    case 'release':
      return write({
        ...given,
        lastError: event.error,
        failures: record.failures + (event.failure ? 1 : 0),
        retryAt: event.delayMs > 0 ? now.latest + event.delayMs : undefined,
        expiresAt: event.retentionMs === undefined ? undefined : now.latest + event.retentionMs,
      });
    case 'hand-off': {
      const error = { errorClass: 'hand-off', code: 'hand-off', message: event.reason };
      return write({ ...given, lastError: error, failures: record.failures + (event.progressed ? 0 : 1) });
    }
    case 'dead-letter':
      if (openEffects(record).length > 0) return effectOpen(record);
      return write(deadLettered(event.error, event.retentionMs, now));
    case 'begin-close':
      return write(
        { closing: event.closing, fencingToken: record.fencingToken + 1, heartbeatAt: now.latest },
        event.leaseMs,
      );
    case 'end-close': {
      if (!record.closing) return refuse('not-closing', 'the task is not being closed');
      if (openEffects(record).length > 0) return effectOpen(record);
      if (record.closing.to === 'cancelled' && hasVerified(record)) {
        return write({ closing: undefined, cancelRequested: undefined }, event.leaseMs);
      }
      const end = record.closing.to === 'cancelled' ? cancelled : deadLettered;
      return write(end(toError(record.closing), event.retentionMs, now));
    }
    case 'raise-token':
      return write(
        { fencingToken: Math.max(record.fencingToken, event.above) + 1, heartbeatAt: now.latest },
        event.leaseMs,
      );
    case 'ask-human':
      return write({
        ...given,
        state: 'waiting_human',
        parked: event.parked,
        human: [...(record.human ?? []), { question: event.question, askedAt: now.latest }].slice(-MOST_QUESTIONS),
      });
  }
}

/** Strict: a lapsed lease is over even when nobody took the task. */
function ownershipLost(record: TaskRecord, event: OwnersEvent, now: StoreTime): Refusal | undefined {
  if (record.fencingToken !== event.token)
    return refuse('taken-over', `the task has token ${record.fencingToken}, this owner ${event.token}`);
  switch (record.state) {
    case 'settled':
      return refuse('settled', 'the task is settled');
    case 'cancelled':
      return refuse('cancelled', 'the task was cancelled');
    case 'dead_lettered':
      return refuse('dead-lettered', 'the task was dead-lettered');
    case 'waiting_human':
      return refuse('waiting-human', 'the task waits for a person');
    case 'queued':
      return refuse('released', 'the lease was given back');
    case 'running':
      if (record.leaseOwner !== event.owner)
        return refuse('taken-over', `the task is held by ${record.leaseOwner ?? 'nobody'}`);
      return isLapsed(record, now) ? refuse('expired', 'the lease ended before this write') : undefined;
  }
}

function cancel(record: TaskRecord, event: CancelEvent, now: StoreTime): Decision | Refusal {
  if (record.state === 'settled') return refuse('settled', 'the task is settled');
  if (record.state === 'cancelled') return refuse('cancelled', 'the task was cancelled already');
  if (record.state === 'dead_lettered') return refuse('dead-lettered', 'the task was dead-lettered');
  if (openEffects(record).length > 0) {
    const kept = record.state === 'waiting_human' && keepsMessage(record);
    if (record.cancelRequested && !kept) return refuse('cancel-requested', 'the cancellation was asked for already');
    // Its message is parked here, so nobody would come by to read the effect back: it is to be sent again.
    const again = kept && ({ state: 'queued' } as const);
    return decision(record, event.opId, now, { cancelRequested: true, ...again }, 'any');
  }
  if (hasVerified(record)) return refuse('settle-wins', 'an effect of the task exists already; the task will settle');
  const error = { errorClass: 'cancelled', code: 'cancelled', message: event.reason };
  return decision(record, event.opId, now, cancelled(error, event.retentionMs, now), 'any');
}

/** A cancellation that came before the first claim. It has no payload hash, so that it stops whatever bears the id. */
function tombstone(event: CancelEvent, now: StoreTime): Decision {
  const next: TaskRecord = {
    ...blank(event.taskId, 'unknown', event.taskId, now),
    state: 'cancelled',
    version: 1,
    opId: event.opId,
    lastError: { errorClass: 'cancelled', code: 'cancelled', message: event.reason },
    expiresAt: now.latest + event.retentionMs,
  };
  return { next, expect: { version: 0 } };
}

function busy(record: TaskRecord, now: StoreTime): Refusal {
  const waitMs = Math.max(0, (record.leaseExpiresAt ?? 0) - now.earliest);
  return { ...refuse('busy', `the task is held by ${record.leaseOwner ?? 'another owner'}`), waitMs };
}

function effectOpen(record: TaskRecord): Refusal {
  return refuse('effect-open', `effect ${openEffects(record).join(', ')} was intended and not read back`);
}

function refuse(refused: RefusalCause, message: string): Refusal {
  return { refused, message };
}
