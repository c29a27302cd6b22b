import { LeaseholdError, type HoldId, type Timer } from '@leasehold/core';
import { callStore, UNANSWERED, type Gate } from './gate.ts';

/** A hold that is extended until `stop`. */
export interface KeptHold {
  /** Aborts, with an `ownership` error, when the hold is over. */
  readonly signal: AbortSignal;
  /** Whether the hold is certainly still ours, judged by the clock at the moment of asking. */
  readonly held: boolean;
  /** Stops extending. The hold then lasts until it is finished or lapses. */
  stop(): void;
}

/**
 * Extends a hold every third of it. Like a worker's lease it counts from before the request was sent that the store confirmed;
 * without a confirmation it is over at that moment + the hold, whatever the store would say.
 */
export function keepHold<Native>(
  gate: Gate<Native>,
  hold: HoldId,
  sentAt: number,
  onLost: (cause: 'refused' | 'unanswered') => void,
): KeptHold {
  const { clock, holdMs } = gate.settings;
  const controller = new AbortController();
  let confirmedUntil = sentAt + holdMs;
  let ended = false;
  let timer: Timer | undefined;

  const arm = (delayMs: number): void => {
    timer = clock.timer(Math.min(delayMs, confirmedUntil - clock.monotonic()), () => void beat(), { background: true });
  };
  const lose = (cause: 'refused' | 'unanswered'): void => {
    ended = true;
    onLost(cause);
    controller.abort(
      new LeaseholdError(
        'ownership',
        'The hold on this idempotency key is over; start nothing more that cannot be undone.',
      ),
    );
  };
  const beat = async (): Promise<void> => {
    const startedAt = clock.monotonic();
    if (startedAt >= confirmedUntil) {
      lose('unanswered');
      return;
    }
    const answer = await callStore(gate, 'extend', (signal) => gate.store.extend(hold, holdMs, signal), {
      limitMs: confirmedUntil - startedAt,
    });
    if (ended) return;
    if (answer === false) lose('refused');
    else if (answer === UNANSWERED) arm(holdMs / 9);
    else {
      confirmedUntil = startedAt + holdMs;
      arm(holdMs / 3);
    }
  };
  arm(holdMs / 3);
  return {
    signal: controller.signal,
    get held() {
      return !controller.signal.aborted && clock.monotonic() < confirmedUntil;
    },
    stop() {
      ended = true;
      timer?.cancel();
    },
  };
}
