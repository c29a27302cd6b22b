import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock, Timer } from '@leasehold/core';
import { InjectedError } from '@leasehold/core/testing';

/** What happens to a process at one of its calls to the outside. */
export type Fate =
  /** Dies before the call leaves. */
  | 'killed before'
  /** The call is applied; the process dies before it sees the answer. */
  | 'killed after'
  /** Stands still before the call leaves (SIGSTOP, a blocked loop, a paused hypervisor), then goes on with it. */
  | 'paused before'
  /** The call is applied; the process stands still before it sees the answer. */
  | 'paused after'
  /** The process goes on; the call arrives, and is answered, much later. */
  | 'late'
  /** The call is applied; the process goes on and is told that it failed. */
  | 'answer lost';

/** What befalls a call. `forMs`: how long a pause, or the way of a late call, takes. */
export interface Strike {
  readonly fate: Fate;
  readonly forMs: number;
}

/** Where something happens: at the `at`-th call from when it was planned. */
export interface FatePoint extends Strike {
  readonly at: number;
}

/** The process whose code runs now. */
export const running: AsyncLocalStorage<Process> = new AsyncLocalStorage();

/**
 * One process: a clock of its own, on which timers die with it and wait while it stands still, and a gate through which every call to
 * the outside goes. A process that is killed is simply abandoned: no timer of it fires, no promise of it goes on.
 */
export class Process {
  readonly name: string;
  /** `break`: from now on it answers NaN. */
  readonly clock: Clock & { stepWall(ms: number): void; break(): void };
  /** What it called, in order. */
  readonly calls: string[] = [];
  alive = true;
  readonly #world: Clock;
  readonly #timers = new Set<Timer>();
  readonly #overdue = new Set<() => void>();
  #point: FatePoint | undefined;
  #seen = 0;
  #struck = false;
  #standing: { readonly until: Promise<void>; readonly goOn: () => void } | undefined;

  constructor(name: string, world: Clock) {
    this.name = name;
    this.#world = world;
    let wallOffset = 0;
    let broken = 0;
    this.clock = {
      wall: () => world.wall() + wallOffset,
      monotonic: () => world.monotonic() + broken,
      timer: (delayMs, fire) => this.#timer(delayMs, fire),
      stepWall: (ms) => void (wallOffset += ms),
      break: () => void (broken = Number.NaN),
    };
  }

  /** Plans what is to happen at a later call. */
  plan(point: FatePoint): void {
    this.#struck = false;
    this.#point = { ...point, at: this.#seen + point.at };
  }

  /** Whether what was planned has begun. */
  get struck(): boolean {
    return this.#struck;
  }

  /** Whether it is paused just now. */
  get standing(): boolean {
    return this.#standing !== undefined;
  }

  /** Timers of its own that wait. */
  get pending(): number {
    return this.#timers.size;
  }

  kill(): void {
    this.alive = false;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.#overdue.clear();
  }

  /** Stands still for a while; the outside goes on. */
  pause(ms: number): void {
    if (this.#standing) return;
    let goOn: () => void = () => undefined;
    const until = new Promise<void>((resolve) => (goOn = resolve));
    this.#standing = { until, goOn };
    this.#world.timer(ms, () => {
      this.#standing = undefined;
      goOn();
      // First the code that was stopped in the middle goes on, then what is overdue.
      this.#world.timer(0, () => {
        const due = [...this.#overdue];
        this.#overdue.clear();
        for (const ring of due) ring();
      });
    });
  }

  /**
   * A call to the outside. Never resolves once the process is dead. A call that is late is `onItsOwn`: nobody can call it back.
   * What befalls it is what was planned, or what `befalls` says when the call leaves.
   */
  async outside<Answer>(
    what: string,
    call: (onItsOwn: boolean) => Promise<Answer>,
    befalls: () => Strike | undefined = () => undefined,
  ): Promise<Answer> {
    await this.#goesOn();
    this.calls.push(what);
    const planned = ++this.#seen === this.#point?.at ? this.#point : undefined;
    const point = planned ?? befalls();
    if (point) this.#struck = true;
    if (point?.fate === 'killed before') this.kill();
    if (point?.fate === 'paused before') this.pause(point.forMs);
    await this.#goesOn();
    if (point?.fate === 'late') await new Promise<void>((resolve) => this.#world.timer(point.forMs, resolve));
    const answer = await settled(call(point?.fate === 'late'));
    if (point?.fate === 'killed after') this.kill();
    if (point?.fate === 'paused after') this.pause(point.forMs);
    await this.#goesOn();
    if (point?.fate === 'answer lost')
      throw new InjectedError('unavailable', `injected: the answer to ${what} was lost`);
    if ('error' in answer) throw answer.error;
    return answer.value;
  }

  async #goesOn(): Promise<void> {
    while (this.#standing) await this.#standing.until;
    if (!this.alive) await new Promise(() => undefined);
  }

  #timer(delayMs: number, fire: () => void): Timer {
    if (!this.alive) return { cancel: () => undefined };
    const ring = (): void => {
      if (this.#standing) {
        this.#overdue.add(ring);
        return;
      }
      this.#timers.delete(timer);
      running.run(this, fire);
    };
    const inner = this.#world.timer(delayMs, ring);
    const timer = {
      cancel: () => {
        inner.cancel();
        this.#overdue.delete(ring);
        this.#timers.delete(timer);
      },
    };
    this.#timers.add(timer);
    return timer;
  }
}

async function settled<Answer>(work: Promise<Answer>): Promise<{ value: Answer } | { error: unknown }> {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
}
