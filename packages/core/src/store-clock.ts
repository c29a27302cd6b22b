import type { Clock } from './clock.ts';
import type { StoreTime } from './record.ts';

/** How fast a monotonic clock may drift from the store's, as a fraction. */
const DRIFT = 1e-3;
/** A wall clock that moved this much against the monotonic one may mean that the machine slept. */
const SLEPT_MS = 1_000;

/** What this process knows of a store's clock: its last answer, carried forward on the monotonic clock and widened with age. */
export interface StoreClock {
  /** To be taken as a call is sent: with the arrival of its answer it encloses the moment the time was read. */
  sending(): Sending;
  /** Takes the time an answer bore. */
  observe(now: StoreTime, sent: Sending): void;
  /** The store's time as of `at`, which is now on the monotonic clock, or nothing when there was no answer yet or the machine may have slept since. */
  estimate(at: number): StoreTime | undefined;
}

/** The clocks of this machine as a call is sent. */
interface Sending {
  /** Monotonic. */
  readonly at: number;
  /** Of the wall over the monotonic clock. */
  readonly offset: number;
}

/** Keeps the last observation; a newer one always replaces an older one, so a store that stepped is followed at once. */
export function storeClock(clock: Clock): StoreClock {
  let sample: { readonly now: StoreTime; readonly sent: Sending; readonly gotAt: number } | undefined;
  return {
    sending() {
      const at = clock.monotonic();
      return { at, offset: clock.wall() - at };
    },
    observe(now, sent) {
      if (sample && sample.sent.at > sent.at) return;
      sample = { now, sent, gotAt: clock.monotonic() };
    },
    estimate(at) {
      if (!sample) return undefined;
      const offset = clock.wall() - at;
      // Since the sending, for the machine may have slept while the answer was on its way. Written so that NaN counts as slept.
      if (!(Math.abs(offset - sample.sent.offset) <= SLEPT_MS)) return undefined;
      return {
        earliest: Math.floor(sample.now.earliest + (at - sample.gotAt) * (1 - DRIFT)),
        latest: Math.ceil(sample.now.latest + (at - sample.sent.at) * (1 + DRIFT)),
      };
    },
  };
}
