import type { PutExpectation } from './driver.ts';
import type {
  Closing,
  Content,
  EffectRecord,
  FollowUp,
  SettlementReceipt,
  Stage,
  TaskError,
  TaskRecord,
} from './record.ts';

/** Facts that change nothing a retry must do, and so ride on the owner's next write. */
export interface Carried {
  readonly progress?: { readonly stage: Stage; readonly reason: string };
  /** What a read-back found, by effect name. */
  readonly effects?: Readonly<Record<string, EffectFinding>>;
}

/** What a read-back said of an effect. */
export type EffectFinding =
  | {
      readonly status: 'verified';
      readonly externalId: string;
      readonly externalStatus: string;
      readonly committedAt?: number;
    }
  | { readonly status: 'absent' }
  | { readonly status: 'in_doubt' };

interface Write {
  /** Nonce of this write; a writer whose answer was lost recognises its own write by it. */
  readonly opId: string;
}

/** A write by the one who believes to hold the lease. */
interface OwnersWrite extends Write {
  readonly owner: string;
  readonly token: number;
  readonly carry?: Carried;
}

/** A delivery asks for the task. */
export interface ClaimEvent extends Write {
  readonly type: 'claim';
  readonly taskId: string;
  readonly taskType: string;
  readonly owner: string;
  readonly idempotencyKey: string;
  readonly payloadHash: string;
  readonly agentRunId?: string;
  readonly traceId?: string;
  readonly leaseMs: number;
  /** Failures at which the task is closed instead of run. */
  readonly attempts: number;
  /** The task's own deadline, counted from its first claim (and again from a reopening). */
  readonly deadlineMs?: number;
  /** The token that a message sent again bears in `leaseholdtoken`. */
  readonly carriedToken?: number;
  /** When the broker took the message in, epoch milliseconds. */
  readonly sentAt?: number;
  readonly retentionMs: number;
}

/** The owner is still at work, and says at what. */
export interface RenewEvent extends OwnersWrite {
  readonly type: 'renew';
  readonly leaseMs: number;
}

/** The owner is about to start an irreversible call. */
export interface IntendEvent extends OwnersWrite {
  readonly type: 'intend';
  readonly leaseMs: number;
  readonly effect: string;
  readonly details: Pick<EffectRecord, 'key' | 'system' | 'targetId' | 'requestHash' | 'lookUrl'>;
}

/** The owner keeps what the next attempt should start from. */
export interface CheckpointEvent extends OwnersWrite {
  readonly type: 'checkpoint';
  readonly leaseMs: number;
  readonly checkpoint: Content;
}

/** The work is done and verified. */
export interface SettleEvent extends OwnersWrite {
  readonly type: 'settle';
  readonly receipt: Omit<SettlementReceipt, 'token'>;
  readonly result?: Content;
  readonly next?: readonly FollowUp[];
  readonly retentionMs: number;
}

/** The owner gives the task back for another attempt. */
export interface ReleaseEvent extends OwnersWrite {
  readonly type: 'release';
  readonly error: TaskError;
  readonly delayMs: number;
  /** False for drain and for whatever else is not the task's fault. */
  readonly failure: boolean;
  /** For records that nobody need claim again (the key of a serialisation): clean up that long after. */
  readonly retentionMs?: number;
}

/** The owner passes the task on because its time is capped. A failure, unless this attempt moved the checkpoint. */
export interface HandOffEvent extends OwnersWrite {
  readonly type: 'hand-off';
  readonly reason: string;
  readonly progressed: boolean;
}

/** The owner gives up for good. */
export interface DeadLetterEvent extends OwnersWrite {
  readonly type: 'dead-letter';
  readonly error: TaskError;
  readonly retentionMs: number;
}

/** The owner starts to close a task that has an unverified effect: a new token, so that its own older call can be sealed off. */
export interface BeginCloseEvent extends OwnersWrite {
  readonly type: 'begin-close';
  readonly closing: Closing;
  readonly leaseMs: number;
}

/** Every open effect has been read back (the findings are carried): write the end. */
export interface EndCloseEvent extends OwnersWrite {
  readonly type: 'end-close';
  readonly retentionMs: number;
  readonly leaseMs: number;
}

/** A guard knows a higher token than ours although the ledger confirms our grant (a restored table): go above it. */
export interface RaiseTokenEvent extends OwnersWrite {
  readonly type: 'raise-token';
  readonly above: number;
  readonly leaseMs: number;
}

/** The owner waits for a person. */
export interface AskHumanEvent extends OwnersWrite {
  readonly type: 'ask-human';
  readonly question: string;
  readonly parked: Content;
}

/** A person answered. */
export interface AnswerEvent extends Write {
  readonly type: 'answer';
  readonly approve: boolean;
  readonly reason: string;
  readonly retentionMs: number;
}

/** A dead-lettered task may run again. */
export interface ReopenEvent extends Write {
  readonly type: 'reopen';
}

/** Somebody outside wants the task not to happen. */
export interface CancelEvent extends Write {
  readonly type: 'cancel';
  readonly taskId: string;
  readonly reason: string;
  readonly retentionMs: number;
}

/** An operator closes a task whose message will not come back. */
export interface SweepEvent extends Write {
  readonly type: 'sweep';
  readonly reason: string;
  readonly retentionMs: number;
}

/** The follow-up tasks of a settled task were sent. */
export interface FollowUpsSentEvent extends Write {
  readonly type: 'follow-ups-sent';
}

/** The broker's half of a dead-lettering is done. */
export interface DeadLetterSentEvent extends Write {
  readonly type: 'dead-letter-sent';
}

/** Everything that can happen to a record. */
export type TaskEvent =
  | ClaimEvent
  | OwnersEvent
  | AnswerEvent
  | ReopenEvent
  | CancelEvent
  | SweepEvent
  | FollowUpsSentEvent
  | DeadLetterSentEvent;

/** What only the owner may write. */
export type OwnersEvent =
  | RenewEvent
  | IntendEvent
  | CheckpointEvent
  | SettleEvent
  | ReleaseEvent
  | HandOffEvent
  | DeadLetterEvent
  | BeginCloseEvent
  | EndCloseEvent
  | RaiseTokenEvent
  | AskHumanEvent;

/** Why an event was refused. */
export type RefusalCause =
  | 'no-record'
  | 'newer-schema'
  | 'taken-over'
  | 'expired'
  | 'released'
  | 'settled'
  | 'cancelled'
  | 'dead-lettered'
  | 'waiting-human'
  | 'busy'
  | 'not-yet'
  | 'task-id-reused'
  | 'older-than-ledger'
  | 'effect-open'
  | 'effect-verified'
  | 'effect-key-changed'
  | 'cancel-requested'
  | 'closing'
  | 'not-closing'
  | 'settle-wins'
  | 'receipt-mismatch'
  | 'nothing-to-do';

/** The event does not apply. `waitMs`: when it may, for `busy` and `not-yet`. */
export interface Refusal {
  readonly refused: RefusalCause;
  readonly message: string;
  readonly waitMs?: number;
}

/** The event applies: write `next` if `expect` holds, with a lease of `leaseMs` stamped by the store if given. */
export interface Decision {
  readonly next: TaskRecord;
  readonly leaseMs?: number;
  readonly expect: PutExpectation;
}
