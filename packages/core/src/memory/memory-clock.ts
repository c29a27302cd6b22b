import { systemClock, type Clock } from '../clock.ts';

/** The time of a store in memory: whole milliseconds since the epoch that follow the monotonic clock, so stepping the wall clock changes nothing. */
export interface MemoryClock {
  now(): number;
  readonly clock: Clock;
}

/**
 * A store's clock, which its first driver provides and every later one shares: one store has one time.
 * The offset to the epoch is fixed at that moment.
 */
export function memoryClock(): (clock: Clock | undefined) => MemoryClock {
  let shared: MemoryClock | undefined;
  return (clock) => {
    if (!shared) {
      const own = clock ?? systemClock();
      const offset = own.wall() - own.monotonic();
      shared = { clock: own, now: () => Math.floor(own.monotonic() + offset) };
    }
    return shared;
  };
}
