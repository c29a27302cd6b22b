import { LeaseholdError, sleep, type GuardHold, type StoredResponse, type Timer } from '@leasehold/core';
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
  hold: GuardHold,
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
    const extend = (signal: AbortSignal): Promise<boolean> => gate.store.extend(hold, holdMs, signal);
    const answer = await callStore(gate, 'extend', extend, confirmedUntil - startedAt);
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

/** Pauses between the tries of a call that a caller waits for. */
export const SHORT_PAUSES_MS: readonly number[] = [50, 250];
/** Nobody waits for a hold that is given up: it is tried until about when it would run out. */
const LONG_PAUSES_MS: readonly number[] = [50, 250, 1_000, 5_000, 25_000];

/** Finishes a hold, repeating what was not answered: the store recognises both ends of it. */
export async function finishHold<Native>(
  gate: Gate<Native>,
  hold: GuardHold,
  how: StoredResponse | 'free',
): Promise<boolean | typeof UNANSWERED> {
  for (let attempt = 0; ; attempt++) {
    const done = await finishOnce(gate, hold, how);
    const pause = SHORT_PAUSES_MS[attempt];
    if (done !== UNANSWERED || pause === undefined) return done;
    await sleep(gate.settings.clock, pause);
  }
}

/** Gives up a hold under which nothing ran and nothing will, whether it was ever taken or not; in the background. */
export function giveUpHold<Native>(gate: Gate<Native>, hold: GuardHold): void {
  const { clock } = gate.settings;
  const free = async (attempt: number): Promise<void> => {
    const pause = LONG_PAUSES_MS[attempt];
    if ((await finishOnce(gate, hold, 'free')) !== UNANSWERED || pause === undefined) return;
    clock.timer(pause, () => void free(attempt + 1).catch(ignoreAnnounced), { background: true });
  };
  free(0).catch(ignoreAnnounced);
}

/** A store that was set up wrongly throws even here; there is nobody to tell but the listeners, who know. */
function ignoreAnnounced(): void {}

function finishOnce<Native>(
  gate: Gate<Native>,
  hold: GuardHold,
  how: StoredResponse | 'free',
): Promise<boolean | typeof UNANSWERED> {
  return callStore(gate, 'finish', (signal) => gate.store.finish(hold, how, signal));
}
