import type { Clock, ContentStore } from '@leasehold/core';
import type { Heartbeat } from './heartbeat.ts';
import type { LimitWatch } from './limits.ts';
import type { Timetable } from './timetable.ts';

/** How an attempt ended. */
export type AttemptOutcome =
  | 'settled'
  | 'released'
  | 'handed-off'
  | 'dead-lettered'
  | 'cancelled'
  | 'waiting-human'
  /** The lease was lost: nothing was written, the result (if any) is rejected. */
  | 'lost'
  /** The ledger did not answer before the lease ended; redelivery reconciles. */
  | 'unknown'
  /** The handler ignored the abort; its lease was left to lapse. */
  | 'leaked';

/** What a worker hands to all of its attempts. */
export interface AttemptServices {
  readonly clock: Clock;
  readonly heartbeat: Heartbeat;
  readonly limits: Timetable<LimitWatch>;
  readonly contentStore?: ContentStore;
  /** How long an aborted handler may take to end before it counts as leaked, in milliseconds. */
  readonly graceMs: number;
  /** Gets results that were rejected, for investigation; they are never stored as the outcome. */
  readonly onRejected?: (rejected: {
    readonly taskId: string;
    readonly token: number;
    readonly result: unknown;
  }) => void;
  /** A handler that had leaked ended after all. */
  readonly onLeakEnded?: () => void;
}
