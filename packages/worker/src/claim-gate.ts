import { backoffDelay, type Backoff, type Clock, type HeldDelivery, type Timer } from '@leasehold/core';

/** What a claim says of the ledger. `one-task`: it failed, perhaps for a reason of that task alone. */
export type ClaimNews = 'answered' | 'unanswered' | 'one-task' | 'nothing';

/**
 * Whether it makes sense to take messages. While the ledger answers no claim, each message that is taken uses up one of its deliveries for
 * nothing, and a broker that counts them would throw the whole queue away. So a claim without an answer closes the gate: the ledger is
 * asked, with growing pauses, until it answers a read; then a single message is tried, and its claim opens the gate or closes it for longer.
 * Now and then one is tried though no read was answered, for a ledger that may be written and not read.
 */
export interface ClaimGate {
  /** `closed`: no message is taken. `trying`: one message at a time. */
  readonly state: 'open' | 'closed' | 'trying';
  /** Whether the ledger answered when it was last asked, by a claim or by a read. */
  readonly answered: boolean;
  /** How many of `wanted` messages may be taken now; 0 = wait for `onChange`. */
  allows(wanted: number): number;
  /** These were taken, and will be told of. */
  took(deliveries: readonly HeldDelivery[]): void;
  /** What became of one. True when it was the one that was tried, and failed. */
  learn(held: HeldDelivery, taskId: string | undefined, news: ClaimNews): boolean;
  /** Resolves when no read is under way. */
  readonly looking: Promise<void>;
}

const BETWEEN_READS: Backoff = { firstMs: 500, maxMs: 30_000 };
/** A ledger that is read but not written costs a delivery at every try. */
const BETWEEN_TRIES: Backoff = { firstMs: 500, maxMs: 300_000 };
const READS_BEFORE_A_TRY = 10;
/** So many tasks in a row that fail each for a reason of its own have one reason. */
const TASKS_ALIKE = 3;

export function createClaimGate(parts: {
  readonly clock: Clock;
  readonly stopping: AbortSignal;
  /** Whether the ledger answers a read. */
  readonly answers: () => Promise<boolean>;
  /** Called when more may be taken than before. */
  readonly onChange: () => void;
}): ClaimGate {
  const { clock, stopping, answers, onChange } = parts;
  let state: ClaimGate['state'] = 'open';
  let answered = true;
  let tries = 0;
  let timer: Timer | undefined;
  let looking = Promise.resolve();
  /** Those whose claim decides, while trying. */
  const onTrial = new Set<HeldDelivery>();
  /** Tasks whose claims failed since one was answered; a try with one of them costs no further delivery, and tells less. */
  const failing = new Set<string>();
  const alike = new Set<string>();
  stopping.addEventListener('abort', () => timer?.cancel(), { once: true });
  const pause = (ms: number, reads: number): void => {
    state = 'closed';
    onTrial.clear();
    if (stopping.aborted) return;
    timer = clock.timer(ms, () => {
      looking = look(reads);
    });
  };
  const look = async (reads: number): Promise<void> => {
    const mine = timer;
    const answer = await answers();
    // A claim that was under way may have opened the gate meanwhile.
    if (timer !== mine) return;
    answered = answer;
    if (!answered && reads % READS_BEFORE_A_TRY !== 0) return pause(backoffDelay(BETWEEN_READS, reads), reads + 1);
    state = 'trying';
    onChange();
  };
  const open = (): void => {
    tries = 0;
    answered = true;
    alike.clear();
    failing.clear();
    if (state === 'open') return;
    state = 'open';
    onTrial.clear();
    timer?.cancel();
    timer = undefined;
    onChange();
  };
  return {
    get state() {
      return state;
    },
    get answered() {
      return answered;
    },
    get looking() {
      return looking;
    },
    allows(wanted) {
      if (state === 'open') return wanted;
      return state === 'trying' && onTrial.size === 0 ? Math.min(1, wanted) : 0;
    },
    took(deliveries) {
      if (state === 'trying') for (const held of deliveries) onTrial.add(held);
    },
    learn(held, taskId, news) {
      if (news === 'answered') {
        open();
        return false;
      }
      const decides = onTrial.delete(held);
      if (news === 'one-task' && taskId !== undefined) alike.add(taskId);
      const failed = news === 'unanswered' || (news === 'one-task' && alike.size >= TASKS_ALIKE);
      const known = taskId !== undefined && failing.has(taskId);
      if (taskId !== undefined && news !== 'nothing') failing.add(taskId);
      // Claims that were under way when the first one failed tell nothing new. What was tried without a word of the ledger frees its slot, which wakes the intake.
      if (failed && (state === 'open' || decides)) {
        answered = false;
        if (!known || tries === 0) tries++;
        pause(backoffDelay(BETWEEN_TRIES, tries), 1);
      }
      return failed && decides;
    },
  };
}
