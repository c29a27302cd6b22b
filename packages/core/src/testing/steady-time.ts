import { sleep, systemClock, type VirtualClock } from '../clock.ts';

/** A server in another thread or process that goes by the virtual clock. */
export interface RemoteServer {
  /** Resolves when the server goes by the time the clock shows now, and has answered all but the calls it holds. */
  settle(): Promise<void>;
  /** The calls it holds and does not answer before its time moves on: polls of an empty queue, calls that a fault holds up. */
  readonly waiting: number;
}

/** Virtual time that stands still while a watched call is under way. */
export interface SteadyTime {
  /**
   * The driver, with its calls counted. Closing it is not counted, and neither is a `receive` of a `local` driver: one whose polls wait on
   * the clock here and not at a server. Default: local when there are no servers.
   */
  watch<Driver extends object>(driver: Driver, options?: { readonly local?: boolean }): Driver;
  /** Resolves when no watched call is under way but those that wait for time to pass. */
  calm(): Promise<void>;
  /** Moves the clock on by `ms`, timer by timer; whatever a timer sets going comes to its end before the next one fires. */
  advance(ms: number): Promise<void>;
  /** Moves the clock on until something holds. Resolves with false when it does not within `ms`, or nothing is left to wait for. */
  until(holds: () => boolean | Promise<boolean>, ms: number): Promise<boolean>;
}

/** In a row without a call under way, until nothing can go on by itself. */
const CALM_TURNS = 4;
/** After so many turns of the event loop a call is with a server of its own pace: no need to ask as fast as possible. */
const EAGER_TURNS = 200;
/** The longest stride where a server has to follow: its own timers lie in between, and it has no place in ours. */
const STRIDE_MS = 1_000;
const MOST_STRIDES = 400;
const REAL = systemClock();

/**
 * Drives a virtual clock over drivers that answer in their own time: a file, or a server behind a socket. Without it a virtual timeout
 * would pass before a real answer is there.
 *
 * @example
 * const time = steadyTime(clock, [emulator]);
 * const driver = time.watch(sqsBroker({ queueUrl, client }));
 * await time.advance(30_000);
 */
export function steadyTime(clock: VirtualClock, servers: readonly RemoteServer[] = []): SteadyTime {
  const remote = servers.length > 0;
  let underWay = 0;
  const counted = async (work: Promise<unknown>): Promise<unknown> => {
    underWay++;
    try {
      return await work;
    } finally {
      underWay--;
    }
  };
  const busy = (): boolean => underWay > servers.reduce((sum, { waiting }) => sum + waiting, 0);
  const settle = (): Promise<unknown> => Promise.all(servers.map((server) => server.settle()));
  const quiet = async (): Promise<boolean> => {
    let disturbed = false;
    for (let calm = 0, turns = 0; calm < CALM_TURNS; turns++) {
      if (turns < EAGER_TURNS) await new Promise<void>((resolve) => setImmediate(resolve));
      else await sleep(REAL, 1);
      calm = busy() ? 0 : calm + 1;
      disturbed ||= calm === 0;
    }
    return !disturbed;
  };
  const time: SteadyTime = {
    watch(driver, { local = !remote } = {}) {
      const methods = new Map<PropertyKey, unknown>();
      return new Proxy(driver, {
        get(target, property) {
          const value = Reflect.get(target, property, target) as unknown;
          if (typeof value !== 'function' || property === 'close' || property === 'classify') return value;
          let method = methods.get(property);
          if (!method) {
            const call = value as (this: object, ...args: readonly unknown[]) => unknown;
            const waits = property === 'receive' && local;
            method = (...args: readonly unknown[]) => {
              const answer: unknown = Reflect.apply(call, target, args);
              return waits || !(answer instanceof Promise) ? answer : counted(answer);
            };
            methods.set(property, method);
          }
          return method;
        },
      });
    },
    async calm() {
      // What was answered meanwhile may have asked again.
      do await settle();
      while (!(await quiet()));
    },
    async advance(ms) {
      let over = false;
      clock.timer(ms, () => (over = true));
      await time.until(() => over, ms + 1);
    },
    async until(holds, ms) {
      const end = clock.monotonic() + ms;
      const stride = Math.max(STRIDE_MS, Math.ceil(ms / MOST_STRIDES));
      await time.calm();
      while (!(await holds())) {
        if (clock.monotonic() >= end || (!remote && clock.pending === 0)) return false;
        const left = end - clock.monotonic();
        const step = clock.timer(remote ? Math.min(stride, left) : left, () => undefined);
        await clock.runUntil(once(), left);
        step.cancel();
        await time.calm();
      }
      return true;
    },
  };
  return time;
}

/** Lets one timer fire. */
function once(): () => boolean {
  let asked = false;
  return () => {
    const was = asked;
    asked = true;
    return was;
  };
}
