import type { Carried, Decision, EffectFinding } from './events.ts';
import { setOwn } from './json.ts';
import { HISTORY_LENGTH, SCHEMA_VERSION } from './record.ts';
import type { Closing, EffectRecord, StoreTime, TaskError, TaskRecord } from './record.ts';

/** Fields to set; those that are undefined are removed. */
export type Changes = { readonly [Field in keyof TaskRecord]?: TaskRecord[Field] | undefined };

/** What every way out of `running` leaves behind. */
export const ENDED: Changes = {
  leaseOwner: undefined,
  leaseExpiresAt: undefined,
  retryAt: undefined,
  checkpoint: undefined,
  parked: undefined,
  closing: undefined,
  cancelRequested: undefined,
};
/** What a reopening sets back. */
export const REOPENED: Changes = {
  state: 'queued',
  failures: 0,
  retryAt: undefined,
  deadlineAt: undefined,
  deadLetterSent: undefined,
  expiresAt: undefined,
};

/** The end of a task that is not to happen. */
export function cancelled(error: TaskError, retentionMs: number, now: StoreTime): Changes {
  return { ...ENDED, state: 'cancelled', lastError: error, expiresAt: now.latest + retentionMs };
}

/** The end of a task that failed. */
export function deadLettered(error: TaskError, retentionMs: number, now: StoreTime): Changes {
  // The checkpoint stays: a redriven task goes on from it.
  const { checkpoint: _kept, ...ended } = ENDED;
  return {
    ...ended,
    state: 'dead_lettered',
    lastError: error,
    deadLetterSent: false,
    expiresAt: now.latest + retentionMs,
  };
}

/** Dead-lettered by someone who holds no lease. A new token: messages sent again before bear the old one and must not look like a redrive. */
export function buried(record: TaskRecord, error: TaskError, retentionMs: number, now: StoreTime): Changes {
  return { ...deadLettered(error, retentionMs, now), fencingToken: record.fencingToken + 1 };
}

/** A way out as an error. */
export function toError(closing: Closing): TaskError {
  return { errorClass: closing.errorClass, code: closing.errorClass, message: closing.reason };
}

/** A write of these fields over `record`. */
export function decision(
  record: TaskRecord,
  opId: string,
  now: StoreTime,
  fields: Changes,
  lease: 'live' | 'lapsed' | 'any',
  leaseMs?: number,
): Decision {
  const next = changed(record, { ...fields, version: record.version + 1, opId, updatedAt: now.latest });
  return { next, ...(leaseMs !== undefined && { leaseMs }), expect: { version: record.version, lease } };
}

/** The record with these fields, those set to undefined removed. */
export function changed(record: TaskRecord, fields: Changes): TaskRecord {
  const set: Record<string, unknown> = {};
  let removes = false;
  for (const name in fields) {
    const field = name as keyof TaskRecord;
    if (fields[field] !== undefined) set[field] = fields[field];
    else if (record[field] !== undefined) removes = true;
  }
  if (!removes) return { ...record, ...set };
  const all = { ...record, ...fields } as TaskRecord;
  // Written out: an object that properties are deleted from, or that grows key by key, becomes a hash table, slow to copy.
  const next: Record<string, unknown> = {
    schemaVersion: all.schemaVersion,
    taskId: all.taskId,
    taskType: all.taskType,
    state: all.state,
    stage: all.stage,
    stageEnteredAt: all.stageEnteredAt,
    renewalCount: all.renewalCount,
    history: all.history,
    fencingToken: all.fencingToken,
    attempt: all.attempt,
    failures: all.failures,
    idempotencyKey: all.idempotencyKey,
    effects: all.effects,
    version: all.version,
    opId: all.opId,
    createdAt: all.createdAt,
    updatedAt: all.updatedAt,
  };
  for (const name in all) {
    const value = all[name as keyof TaskRecord];
    if (value !== undefined) next[name] = value;
  }
  return next as unknown as TaskRecord;
}

/** A record of a task nobody has claimed. */
export function blank(
  taskId: string,
  taskType: string,
  idempotencyKey: string,
  now: StoreTime,
): Omit<TaskRecord, 'state'> {
  return {
    schemaVersion: SCHEMA_VERSION,
    taskId,
    taskType,
    stage: 'preflight',
    stageEnteredAt: now.latest,
    renewalCount: 0,
    history: [],
    fencingToken: 0,
    attempt: 0,
    failures: 0,
    idempotencyKey,
    effects: {},
    version: 0,
    opId: '',
    createdAt: now.latest,
    updatedAt: now.latest,
  };
}

/** The record with the facts that ride on a write. */
export function carry(record: TaskRecord, carried: Carried | undefined, now: StoreTime): TaskRecord {
  let next = record;
  if (carried?.progress) {
    const { stage, reason } = carried.progress;
    const last = record.history.at(-1);
    const same = last?.stage === stage && last.reason === reason;
    // Claimed again, the same is no progress: its time stays that of the first claim.
    const history = same
      ? record.history
      : [...record.history, { stage, reason, at: now.latest }].slice(-HISTORY_LENGTH);
    next = changed(next, { ...entered(record, stage, now), renewalReason: reason, history });
  }
  for (const [name, finding] of Object.entries(carried?.effects ?? {})) {
    const known = effectOf(next, name);
    // What was once read back exists, whatever a later look makes of it.
    if (known && (known.status !== 'verified' || finding.status === 'verified'))
      next = changed(next, {
        effects: withEffect(next.effects, name, found(known, finding, record.fencingToken, now)),
      });
  }
  return next;
}

function found(known: EffectRecord, finding: EffectFinding, token: number, now: StoreTime): EffectRecord {
  if (finding.status !== 'verified') return { ...known, status: finding.status, token };
  return { ...known, ...finding, token, verifiedAt: now.latest };
}

/** The fields of entering a stage; none when it is the stage already. */
export function entered(record: TaskRecord, stage: TaskRecord['stage'], now: StoreTime): Changes {
  return record.stage === stage ? {} : { stage, stageEnteredAt: now.latest };
}

/** The effect of that name, whatever the name. */
export function effectOf(record: TaskRecord, name: string): EffectRecord | undefined {
  return Object.hasOwn(record.effects, name) ? record.effects[name] : undefined;
}

/** The effects with this one set. */
export function withEffect(effects: TaskRecord['effects'], name: string, effect: EffectRecord): TaskRecord['effects'] {
  const next: Record<string, EffectRecord> = { ...effects };
  // Not by assignment: an effect may have any name, `__proto__` too.
  setOwn(next, name, effect);
  return next;
}

/** Open effects marked as not known. */
export function inDoubt(effects: TaskRecord['effects']): TaskRecord['effects'] {
  return Object.fromEntries(
    Object.entries(effects).map(([name, effect]) => [
      name,
      effect.status === 'intended' ? { ...effect, status: 'in_doubt' as const } : effect,
    ]),
  );
}

/** Whether any effect is known to exist. */
export function hasVerified(record: TaskRecord): boolean {
  return Object.values(record.effects).some((effect) => effect.status === 'verified');
}
