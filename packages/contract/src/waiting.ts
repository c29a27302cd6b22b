import assert from 'node:assert/strict';
import { setTimeout as realSleep } from 'node:timers/promises';

interface Movable {
  advance?(ms: number): Promise<void>;
}

/** A signal that never aborts. */
export function never(): AbortSignal {
  return new AbortController().signal;
}

/** Lets `ms` of the store's time go by. */
export async function pass(harness: Movable, ms: number): Promise<void> {
  if (harness.advance) await harness.advance(ms);
  else await realSleep(ms);
}

/** What to add to an expiry to be past it: a hair on a clock that only we move, more on a machine that has other things to do. */
export function slack(harness: Movable, leaseMs: number): number {
  return harness.advance ? 1 : Math.max(250, leaseMs * 0.15);
}

/** Lets `ms` run out for good. An expiry is stamped by the latest possible now and judged by the earliest, so twice the store's clock error is added. */
export function outlast(harness: Movable, ms: number, clockErrorMs: number): Promise<void> {
  return pass(harness, ms + 2 * clockErrorMs + slack(harness, ms));
}

/** The result of `promise`, letting the store's time go on while it is pending. Fails after `withinMs` of it. */
export async function within<T>(harness: Movable, promise: Promise<T>, withinMs: number, what: string): Promise<T> {
  let settled = false;
  const done = (): void => {
    settled = true;
  };
  promise.then(done, done);
  const step = harness.advance ? Math.max(1, Math.min(1_000, withinMs / 50)) : 20;
  for (let passed = 0; passed <= withinMs; passed += step) {
    await pass(harness, 0);
    if (settled) return promise;
    await pass(harness, step);
  }
  if (settled) return promise;
  assert.fail(`${what} did not come to an end within ${withinMs} ms`);
}

/** The outcome of a call that may either answer or reject. */
export async function attempt<T>(promise: Promise<T>): Promise<{ readonly value: T } | { readonly error: unknown }> {
  try {
    return { value: await promise };
  } catch (error) {
    return { error };
  }
}
