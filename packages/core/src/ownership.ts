import type { RefusalCause } from './events.ts';

/**
 * Ownership as the worker sees it. `held`: the ledger confirmed it and the margin is not reached. `unknown`: no answer, or too close to
 * the end: nothing irreversible may start, settling still may. `lost`: refused, or the confirmed time is over.
 */
export type Ownership = 'held' | 'unknown' | 'lost';

/** Why a lease was lost. `deadline`: no confirmation arrived in time. */
export type LossCause =
  | Extract<
      RefusalCause,
      | 'taken-over'
      | 'expired'
      | 'released'
      | 'settled'
      | 'cancelled'
      | 'dead-lettered'
      | 'waiting-human'
      | 'no-record'
      | 'newer-schema'
    >
  | 'deadline';

/** The lease is over: a value, since losing one is a race and not a mistake. */
export interface Lost {
  readonly lost: LossCause;
  readonly message: string;
}

const LOSSES: readonly string[] = [
  'taken-over',
  'expired',
  'released',
  'settled',
  'cancelled',
  'dead-lettered',
  'waiting-human',
  'no-record',
  'newer-schema',
] satisfies readonly LossCause[];

/** Whether a refusal means that the lease is over (others only say that the event does not apply). */
export function isLoss(cause: RefusalCause): cause is Exclude<LossCause, 'deadline'> {
  return LOSSES.includes(cause);
}
