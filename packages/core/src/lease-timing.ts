import { formatDuration, parseDuration, type Duration } from './duration.ts';
import { badOption, LeaseholdError } from './errors.ts';
import { checkNames, type OptionNames } from './option-names.ts';

/** The four figures of a lease, in milliseconds: `leaseMs` L, `heartbeatMs` H, `marginMs` J, and `tolerate` R, the beats that may be missed. */
export interface LeaseTiming {
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  readonly marginMs: number;
  readonly tolerate: number;
}

/** A lease as it is configured: its length alone, or with its beat, margin and tolerated misses. */
export type LeaseOption =
  | Duration
  | {
      readonly length: Duration;
      readonly heartbeat?: Duration;
      readonly margin?: Duration;
      readonly tolerate?: number;
    };

/** What the store and the batching demand of a lease. */
export interface TimingBounds {
  /** The shortest lease the ledger can keep apart. */
  readonly minLeaseMs?: number;
  /** The error of the store's clock plus the longest delay that batching adds to a beat. */
  readonly uncertaintyMs?: number;
}

const PARTS: OptionNames<Exclude<LeaseOption, Duration>> = {
  length: true,
  heartbeat: true,
  margin: true,
  tolerate: true,
};

/** 90 s, a beat every 30 s, a margin of 20 s, one beat may be missed. */
export const DEFAULT_LEASE_MS = 90_000;

/**
 * The timing of a lease. With a length alone: H = L/3, J = 2L/9, R = 1.
 *
 * @throws LeaseholdError `lease-timing`, with the numbers, when `L <= R*H + J` (one missed beat would already lose the lease), or `J` does not
 * exceed the uncertainty, or `L` is below what the ledger can keep apart; `bad-option` when a duration cannot be read.
 */
export function leaseTiming(
  option: LeaseOption = DEFAULT_LEASE_MS,
  field = 'lease',
  bounds: TimingBounds = {},
): LeaseTiming {
  const inParts = typeof option === 'object' && option !== null;
  const full = inParts ? option : { length: option };
  checkNames(full, PARTS, `${field}.`);
  const leaseMs = parseDuration(full.length, inParts ? `${field}.length` : field);
  const heartbeatMs =
    full.heartbeat === undefined
      ? Math.max(1, Math.floor(leaseMs / 3))
      : parseDuration(full.heartbeat, `${field}.heartbeat`);
  const marginMs =
    full.margin === undefined
      ? Math.max(1, Math.floor((leaseMs * 2) / 9))
      : parseDuration(full.margin, `${field}.margin`);
  const tolerate = full.tolerate ?? 1;
  if (!Number.isInteger(tolerate) || tolerate < 0) {
    throw badOption(`${field}.tolerate`, tolerate, 'give the number of beats that may be missed, such as 1.');
  }
  if (bounds.minLeaseMs !== undefined && leaseMs < bounds.minLeaseMs) {
    const hint =
      typeof full.length === 'number' && full.length < 1_000 && full.length * 1_000 >= bounds.minLeaseMs
        ? ` A number means milliseconds: did you mean '${full.length}s'?`
        : '';
    const least = leastLease(bounds.uncertaintyMs ?? 0);
    throw refused(
      field,
      `${field} is ${formatDuration(leaseMs)}, but this ledger cannot keep leases below ${formatDuration(bounds.minLeaseMs)} apart` +
        `${least > bounds.minLeaseMs ? `, and with its clock's error in the margin it takes at least ${formatDuration(least)}` : ''}.${hint}`,
    );
  }
  if (leaseMs <= tolerate * heartbeatMs + marginMs) {
    throw refused(
      field,
      `${field}: L = ${leaseMs} ms is not longer than R*H + J = ${tolerate} * ${heartbeatMs} + ${marginMs} = ${tolerate * heartbeatMs + marginMs} ms, ` +
        `so ${tolerate === 0 ? 'the margin' : 'a missed beat'} would lose it. Lengthen the lease or shorten the heartbeat.`,
    );
  }
  if (bounds.uncertaintyMs !== undefined && marginMs <= bounds.uncertaintyMs) {
    throw refused(
      field,
      `${field}: the margin J = ${marginMs} ms has to exceed the clock error and batching delay of ${bounds.uncertaintyMs} ms. ` +
        `Lengthen the lease to at least ${formatDuration(leastLease(bounds.uncertaintyMs))} or set a longer margin.`,
    );
  }
  return { leaseMs, heartbeatMs, marginMs, tolerate };
}

/** The same proportions for a shorter lease, where a broker granted less than was asked. Longer ones are not stretched. */
export function rescaleTiming(timing: LeaseTiming, grantedMs: number): LeaseTiming {
  if (!(grantedMs < timing.leaseMs)) return timing;
  const share = Math.max(grantedMs, 1) / timing.leaseMs;
  return {
    leaseMs: Math.max(1, Math.floor(grantedMs)),
    heartbeatMs: Math.max(1, Math.floor(timing.heartbeatMs * share)),
    marginMs: Math.max(1, Math.floor(timing.marginMs * share)),
    tolerate: timing.tolerate,
  };
}

/** When the next beat is due, counted from now: after H, but never later than half of what remains; at once when the margin is reached. */
export function beatDelay(timing: LeaseTiming, remainingMs: number, random: () => number = Math.random): number {
  if (remainingMs <= timing.marginMs) return 0;
  // Jitter only ever shortens the wait.
  const jittered = timing.heartbeatMs * (1 - random() * 0.1);
  return Math.max(0, Math.min(jittered, remainingMs / 2));
}

/** In whole seconds, the shortest lease whose usual margin of 2L/9 exceeds an uncertainty. */
function leastLease(uncertaintyMs: number): number {
  return uncertaintyMs === 0 ? 0 : Math.ceil((uncertaintyMs + 1) * 0.0045) * 1_000;
}

function refused(field: string, message: string): LeaseholdError {
  return new LeaseholdError('lease-timing', message, { field });
}
