/** A timer that can be called off. */
export interface Timer {
  /** Harmless when it has fired already. */
  cancel(): void;
}

/**
 * Time as core and worker see it. Leases are measured on `monotonic`; `wall` is for people and for noticing that the machine slept.
 * Delays longer than 2^31 ms are kept.
 */
export interface Clock {
  /** Epoch milliseconds. */
  wall(): number;
  /** Milliseconds since some fixed moment; never goes back. */
  monotonic(): number;
  /** Calls `fire` once after `delayMs` (at once for 0 or less). `background` timers do not keep the process alive. */
  timer(delayMs: number, fire: () => void, options?: { readonly background?: boolean }): Timer;
}

const LONGEST = 2 ** 31 - 1;

/** The machine's clock. */
export function systemClock(): Clock {
  return {
    wall: () => Date.now(),
    monotonic: () => performance.now(),
    timer(delayMs, fire, options) {
      const end = performance.now() + delayMs;
      let current: NodeJS.Timeout;
      const arm = (left: number): void => {
        current = setTimeout(
          () => {
            const rest = end - performance.now();
            // setTimeout may fire up to a millisecond early.
            if (rest > 1) arm(rest);
            else fire();
          },
          Math.min(Math.max(left, 0), LONGEST),
        );
        if (options?.background) current.unref();
      };
      arm(delayMs);
      return { cancel: () => clearTimeout(current) };
    },
  };
}

/** Resolves after `delayMs`; rejects with the signal's reason when it aborts first. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const stop = (): void => {
      timer.cancel();
      reject(signal?.reason as Error);
    };
    const timer = clock.timer(delayMs, () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
    signal?.addEventListener('abort', stop, { once: true });
  });
}

/** A clock that a test moves by hand. */
export interface VirtualClock extends Clock {
  /** Moves both clocks on by `ms`, firing timers in order and letting promises settle in between. */
  advance(ms: number): Promise<void>;
  /** Runs until no timer is due any more or `ms` have passed. Resolves with the milliseconds that passed. */
  runUntil(done: () => boolean, ms: number): Promise<number>;
  /** Moves the wall clock alone: an administrator, NTP, or (forward) a machine that slept while monotonic time stood still. */
  stepWall(ms: number): void;
  /** Moves the clocks on without firing anything in between, as a blocked event loop would; what is overdue fires on the next `advance`. */
  block(ms: number): void;
  /** Timers that are waiting, for tests that nothing leaks. */
  readonly pending: number;
}

/** A clock that stands still until a test moves it. Starts at `startWall` epoch milliseconds. */
export function virtualClock(startWall = 1_700_000_000_000): VirtualClock {
  let now = 1_000;
  let wallOffset = startWall - now;
  let sequence = 0;
  const timers = new Map<number, { at: number; order: number; fire: () => void }>();

  // A turn of the real event loop: promise chains, and work that other threads hand back, get to run.
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 3; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  const due = (limit: number): { id: number; at: number; fire: () => void } | undefined => {
    let found: { id: number; at: number; order: number; fire: () => void } | undefined;
    for (const [id, timer] of timers) {
      if (timer.at > limit) continue;
      if (!found || timer.at < found.at || (timer.at === found.at && timer.order < found.order))
        found = { id, ...timer };
    }
    return found;
  };
  const run = async (until: number, done: () => boolean): Promise<void> => {
    await settle();
    while (!done()) {
      const next = due(until);
      if (!next) break;
      timers.delete(next.id);
      now = Math.max(now, next.at);
      next.fire();
      await settle();
    }
  };
  return {
    wall: () => now + wallOffset,
    monotonic: () => now,
    timer(delayMs, fire) {
      const id = ++sequence;
      timers.set(id, { at: now + Math.max(0, delayMs), order: id, fire });
      return { cancel: () => void timers.delete(id) };
    },
    async advance(ms) {
      const until = now + ms;
      await run(until, () => false);
      now = Math.max(now, until);
      await settle();
    },
    async runUntil(done, ms) {
      const start = now;
      await run(start + ms, done);
      if (!done()) now = Math.max(now, start + ms);
      return now - start;
    },
    stepWall(ms) {
      wallOffset += ms;
    },
    block(ms) {
      now += ms;
    },
    get pending() {
      return timers.size;
    },
  };
}
