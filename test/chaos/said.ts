import type { LeaseholdEvent, Ownership, TaskState } from '@leasehold/core';
import type { GuardEvent } from '@leasehold/guard';

/** What is written down of a record. */
export interface Seen {
  readonly version: number;
  readonly token: number;
  readonly attempt: number;
  readonly state: TaskState;
  readonly opId: string;
  readonly owner?: string;
  /** The token and the external id of its receipt. */
  readonly receipt?: { readonly token: number; readonly id: string };
}

/** A conditional write, before it leaves. `n` counts the writes of a process. */
export interface WriteSent {
  readonly kind: 'sent';
  readonly n: number;
  readonly taskId: string;
  readonly next: Seen;
  readonly expect: 'nothing' | 'live' | 'lapsed' | 'any';
  readonly leaseMs?: number;
}

/** Its answer. Without one it may have been applied or not. `shown` is the record that came with a refusal. */
export interface WriteAnswered {
  readonly kind: 'answered';
  readonly n: number;
  readonly answer: 'ok' | 'refused' | 'failed';
  readonly shown?: Seen;
  readonly error?: string;
}

/** An effect's call is about to start: the very first thing its `commit` does. */
interface CallStarted {
  readonly kind: 'call';
  readonly taskId: string;
  readonly token: number;
  readonly effect: string;
  readonly ownership: Ownership;
}

/** The receiver did something that it cannot undo. Written while it does it. */
interface Applied {
  readonly kind: 'applied';
  readonly taskId: string;
  readonly token: number;
  readonly key: string;
}

/** Everything that processes write into their journals. */
export type Said =
  | WriteSent
  | WriteAnswered
  | CallStarted
  | Applied
  | { readonly kind: 'event'; readonly event: LeaseholdEvent }
  | { readonly kind: 'guard'; readonly event: GuardEvent }
  /** How far the wall clock of the process is from where it was when the run began. */
  | { readonly kind: 'clock'; readonly shiftMs: number }
  /** The producer: step `step` of its plan is done. */
  | { readonly kind: 'step'; readonly step: number; readonly taskIds: readonly string[] }
  | { readonly kind: 'cancelled'; readonly taskId: string; readonly outcome: string }
  | { readonly kind: 'ready' }
  | { readonly kind: 'finished' }
  | { readonly kind: 'warning'; readonly text: string };

/** What a child process tells its parent at once, because a fault may be waiting for just this moment. */
export type Moment =
  /** It has started: it listens to signals, and to whoever calls it. */
  | { readonly kind: 'ready' }
  /** A worker is about to send an effect's request. */
  | { readonly kind: 'calling'; readonly worker: string }
  /** The receiver has committed an effect of this worker and has not answered yet. */
  | { readonly kind: 'stored'; readonly worker: string };

/** What the parent tells a worker or the receiver: at its next moment of this worker it is to take its time, since a fault is coming. */
export interface Linger {
  readonly kind: 'linger';
  readonly worker: string;
}
