import type { Message } from '@aws-sdk/client-sqs';
import type { Clock, Timer } from '@leasehold/core';

/** ReceiveMessage calls under way. */
export interface Polls {
  /**
   * One ReceiveMessage that waits for `seconds`. An abort does not cut it off while SQS may still answer, for what it took would be held by nobody: it
   * resolves with what came. Overdue, it is cut, and rejects. What comes during a `close` goes to `giveBack`, and nothing is answered.
   */
  run(
    seconds: number,
    signal: AbortSignal,
    call: (cut: AbortSignal) => Promise<{ readonly Messages?: Message[] | undefined }>,
  ): Promise<readonly Message[]>;
  /** Resolves when those under way have ended, overdue ones by being cut. */
  close(): Promise<void>;
}

/** SQS answers an empty poll within its wait; this much later it is not going to. */
const OVERDUE_MS = 1_000;

/** What is given back while the driver closes has this long: a call without an end would keep the process. */
const GIVE_BACK_MS = 2_000;

/** Keeps watch over polls. `giveBack` never rejects. */
export function createPolls(
  clock: Clock,
  giveBack: (messages: readonly Message[], signal: AbortSignal) => Promise<void>,
): Polls {
  const underWay = new Set<Promise<unknown>>();
  /** Each lets one poll end, soon or at once. */
  const stops = new Set<() => void>();
  let closing = false;

  const poll: Polls['run'] = async (seconds, signal, call) => {
    const end = clock.monotonic() + seconds * 1_000 + OVERDUE_MS;
    const cut = new AbortController();
    let timer: Timer | undefined;
    const stop = (): void => {
      timer ??= clock.timer(end - clock.monotonic(), () => cut.abort());
    };
    signal.addEventListener('abort', stop, { once: true });
    stops.add(stop);
    try {
      const { Messages = [] } = await call(cut.signal);
      if (!closing || Messages.length === 0) return Messages;
      timer?.cancel();
      timer = clock.timer(GIVE_BACK_MS, () => cut.abort());
      await giveBack(Messages, cut.signal);
      return [];
    } finally {
      signal.removeEventListener('abort', stop);
      stops.delete(stop);
      timer?.cancel();
    }
  };
  return {
    run(seconds, signal, call) {
      const work = poll(seconds, signal, call);
      underWay.add(work);
      const gone = (): void => void underWay.delete(work);
      work.then(gone, gone);
      return work;
    },
    async close() {
      closing = true;
      for (const stop of [...stops]) stop();
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
  };
}
