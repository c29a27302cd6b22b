import { channel } from 'node:diagnostics_channel';
import type { ProblemName } from './problem.ts';

/** The name of the `node:diagnostics_channel` that guards publish on. */
export const GUARD_CHANNEL = 'leasehold:guard';

/** What a guard can report. */
export type GuardEventName =
  /** The handler starts under a hold of its own. */
  | 'guard_admitted'
  /** Answered with a problem; the handler was not run. */
  | 'guard_refused'
  /** Answered with the stored response; the handler was not run. */
  | 'guard_replayed'
  /** Observe mode: the handler runs although enforcing would have refused or replayed. */
  | 'guard_observed'
  /** The response is stored and the key done. */
  | 'guard_stored'
  /** The handler said that nothing happened; the key is free. */
  | 'guard_freed'
  /** A 5xx, a 429 or a throw: nothing stored, the key falls in doubt when its hold ends. */
  | 'guard_left_in_doubt'
  /** The hold is over while the handler still runs. */
  | 'guard_hold_lost'
  /** The handler ended, but whether its response is stored is not known. */
  | 'guard_outcome_unknown'
  /** The handler ended, and another outcome is stored under its key: it may have happened twice. */
  | 'guard_contradicted'
  /** A key in doubt was put to the `resolve` hook. */
  | 'guard_resolved'
  /** The look endpoint answered. */
  | 'guard_looked'
  /** A call to the store failed or was not answered in time. */
  | 'guard_store_failed'
  /** A hook of the application threw. */
  | 'guard_hook_failed';

/** One event. Holds ids and numbers, never bodies, header values other than the ids, the caller's identity, or error messages. */
export interface GuardEvent {
  readonly name: GuardEventName;
  /** Wall-clock epoch milliseconds, for people. */
  readonly at: number;
  readonly scope?: string;
  readonly token?: number;
  readonly key?: string;
  /** What was answered, or (observing) would have been. `replay` stands for the stored response. */
  readonly problem?: ProblemName | 'replay';
  readonly field?: string;
  readonly highest?: number;
  readonly status?: number;
  /** How long the handler ran. */
  readonly durationMs?: number;
  /** Of `guard_looked`: the state answered; of `guard_resolved`: what the hook said. */
  readonly state?: string;
  /** Of `guard_hold_lost`: refused by the store, or unanswered for too long. */
  readonly cause?: 'refused' | 'unanswered';
  /** Of `guard_store_failed` and `guard_hook_failed`. */
  readonly operation?: string;
  readonly errorClass?: string;
  /** The code of a LeaseholdError. */
  readonly errorCode?: string;
}

const events = channel(GUARD_CHANNEL);

/** Publishes an event; costs nothing when nobody listens. */
export function announce(event: GuardEvent): void {
  if (events.hasSubscribers) events.publish(event);
}

/** Calls `listener` for every event of the guards of this process until the returned function is called. */
export function onGuardEvent(listener: (event: GuardEvent) => void): () => void {
  const onMessage = (message: unknown): void => listener(message as GuardEvent);
  events.subscribe(onMessage);
  return () => {
    events.unsubscribe(onMessage);
  };
}

/** The class of an error, and nothing of its message, which may hold content. */
export function errorClass(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const name = error.constructor.name;
  return /^[\w$]{1,64}$/.test(name) ? name : 'Error';
}
