// Shorter ones are turns of the event loop, not waits.
const SHORTEST_WAIT_MS = 1;

const real = { Date, setTimeout, setInterval, clearTimeout, clearInterval, setImmediate };

type Callback = (...args: unknown[]) => void;

/** A timer that goes by hand-moved time. Has what callers expect of Node's own. */
class ThreadTimer {
  at: number;
  readonly #clock: ThreadClock;
  readonly ms: number;
  readonly fire: () => void;
  readonly repeats: boolean;

  constructor(clock: ThreadClock, ms: number, fire: () => void, repeats: boolean) {
    this.#clock = clock;
    this.ms = ms;
    this.fire = fire;
    this.repeats = repeats;
    this.at = clock.now() + ms;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  refresh(): this {
    this.at = this.#clock.now() + this.ms;
    return this;
  }

  close(): this {
    this.#clock.forget(this);
    return this;
  }
}

/**
 * Puts this thread's `Date`, `setTimeout` and `setInterval` under our control, before a server is imported. Node's own HTTP keeps its
 * timers: they do not go through the globals. With `count`, timers set from then on count as parked polls.
 */
export class ThreadClock {
  readonly #parked: Int32Array;
  readonly #byHand: boolean;
  readonly #timers = new Set<ThreadTimer>();
  readonly #polls = new Set<unknown>();
  #now: number;
  #counting = false;

  constructor(parked: SharedArrayBuffer, now: number | undefined) {
    this.#parked = new Int32Array(parked);
    this.#byHand = now !== undefined;
    this.#now = now ?? 0;
    this.#install();
  }

  now(): number {
    return this.#byHand ? this.#now : real.Date.now();
  }

  /** From now on a `setTimeout` is a poll that waits. */
  countPolls(): void {
    this.#counting = true;
  }

  /**
   * Goes by `now`. Intervals tick once, however far it moves: they look whether something became ready. Then waits that are over
   * end, the earliest first. Resolves when what was woken had its turns.
   */
  async move(now: number): Promise<void> {
    this.#now = now;
    for (const timer of [...this.#timers]) if (timer.repeats) timer.fire();
    await turns();
    const due = [...this.#timers].filter((timer) => !timer.repeats && timer.at <= now).sort((a, b) => a.at - b.at);
    for (const timer of due) {
      if (!this.#timers.has(timer)) continue;
      this.forget(timer);
      timer.fire();
    }
    await turns();
  }

  forget(timer: unknown): void {
    this.#timers.delete(timer as ThreadTimer);
    if (this.#polls.delete(timer)) this.#publish();
  }

  #install(): void {
    const now = (): number => this.now();
    if (this.#byHand) globalThis.Date = dateThatGoesBy(now);
    const set = (callback: Callback, ms = 0, ...args: unknown[]): unknown => {
      if (ms <= SHORTEST_WAIT_MS) return real.setTimeout(callback, ms, ...args);
      const fire = (): void => {
        this.forget(timer);
        callback(...args);
      };
      const timer: unknown = this.#byHand ? this.#wait(ms, fire, false) : real.setTimeout(fire, ms);
      if (this.#counting) {
        this.#polls.add(timer);
        this.#publish();
      }
      return timer;
    };
    const clear = (timer: unknown): void => {
      this.forget(timer);
      if (!(timer instanceof ThreadTimer)) real.clearTimeout(timer as NodeJS.Timeout);
    };
    const every = (callback: Callback, ms = 0, ...args: unknown[]): unknown =>
      this.#byHand ? this.#wait(ms, () => callback(...args), true) : real.setInterval(callback, ms, ...args);
    Object.assign(globalThis, { setTimeout: set, setInterval: every, clearTimeout: clear, clearInterval: clear });
  }

  #wait(ms: number, fire: () => void, repeats: boolean): ThreadTimer {
    const timer = new ThreadTimer(this, ms, fire, repeats);
    this.#timers.add(timer);
    return timer;
  }

  #publish(): void {
    Atomics.store(this.#parked, 0, this.#polls.size);
  }
}

function dateThatGoesBy(now: () => number): DateConstructor {
  return new Proxy(real.Date, {
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    apply: () => new real.Date(now()).toString(),
    get: (target, property) => (property === 'now' ? now : (Reflect.get(target, property) as unknown)),
  });
}

/** Turns of the event loop: promise chains, and what I/O is ready, get to run. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise<void>((resolve) => real.setImmediate(resolve));
}
