/** The places for running tasks, shared by all brokers of a worker. */
export interface Slots {
  readonly size: number;
  readonly taken: number;
  /** Places that are neither taken nor kept for what a poll may bring. */
  readonly open: number;
  take(): void;
  free(): void;
  /** Keeps places for a poll, until the returned function is called. */
  keep(count: number): () => void;
  /** Resolves at the next `free`, or `wake`. */
  change(): Promise<void>;
  wake(): void;
}

/** `size` places. */
export function createSlots(size: number): Slots {
  let taken = 0;
  let kept = 0;
  let waiting: (() => void)[] = [];
  const wake = (): void => {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  };
  return {
    size,
    get taken() {
      return taken;
    },
    get open() {
      return size - taken - kept;
    },
    take: () => void taken++,
    free() {
      taken--;
      wake();
    },
    keep(count) {
      kept += count;
      return () => void (kept -= count);
    },
    change: () => new Promise((resolve) => waiting.push(resolve)),
    wake,
  };
}

/**
 * Divides free places among brokers that poll at the same time. One that brought nothing last time is asked for a single message, so that an
 * idle broker does not keep places from a busy one; with more than one busy, each gets its share by weight, and the last place goes to the one
 * that is furthest behind its share.
 */
export interface Shares {
  /** How many messages broker `index` may ask for now, `most` at most; 0 = wait for a change. */
  ask(index: number, free: number, most?: number): number;
  /**
   * Whether broker `index` may wait with what it was just allowed to ask for. An idle one that has got the last place looks and gives it back:
   * another has work for it.
   */
  mayWait(index: number, free: number): boolean;
  /** Broker `index` asks for nothing for a while. True when that changes what others may ask for. */
  rest(index: number): boolean;
  /** The poll of broker `index` ended and brought this many. */
  answered(index: number, received: number): void;
}

/** Shares by weight. A single broker gets everything. */
export function createShares(weights: readonly number[]): Shares {
  const asked = weights.map(() => 0);
  const idle = weights.map(() => false);
  // How much each was served, by its weight: the lower, the further behind.
  const served = weights.map(() => 0);
  const left = (free: number): number => free - asked.reduce((sum, count) => sum + count, 0);
  const waitsBehind = (index: number): boolean =>
    weights.some(
      (_, other) =>
        other !== index && !idle[other] && asked[other] === 0 && (served[other] as number) < (served[index] as number),
    );
  return {
    ask(index, free, most = Number.POSITIVE_INFINITY) {
      if (weights.length === 1) return Math.min(free, most);
      const open = left(free);
      if (open <= 0 || (open === 1 && waitsBehind(index))) return 0;
      const busy = weights.reduce((sum, weight, other) => sum + (idle[other] && other !== index ? 0 : weight), 0);
      const share = Math.ceil((free * (weights[index] as number)) / busy);
      const count = idle[index] ? 1 : Math.max(1, Math.min(open, share, most));
      asked[index] = count;
      return count;
    },
    mayWait: (index, free) => !idle[index] || left(free) > 0 || idle.every(Boolean),
    rest(index) {
      const news = !idle[index] || asked[index] !== 0;
      asked[index] = 0;
      idle[index] = true;
      return news;
    },
    answered(index, received) {
      asked[index] = 0;
      // Whoever had nothing to do has saved nothing up.
      if (idle[index] && received > 0) served[index] = Math.max(...served);
      idle[index] = received === 0;
      served[index] = (served[index] as number) + received / (weights[index] as number);
    },
  };
}
