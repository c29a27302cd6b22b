import { expect, test } from 'vitest';
import { isLeaseholdError } from '@leasehold/core';
import { createWorker, defineTask, type AnyTask, type TaskOptions, type WorkerOptions } from '@leasehold/worker';
import { World } from './harness.ts';

test.each<[string, Partial<TaskOptions<unknown, unknown>>, RegExp]>([
  ['a lease without a unit', { lease: '30' }, /^task\.lease is "30": it has no unit; write '30s'/],
  ['an empty lease', { lease: '' }, /^task\.lease is "": write a number and a unit/],
  ['a lease that is not a number', { lease: Number.NaN }, /^task\.lease is NaN: write a length of time/],
  ['a negative lease', { lease: -1 }, /^task\.lease is -1: the least is/],
  ['an infinite lease', { lease: Number.POSITIVE_INFINITY }, /^task\.lease is Infinity/],
  ['half a millisecond', { lease: 0.5 }, /^task\.lease is 0\.5: a number means milliseconds and has to be whole/],
  [
    'a beat as long as the lease',
    { lease: { length: '30s', heartbeat: '30s' } },
    /^task\.lease: L = 30000 ms is not longer than R\*H \+ J = 1 \* 30000/,
  ],
  ['no attempts', { limits: { attempts: 0 } }, /^task\.limits\.attempts is 0: give a whole number from 1 up/],
  ['half an attempt', { limits: { attempts: 1.5 } }, /^task\.limits\.attempts is 1\.5/],
  ['a tool limit without a unit', { limits: { tool: '60' } }, /^task\.limits\.tool is "60": it has no unit/],
  [
    'a stage that is none',
    { limits: { stage: { flying: '1m' } as object } },
    /^task\.limits\.stage\.flying is not a stage/,
  ],
  ['a deadline of nothing', { limits: { deadline: 0 } }, /^task\.limits\.deadline is 0/],
  ['a stall limit that is not a number', { limits: { progress: Number.NaN } }, /^task\.limits\.progress is NaN/],
  ['a backoff without a unit', { backoff: { first: '5' } }, /^task\.backoff\.first is "5"/],
  ['a backoff that shrinks', { backoff: { factor: 0.5 } }, /^task\.backoff\.factor is 0\.5: give a number from 1/],
  ['no concurrency', { concurrency: 0 }, /^task\.concurrency is 0/],
  ['no function', { run: 'later' as unknown as () => null }, /^task\.run is "later"/],
  ['no type', { type: '' }, /^type is "": give the task a name/],
])('case 40: %s is refused by name and unit', (_what, options, message) => {
  expectRefusal(() => defineTask({ type: 'task', run: () => null, ...options }), message);
});

test.each<[string, Partial<WorkerOptions>, RegExp]>([
  ['a drain without a unit', { drain: '25' }, /^drain is "25": it has no unit; write '25s'/],
  ['an infinite drain', { drain: Number.POSITIVE_INFINITY }, /^drain is Infinity/],
  ['a negative grace', { abortGrace: -1 }, /^abortGrace is -1/],
  ['a poll longer than 20 s', { poll: '25s' }, /^poll is "?25s"?: the most is 20s/],
  ['no concurrency', { concurrency: 0 }, /^concurrency is 0/],
  ['a concurrency that is not a number', { concurrency: Number.NaN }, /^concurrency is NaN/],
  ['no tasks', { tasks: [] }, /^tasks is an array: list at least one/],
  ['a task that was not defined', { tasks: [{ type: 'task', run: () => null } as unknown as AnyTask] }, /^tasks/],
  [
    'two tasks of one type',
    { tasks: [defineTask({ type: 'x', run: () => 1 }), defineTask({ type: 'x', run: () => 2 })] },
    /^tasks is "x": two tasks/,
  ],
  ['no broker', { broker: undefined as unknown as WorkerOptions['broker'] }, /^broker is undefined/],
  [
    "a lease below the ledger's",
    { tasks: [defineTask({ type: 'x', lease: '2s', run: () => 1 })] },
    /^x\.lease is 2s, but this ledger cannot keep leases below 5s apart/,
  ],
  [
    'minutes taken for seconds',
    { tasks: [defineTask({ type: 'x', lease: 90, run: () => 1 })] },
    /^x\.lease is 90ms, but this ledger .* did you mean '90s'\?/,
  ],
  [
    'a margin within the clock error',
    { tasks: [defineTask({ type: 'x', lease: { length: '9s', margin: '200ms' }, run: () => 1 })] },
    /^x\.lease: the margin J = 200 ms has to exceed the clock error and batching delay of 420 ms/,
  ],
])('case 40: a worker with %s is refused before any receive', (_what, options, message) => {
  const world = new World({ ledger: { minLeaseMs: 5_000, clockErrorMs: 200 } });
  const a = world.host('a');
  expectRefusal(
    () => createWorker({ broker: a.broker, tasks: [defineTask({ type: 'task', run: () => null })], ...options }),
    message,
  );
  expect(a.brokerFaults.calls).toEqual([]);
});

function expectRefusal(act: () => unknown, message: RegExp): void {
  try {
    act();
  } catch (error) {
    expect(error).toSatisfy(isLeaseholdError);
    expect(error).toMatchObject({
      message: expect.stringMatching(message) as string,
      field: expect.any(String) as string,
    });
    return;
  }
  throw new Error('nothing was refused');
}
