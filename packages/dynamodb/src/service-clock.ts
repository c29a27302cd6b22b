import type { Clock, StoreTime } from '@leasehold/core';

/** How far a monotonic clock may drift from the service's, as a fraction. */
const DRIFT = 1e-3;
/** How far the clocks of two hosts of the service may lie apart from true time, each way. */
const SKEW_MS = 20;
/** A Date header leaves out everything below the second. */
const RESOLUTION_MS = 1_000;
const ROUND_TRIP_MS = 210;

/** How wide an interval one answer gives at most, with a round trip of up to 210 ms. More answers narrow it. */
export const CLOCK_ERROR_MS: number = RESOLUTION_MS + 2 * SKEW_MS + ROUND_TRIP_MS;

/** What the answers of the service say about its clock. */
export interface ServiceClock {
  /** The machine's clocks at the sending of a call. */
  sending(): Sending;
  /** Takes the Date header of an answer to a call that was sent then and has just been answered. */
  observe(date: number, sent: Sending): void;
  /** The service's time now, or nothing when there was no answer yet or the machine may have slept since the last one. */
  now(): StoreTime | undefined;
}

/** The monotonic instant, and how far the wall clock was ahead of it. */
interface Sending {
  readonly at: number;
  readonly wallLead: number;
}

/** Where the service's clock lies against the monotonic one, as known at the instant `at`. */
interface Offset extends Sending {
  readonly low: number;
  readonly high: number;
}

/**
 * Estimates the service's clock from the Date headers of its answers, against the monotonic clock: the container's wall clock decides nothing.
 *
 * Each answer was dated between its sending and its arrival, so it bounds the offset between the two clocks. What earlier answers said
 * is widened by the drift since and intersected; where nothing is left, a clock was stepped and the newest answer counts alone. A machine
 * that slept while an answer was on its way may have done so after it was dated: the answer is as vague as the sleep was long. The true
 * time lies within as long as the monotonic clock drifts by less than 1000 ppm and the service's hosts agree within 20 ms.
 */
export function serviceClock(clock: Clock): ServiceClock {
  let known: Offset | undefined;

  /** `known`, carried forward; nothing when the wall clock moved against the monotonic one, as it does when the machine sleeps. */
  const carried = (at: number, wallLead: number): Offset | undefined => {
    if (!known) return undefined;
    const wider = DRIFT * (at - known.at);
    // Written so that a clock that answers NaN counts as stepped.
    if (!(Math.abs(wallLead - known.wallLead) <= SKEW_MS + wider)) return undefined;
    return { low: known.low - wider, high: known.high + wider, at, wallLead };
  };
  return {
    sending: () => readings(clock),
    observe(date, sent) {
      const { at, wallLead } = readings(clock);
      const margin = SKEW_MS + DRIFT * (at - sent.at);
      const ahead = wallLead - sent.wallLead;
      const slept = ahead > margin ? ahead : 0;
      const low = date - at - margin;
      const high = date + RESOLUTION_MS - sent.at + slept + margin;
      if (!(low <= high)) return;
      const before = carried(at, wallLead);
      const narrowed = before && { low: Math.max(low, before.low), high: Math.min(high, before.high) };
      known = { ...(narrowed && narrowed.low <= narrowed.high ? narrowed : { low, high }), at, wallLead };
    },
    now() {
      const { at, wallLead } = readings(clock);
      const offset = carried(at, wallLead);
      return offset && { earliest: Math.floor(at + offset.low), latest: Math.ceil(at + offset.high) };
    },
  };
}

/** How far the wall clock is ahead of the monotonic one. Stopped between the two readings, a busy process would take the pause for a step. */
function readings(clock: Clock): Sending {
  for (let tries = 1; ; tries++) {
    const before = clock.monotonic();
    const wall = clock.wall();
    const at = clock.monotonic();
    if (!(at - before > SKEW_MS / 2) || tries === 10) return { at, wallLead: wall - at };
  }
}
