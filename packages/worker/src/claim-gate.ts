import { backoffDelay, type Backoff, type Clock, type Timer } from '@leasehold/core';

/**
 * Whether it makes sense to take messages. While the ledger answers no claim, each message that is taken uses up one of its deliveries for
 * nothing, and a broker that counts them would throw the whole queue away. So a claim without an answer closes the gate: the ledger is
 * asked, with growing pauses, until it answers a read; then a single message is tried, and its claim opens the gate or closes it for longer.
 */
export interface ClaimGate {
  /** False since a claim had no answer, until one has. */
  readonly open: boolean;
  /** How many of `wanted` messages may be asked for now; 0 = wait for `onChange`. */
  allows(wanted: number): number;
  /** So many messages were taken. */
  took(messages: number): void;
  /** A claim was answered. */
  answered(): void;
  /** A claim had no answer. */
  unanswered(taskId: string | undefined): void;
  /** What was taken came to nothing that says anything of the ledger. */
  saidNothing(): void;
}

const BETWEEN_READS: Backoff = { firstMs: 500, maxMs: 30_000 };
/** A ledger that is read but not written costs a delivery at every try. */
const BETWEEN_TRIES: Backoff = { firstMs: 500, maxMs: 300_000 };

export function createClaimGate(parts: {
  readonly clock: Clock;
  readonly stopping: AbortSignal;
  /** Whether the ledger answers a read of this task. */
  readonly answers: (taskId: string) => Promise<boolean>;
  /** Called when more may be asked for than before. */
  readonly onChange: () => void;
}): ClaimGate {
  const { clock, stopping, answers, onChange } = parts;
  let state: 'open' | 'closed' | 'one' | 'trying' = 'open';
  let tries = 0;
  let timer: Timer | undefined;
  stopping.addEventListener('abort', () => timer?.cancel(), { once: true });
  const pause = (ms: number, taskId: string, reads: number): void => {
    state = 'closed';
    if (!stopping.aborted) timer = clock.timer(ms, () => void look(taskId, reads));
  };
  const look = async (taskId: string, reads: number): Promise<void> => {
    const mine = timer;
    const answered = await answers(taskId);
    // A claim that was under way may have opened the gate meanwhile.
    if (timer !== mine) return;
    if (!answered) return pause(backoffDelay(BETWEEN_READS, reads), taskId, reads + 1);
    state = 'one';
    onChange();
  };
  return {
    get open() {
      return state === 'open';
    },
    allows(wanted) {
      if (state === 'open') return wanted;
      return state === 'one' ? Math.min(1, wanted) : 0;
    },
    took(messages) {
      if (state === 'one' && messages > 0) state = 'trying';
    },
    answered() {
      tries = 0;
      if (state === 'open') return;
      state = 'open';
      timer?.cancel();
      timer = undefined;
      onChange();
    },
    unanswered(taskId = '') {
      // Those that were under way when the first one failed tell nothing new.
      if (state === 'open' || state === 'trying') pause(backoffDelay(BETWEEN_TRIES, ++tries), taskId, 1);
    },
    saidNothing() {
      if (state !== 'trying') return;
      state = 'one';
      onChange();
    },
  };
}
