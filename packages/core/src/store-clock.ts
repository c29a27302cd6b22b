import type { Clock } from './clock.ts';
import type { StoreTime } from './record.ts';

/** How fast a monotonic clock may drift from the store's, as a fraction. */
const DRIFT = 1e-3;
/** A wall clock that moved this much against the monotonic one may mean that the machine slept. */
const SLEPT_MS = 1_000;

/** What this process knows of a store's clock: its last answer, carried forward on the monotonic clock and widened with age. */
export interface StoreClock {
  /** Takes the time an answer bore; `sentAt` and now (monotonic) enclose the moment it was read. */
  observe(now: StoreTime, sentAt: number): void;
  /** The store's time as of `at`, which is now on the monotonic clock, or nothing when there was no answer yet or the machine may have slept since. */
  estimate(at: number): StoreTime | undefined;
}

/** Keeps the last observation; a newer one always replaces an older one, so a store that stepped is followed at once. */
export function storeClock(clock: Clock): StoreClock {
  let sample:
    | { readonly now: StoreTime; readonly sentAt: number; readonly gotAt: number; readonly offset: number }
    | undefined;
  return {
    observe(now, sentAt) {
      const gotAt = clock.monotonic();
      if (sample && sample.sentAt > sentAt) return;
      sample = { now, sentAt, gotAt, offset: clock.wall() - gotAt };
    },
    estimate(at) {
      if (!sample) return undefined;
      const offset = clock.wall() - at;
      // Written so that NaN counts as slept.
      if (!(Math.abs(offset - sample.offset) <= SLEPT_MS)) return undefined;
      return {
        earliest: Math.floor(sample.now.earliest + (at - sample.gotAt) * (1 - DRIFT)),
        latest: Math.ceil(sample.now.latest + (at - sample.sentAt) * (1 + DRIFT)),
      };
    },
  };
}
