import { applyLater, delayAnswer, dropAnswer, failBefore, hang, type Fault } from '@leasehold/core/testing';
import type { Strike } from '../../packages/worker/src/testing/process.ts';

/** Longer than any lease and than the patience of any call. */
export const LONG_MS = 40_000;
/** How long a throttled backend goes on refusing. */
const THROTTLED_MS = 2_000;

/** What a fault does to the struck call, and to those after it. */
export interface FaultKind {
  /** What befalls the call itself; as if nothing were wrong unless given. */
  readonly call?: Fault;
  /** What befalls the whole process at this call. */
  readonly strike?: Strike;
  /** What befalls every later call, to this driver or to both, for a while. */
  readonly after?: { readonly of: 'driver' | 'both'; readonly forMs: number; readonly fault: Fault };
}

/** Every fault that a call may meet. */
export const FAULT_KINDS = {
  'error-before': { call: failBefore('unavailable') },
  'answer-lost': { call: dropAnswer() },
  'applied-late': { call: applyLater(LONG_MS, 'on-abort') },
  'answer-late': { call: delayAnswer(LONG_MS) },
  cut: { call: hang(), after: { of: 'both', forMs: LONG_MS, fault: hang() } },
  throttled: {
    call: failBefore('throttled'),
    after: { of: 'driver', forMs: THROTTLED_MS, fault: failBefore('throttled') },
  },
  'killed-before': { strike: { fate: 'killed before', forMs: 0 } },
  'killed-after': { strike: { fate: 'killed after', forMs: 0 } },
} as const satisfies Readonly<Record<string, FaultKind>>;

export type FaultName = keyof typeof FAULT_KINDS;

export const FAULT_NAMES = Object.keys(FAULT_KINDS) as readonly FaultName[];
