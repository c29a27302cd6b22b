import type { Json } from './json.ts';

/** Where a task is in its life. The last three are terminal; a dead-lettered task can be reopened. */
export type TaskState = 'queued' | 'running' | 'waiting_human' | 'settled' | 'dead_lettered' | 'cancelled';

/** How far the work itself has come. */
export type Stage = 'preflight' | 'external_call' | 'commit' | 'verify' | 'settled';

/** An instant as the store's clock knows it: the true time lies within. Epoch milliseconds. */
export interface StoreTime {
  readonly earliest: number;
  readonly latest: number;
}

/** A claim of progress: what a renewal said the work was doing. */
export interface ProgressClaim {
  readonly stage: Stage;
  readonly reason: string;
  readonly at: number;
}

/** Content kept with the record, or what stands for it: a reference into a content store, a digest, or why there is none. */
export type Content =
  | { readonly inline: Json }
  | { readonly sha256: string; readonly bytes: number; readonly ref?: string }
  | { readonly omitted: string };

/** One irreversible call to the outside, keyed by its name within the task. */
export interface EffectRecord {
  readonly key: string;
  /** `intended` until read back; `absent` and `in_doubt` are written only when a task is closed by another path than settling. */
  readonly status: 'intended' | 'verified' | 'absent' | 'in_doubt';
  /** The fencing token under which it was last intended or read back. */
  readonly token: number;
  readonly system: string;
  readonly targetId?: string;
  readonly requestHash?: string;
  readonly externalId?: string;
  /** The status the outside gave, as the receipt function read it. */
  readonly externalStatus?: string;
  /** The guard's look endpoint, where the read-back goes through one: lets another process close the task. */
  readonly lookUrl?: string;
  readonly intendedAt: number;
  /** The length of the lease it was intended under: what it allowed may have left until that was over. */
  readonly leaseMs?: number;
  readonly committedAt?: number;
  readonly verifiedAt?: number;
}

/** Proof, read back from the outside after commit, that the work is done. */
export interface SettlementReceipt {
  readonly taskId: string;
  readonly stage: 'settled';
  readonly externalSystem: string;
  readonly externalId: string;
  readonly status: string;
  readonly idempotencyKey: string;
  readonly verifiedAt: number;
  readonly token: number;
}

/** Why a task was released, dead-lettered or cancelled. Messages are redacted and cut to 200 characters before they come here. */
export interface TaskError {
  readonly errorClass: string;
  readonly code: string;
  readonly message: string;
}

/** A question to a person, and what came of it. */
export interface HumanQuestion {
  readonly question: string;
  readonly askedAt: number;
  /** Absent while nobody answered. */
  readonly approved?: boolean;
  readonly reason?: string;
  readonly answeredAt?: number;
}

/** A task that its parent asked for and that has not been sent yet. */
export interface FollowUp {
  readonly taskId: string;
  readonly type: string;
  readonly idempotencyKey: string;
  readonly input: Json;
}

/** The way out chosen for a task that still has an unverified effect. Kept so that the next owner goes on closing. */
export interface Closing {
  readonly to: 'dead_lettered' | 'cancelled';
  readonly reason: string;
  readonly errorClass: string;
  /** The failures the task had when a claim began it: each claim that goes on with it has more. */
  readonly failures?: number;
}

/** What the ledger knows of one task. All instants are epoch milliseconds of the store's clock. */
export interface TaskRecord {
  readonly schemaVersion: string;
  readonly taskId: string;
  readonly taskType: string;
  readonly agentRunId?: string;
  readonly state: TaskState;
  readonly stage: Stage;
  readonly stageEnteredAt: number;
  readonly renewalReason?: string;
  readonly renewalCount: number;
  readonly history: readonly ProgressClaim[];
  readonly leaseOwner?: string;
  /** Stamped by the driver, never by core. Absent when nobody holds the task. */
  readonly leaseExpiresAt?: number;
  /** For people; nothing is decided by it. */
  readonly heartbeatAt?: number;
  readonly fencingToken: number;
  readonly attempt: number;
  readonly failures: number;
  readonly idempotencyKey: string;
  readonly effects: Readonly<Record<string, EffectRecord>>;
  readonly settlementReceipt?: SettlementReceipt;
  readonly result?: Content;
  readonly checkpoint?: Content;
  readonly next?: readonly FollowUp[];
  /** The message of a task that waits for a person; kept until the next claim shows that it was sent again. */
  readonly parked?: Content;
  /** What was asked of people, oldest first; the last one may be open. */
  readonly human?: readonly HumanQuestion[];
  readonly lastError?: TaskError;
  readonly closing?: Closing;
  readonly cancelRequested?: boolean;
  /** False while the broker's half of a dead-lettering is not known to be done. */
  readonly deadLetterSent?: boolean;
  readonly deadlineAt?: number;
  readonly retryAt?: number;
  readonly traceId?: string;
  /** Absent on the tombstone of a task that was cancelled before its first claim. */
  readonly payloadHash?: string;
  readonly version: number;
  readonly opId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** For clean-up only, never a lease clock; set on terminal records, and on the free keys of a serialisation. */
  readonly expiresAt?: number;
  /** Fields a newer version wrote and this one does not know, under their wire names. Every write keeps them. */
  readonly extra?: Readonly<Record<string, Json>>;
}

/** The record format this version writes, `major.minor`. */
export const SCHEMA_VERSION = '1.0';
const MAJOR = 1;

/** The number of progress claims a record keeps. */
export const HISTORY_LENGTH = 8;

/** Questions that one task may ask people. A handler that begins anew is to find all the answers it was given. */
export const MOST_QUESTIONS = 64;

/** True for `settled`, `dead_lettered` and `cancelled`. */
export function isTerminal(state: TaskState): boolean {
  return state === 'settled' || state === 'dead_lettered' || state === 'cancelled';
}

/** True when the format has a higher major version than ours: such a record is left untouched. */
export function isNewerSchema(record: Pick<TaskRecord, 'schemaVersion'>): boolean {
  return record.schemaVersion !== SCHEMA_VERSION && !(Number.parseInt(record.schemaVersion, 10) <= MAJOR);
}

/** Certainly over: even the earliest possible now is past the expiry. The test a takeover needs. */
export function isLapsed(record: Pick<TaskRecord, 'leaseExpiresAt'>, now: StoreTime): boolean {
  return record.leaseExpiresAt === undefined || record.leaseExpiresAt <= now.earliest;
}

/** Certainly live: even the latest possible now is before the expiry. The test an owner's write needs. */
export function isLive(record: Pick<TaskRecord, 'leaseExpiresAt'>, now: StoreTime): boolean {
  return record.leaseExpiresAt !== undefined && record.leaseExpiresAt > now.latest;
}
