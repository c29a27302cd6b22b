import { badOption, checkNames, parseDuration } from '@leasehold/core';
import type { ContentStore, Duration, OptionNames, VirtualClock } from '@leasehold/core';
import type { TaskDefinition } from '../define-task.ts';
import { checkPoint, type CallPoint } from './call-point.ts';
import type { ReceiverDouble } from './receiver-double.ts';

/** A pause of the first worker: it stands still, and the world goes on. Longer than its lease unless `ms` says otherwise: the lease and 5 s. */
export type PauseOption =
  /** The call is applied; the worker stands still before it sees the answer. */
  | { readonly after: CallPoint; readonly ms?: Duration }
  /** The worker has decided to make the call, and stands still before it leaves. What only a guarded receiver stops. */
  | { readonly before: CallPoint; readonly ms?: Duration };

/** What is to go wrong in a run of a task, and what it runs with. */
export interface RunTaskOptions<Input = unknown, Result = unknown> {
  /** The first worker dies as this call has been applied, before it sees the answer. */
  readonly crashAfter?: CallPoint;
  /** This call of the first worker is applied, and the worker is told that it failed. */
  readonly loseAnswerOf?: CallPoint;
  readonly pauseFor?: PauseOption;
  /** Whether a second worker starts when something has gone wrong, and ends the task; a paused one then comes back. Default true. */
  readonly takeover?: boolean;
  /** What the second worker runs: a newer version of the task, or another load of its module. Default the same. */
  readonly successor?: TaskDefinition<Input, Result>;
  /** What answers the handler's `fetch`, such as that of a `receiverDouble`. Default the real one. */
  readonly fetch?: typeof globalThis.fetch;
  /** Receivers for effects that are not made by `fetch`, by the effects' names: asked instead of `commit` and of a `readBack` function. */
  readonly effects?: Readonly<Record<string, ReceiverDouble>>;
  /** Failures at which the task is dead-lettered, instead of the task's own limit. */
  readonly attempts?: number;
  /** Virtual time after which the run ends as `unfinished`. Default 1 hour, or 20 leases. */
  readonly timeoutMs?: number;
  /** How long the handler may wait, in real time, for something that the virtual clock does not move. Default 5 s. */
  readonly realWaitMs?: number;
  /** The handler is meant to hang, for a test of a timeout or a stall: after `realWaitMs` (then 50 by default) virtual time passes all the same. */
  readonly hangs?: boolean;
  /** The virtual clock, where the handler was given one: timers that it sets there are moved too. */
  readonly clock?: VirtualClock;
  /** Default one made up. */
  readonly idempotencyKey?: string;
  readonly agentRunId?: string;
  /** What a person says to `ctx.askHuman` and to an effect that only a person can tell. Without it the run ends as `waiting-human`. */
  readonly answer?: (question: string) => { readonly approve: boolean; readonly reason: string };
  readonly contentStore?: ContentStore;
}

const OPTIONS: OptionNames<RunTaskOptions> = {
  crashAfter: true,
  loseAnswerOf: true,
  pauseFor: true,
  takeover: true,
  successor: true,
  fetch: true,
  effects: true,
  attempts: true,
  timeoutMs: true,
  realWaitMs: true,
  hangs: true,
  clock: true,
  idempotencyKey: true,
  agentRunId: true,
  answer: true,
  contentStore: true,
};

/** @throws LeaseholdError `bad-option` naming the option. */
export function checkOptions(options: Omit<RunTaskOptions, 'successor'>): void {
  checkNames(options, OPTIONS);
  for (const field of ['crashAfter', 'loseAnswerOf'] as const)
    if (options[field] !== undefined) checkPoint(options[field], field);
  const { pauseFor } = options;
  if (pauseFor !== undefined) {
    if (typeof pauseFor !== 'object' || 'after' in pauseFor === 'before' in pauseFor) {
      throw badOption(
        'pauseFor',
        pauseFor,
        "write { after: 'commit' } or { before: 'commit' }, and ms for another length than the lease and 5 s.",
      );
    }
    checkPoint(
      'after' in pauseFor ? pauseFor.after : pauseFor.before,
      'after' in pauseFor ? 'pauseFor.after' : 'pauseFor.before',
    );
    if (pauseFor.ms !== undefined) parseDuration(pauseFor.ms, 'pauseFor.ms');
  }
  if (options.attempts !== undefined && !(Number.isSafeInteger(options.attempts) && options.attempts >= 1)) {
    throw badOption('attempts', options.attempts, 'give a whole number from 1 up.');
  }
  for (const field of ['timeoutMs', 'realWaitMs'] as const) {
    if (options[field] !== undefined) parseDuration(options[field], field);
  }
  const { clock } = options;
  if (clock !== undefined && typeof clock.runUntil !== 'function')
    throw badOption('clock', clock, 'make one with virtualClock() of @leasehold/core.');
}
