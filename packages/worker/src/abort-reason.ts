import { LeaseholdError } from '@leasehold/core';

/** Why an attempt's signal aborted. */
export type AbortCause = 'lost' | 'stalled' | 'stage-limit' | 'tool-timeout' | 'cancelled' | 'draining' | 'lease-cap';

/** The reason of an aborted `ctx.signal`. */
export class TaskAborted extends LeaseholdError {
  override readonly name: string = 'TaskAborted';
  readonly reason: AbortCause;

  constructor(reason: AbortCause, message: string) {
    super('aborted', message);
    this.reason = reason;
  }
}

/** True for the reason of an abort, from whichever copy of the library. */
export function isTaskAborted(error: unknown): error is TaskAborted {
  return (
    typeof error === 'object' && error !== null && 'code' in error && error.code === 'aborted' && 'reason' in error
  );
}
