import type { Timer, VirtualClock } from '@leasehold/core';

interface Waiting {
  readonly at: number;
  readonly order: number;
  readonly fire: () => void;
  off: boolean;
}

/**
 * A virtual clock for millions of steps: a heap of timers, and one callback of the real event loop after each. When the next such callback
 * comes no promise can go on by itself, since nothing in the simulation waits for anything but timers.
 */
export class SimClock implements VirtualClock {
  /** Timers that fired. */
  steps = 0;
  /** Called after every step, when all promises have come to rest. */
  afterStep: () => void = () => undefined;
  #now = 1_000;
  #wallOffset = 1_700_000_000_000;
  #order = 0;
  #pending = 0;
  readonly #heap: Waiting[] = [];

  get pending(): number {
    return this.#pending;
  }

  wall(): number {
    return this.#now + this.#wallOffset;
  }

  monotonic(): number {
    return this.#now;
  }

  timer(delayMs: number, fire: () => void): Timer {
    const waiting: Waiting = { at: this.#now + Math.max(0, delayMs), order: ++this.#order, fire, off: false };
    this.#push(waiting);
    this.#pending++;
    return {
      cancel: () => {
        if (!waiting.off) this.#pending--;
        waiting.off = true;
      },
    };
  }

  async advance(ms: number): Promise<void> {
    await this.runUntil(() => false, ms);
  }

  async runUntil(done: () => boolean, ms: number): Promise<number> {
    const start = this.#now;
    const end = start + ms;
    await settle();
    this.afterStep();
    while (!done()) {
      const first = this.#heap[0];
      if (!first || first.at > end) {
        this.#now = end;
        break;
      }
      this.#pop();
      if (first.off) continue;
      first.off = true;
      this.#pending--;
      this.#now = Math.max(this.#now, first.at);
      this.steps++;
      first.fire();
      await settle();
      this.afterStep();
    }
    return this.#now - start;
  }

  stepWall(ms: number): void {
    this.#wallOffset += ms;
  }

  block(ms: number): void {
    this.#now += ms;
  }

  #push(waiting: Waiting): void {
    const heap = this.#heap;
    let index = heap.push(waiting) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!before(waiting, heap[parent] as Waiting)) break;
      heap[index] = heap[parent] as Waiting;
      index = parent;
    }
    heap[index] = waiting;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Waiting;
    if (heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Waiting, heap[child] as Waiting)) child++;
      if (!before(heap[child] as Waiting, last)) break;
      heap[index] = heap[child] as Waiting;
      index = child;
    }
    heap[index] = last;
  }
}

/** Two at the same instant fire in the order in which they were set. */
function before(one: Waiting, other: Waiting): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}

/** How many callbacks are asked for at a time. */
const AHEAD = 64;
let asked = 0;
let resume: (() => void) | undefined;

/**
 * Resolves when all promises have come to rest. A turn of the event loop is dear, and one turn serves many callbacks: between any two of them
 * all promises run and rejections that nobody listens to come to light, as at the end of the turn. One waits at a time.
 */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    resume = resolve;
    if (asked > 0) return;
    asked = AHEAD;
    for (let one = 0; one < AHEAD; one++) setImmediate(next);
  });
}

function next(): void {
  asked--;
  resume?.();
}
