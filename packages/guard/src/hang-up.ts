import {
  LeaseholdError,
  parseDuration,
  type Clock,
  type Duration,
  type OptionNames,
  type Timer,
} from '@leasehold/core';
import { GUARD_OPTIONS, type GuardOptions } from './options.ts';

/** The options of a guard in a framework where nobody can see whether a handler still runs. */
export interface MiddlewareOptions<Native> extends GuardOptions<Native> {
  /**
   * How long a handler may still take to answer once its caller has hung up (in Express, between two pieces of an answer: one hold). Until
   * then its key is in progress, afterwards in doubt: one that noticed and gave up without answering would hold it for ever. Default 10 min.
   */
  readonly afterHangUp?: Duration;
}

/** What {@link MiddlewareOptions} may hold. */
export const MIDDLEWARE_OPTIONS: OptionNames<MiddlewareOptions<never>> = { ...GUARD_OPTIONS, afterHangUp: true };

/** @throws LeaseholdError `bad-option` */
export function parseAfterHangUp(value: Duration | undefined): number {
  return parseDuration(value ?? '10m', 'afterHangUp');
}

/** Waits for a handler whose caller is gone. */
export interface HangUp {
  /** Starts to wait, or once more for `ms`. */
  wait(ms: number): void;
  stop(): void;
}

/** Calls `giveUp` with the reason when the waiting is over. */
export function hangUp(clock: Clock, giveUp: (error: LeaseholdError) => void): HangUp {
  let timer: Timer | undefined;
  return {
    wait(ms) {
      timer?.cancel();
      const expired = (): void =>
        giveUp(
          new LeaseholdError('timeout', `The caller hung up, and for ${ms} ms the handler did not answer either.`),
        );
      timer = clock.timer(ms, expired, { background: true });
    },
    stop() {
      timer?.cancel();
    },
  };
}
