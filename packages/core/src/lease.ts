import type { HeldDelivery } from './broker-session.ts';
import type { TaskMessage } from './envelope.ts';
import type { Refusal } from './events.ts';
import type { LeaseTiming } from './lease-timing.ts';
import type { Lost, Ownership } from './ownership.ts';
import type { SettlementReceipt, TaskRecord } from './record.ts';
import type { TaskLease } from './task-lease.ts';

/** A task in hand: the ledger granted it to us, under the delivery that brought it. */
export interface Lease {
  readonly kind: 'lease';
  readonly taskId: string;
  /** Rises once more while a task is being closed. */
  readonly token: number;
  readonly message: TaskMessage;
  /** The ledger's half. */
  readonly task: TaskLease;
  readonly held: HeldDelivery;
  readonly ownership: Ownership;
  readonly record: TaskRecord;
}

/** A delivery of a task that is settled already: acknowledged with its receipt, never run again. */
export interface Replay {
  readonly kind: 'replay';
  readonly taskId: string;
  readonly receipt: SettlementReceipt | undefined;
  readonly record: TaskRecord;
}

/** A second delivery of a task that somebody (maybe this process) is working on, or one that has to wait. Still held: park it with `extend`, or hand it back. */
export interface Busy {
  readonly kind: 'busy';
  readonly taskId: string;
  /** When the owner's lease ends, counted from now, unless it is renewed. */
  readonly waitMs: number;
  readonly held: HeldDelivery;
  /** The caller's policy let it wait; the ledger was not asked. */
  readonly deferred?: boolean;
}

/** A delivery that needs no work here. `acknowledged`: it will not come back to this queue. */
export interface Handled {
  readonly kind: 'handled';
  readonly taskId: string | undefined;
  readonly why:
    | 'undecodable'
    | 'refused-type'
    | 'deferred'
    | 'not-yet'
    | 'cancelled'
    | 'waiting-human'
    | 'dead-lettered'
    | 'task-id-reused'
    | 'older-than-ledger'
    | 'newer-schema'
    | 'unanswered'
    | 'lapsed-delivery';
  readonly acknowledged: boolean;
  /** Of `unanswered`: what kept the claim from its end, such as `denied`. */
  readonly cause?: string;
}

/** What a delivery turned out to be. */
export type Acquired = Lease | Replay | Busy | Handled;

/** How tasks of one type are claimed. */
export interface ClaimPolicy {
  readonly timing: LeaseTiming;
  /** Failures at which a task is closed instead of run. */
  readonly attempts: number;
  readonly deadlineMs?: number;
  readonly retentionMs: number;
}

/** What a worker says to a task before it is claimed. */
export type PolicyAnswer =
  | ClaimPolicy
  | 'refuse'
  | { readonly deferMs: number }
  /** The ledger did not answer something that had to be known first, and why: the message is left alone. */
  | { readonly unanswered: string };

/** How to treat the deliveries of an acquire. */
export interface AdoptOptions {
  /** `<service>/<instance>#<process nonce>`; the same for all leases of a process. */
  readonly owner: string;
  /** The policy for a task, `refuse` for a type that is not ours, or a delay after which to offer it again. Called before anything is written. */
  readonly policy: (task: TaskMessage) => PolicyAnswer | Promise<PolicyAnswer>;
}

/** What to receive. */
export interface AcquireOptions extends AdoptOptions {
  readonly max: number;
  /** How long the broker keeps the messages for us at first: the longest lease of any type. */
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

/** What became of giving a task up. `unknown`: the ledger did not answer, nothing was told to the broker. */
export type Outcome = 'done' | 'unknown' | Lost | { readonly refused: Refusal };

/** A task to enqueue. Without `taskId` the id is a hash of type and `idempotencyKey`; without either, a new one. */
export interface NewTask {
  readonly type: string;
  readonly input: unknown;
  /** Default: a hash of type and idempotency key. */
  readonly taskId?: string;
  /**
   * What the task means, such as `order-7/refund`: asked for twice under one key, it is one task. Without a key and an id each asking is a task of
   * its own, and a producer that asks again after a lost answer asks for two.
   */
  readonly idempotencyKey?: string;
  readonly agentRunId?: string;
  readonly traceparent?: string;
  readonly tracestate?: string;
  readonly delayMs?: number;
  readonly groupId?: string;
}

/** What became of one task of an `enqueue`. Only `ok: true` means that the broker has it. */
export type EnqueueOutcome =
  | { readonly ok: true; readonly taskId: string; readonly messageId: string }
  | { readonly ok: false; readonly taskId: string; readonly code: string; readonly message: string };
