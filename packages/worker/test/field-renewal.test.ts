import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import { delayAnswer, dropAnswer, failBefore, hangDeaf } from '@leasehold/core/testing';
import { defineTask, isTaskAborted, RetryableError, type TaskContext } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

/** A task that lasts `ms`, whatever its signal says. */
const lasting = (host: Host, ms: number, options: { lease: string; stage?: string; seen?: TaskContext[] }) =>
  defineTask({
    type: 'task',
    lease: options.lease,
    limits: { ...(options.stage !== undefined && { stage: options.stage }) },
    async run(_input, ctx) {
      options.seen?.push(ctx);
      await sleep(host.clock, ms);
      return { by: host.name };
    },
  });

test('case 1: a loop blocked beyond its lease wakes up aborted, and nothing it writes counts', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const seen: TaskContext[] = [];
  const rejected: unknown[] = [];
  const first = a.work([lasting(a, 20_000, { lease: '30s', seen })], { onRejected: (result) => rejected.push(result) });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => seen.length === 1);
  await world.clock.advance(5_000);
  a.process.pause(45_000);
  b.work([lasting(b, 20_000, { lease: '30s' })]);
  await world.until(() => first.worker.stats.running === 0);
  expect(seen[0]?.signal.reason).toMatchObject({ name: 'TaskAborted', reason: 'lost' });
  expect(first.worker.stats.outcomes).toMatchObject({ lost: 1, settled: 0 });
  expect(rejected).toEqual([{ taskId: id, token: 1, result: { by: 'a' } }]);
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({
    state: 'settled',
    fencingToken: 2,
    settlementReceipt: { token: 2 },
    result: { inline: { by: 'b' } },
  });
  expect(world.named('task_settled')).toHaveLength(1);
  await world.end();
});

test('case 2: with a renew call of 2 s, a lock of 5 s is renewed by half of what remains and never lost', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('extend', delayAnswer(2_000), { times: Infinity });
  const run = a.work([lasting(a, 20_000, { lease: '5s' })]);
  await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(run.worker.stats).toMatchObject({ claimed: 1, outcomes: { settled: 1 } });
  const puts = a.ledgerFaults.callsOf('put').map(({ at }) => at);
  const gaps = puts.slice(1).map((at, index) => at - (puts[index] ?? 0));
  expect(gaps.length).toBeGreaterThan(8);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(2_500);
  expect(Math.min(...gaps)).toBeGreaterThan(0);
  await world.end();
});

test.each(['5s', '2s', '1s'])('case 3: under a lease of %s the handler runs to its end', async (lease) => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 20_000, { lease })]);
  await world.clock.advance(30_000);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(run.worker.stats).toMatchObject({ claimed: 1, outcomes: { settled: 1 } });
  expect(world.record(id)?.attempt).toBe(1);
  await world.end();
});

test('case 3: a lease of 0 is refused', () => {
  expect(() => defineTask({ type: 'task', lease: 0, run: () => null })).toThrow(/task\.lease is 0: the least is 1ms/);
});

test('case 4: ten messages at concurrency 1 all run, and none waits unleased', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 5_000, { lease: '30s' })], { concurrency: 1 });
  for (let number = 0; number < 10; number++) await world.enqueue({ type: 'task', input: { number } });
  let most = 0;
  await world.until(() => {
    const acknowledging =
      world.table.records.filter(({ state }) => state === 'settled').length - (10 - world.queue.messages.length);
    most = Math.max(most, world.queue.inFlight.length - acknowledging);
    return world.quiet;
  });
  expect(most).toBe(1);
  expect(run.worker.stats).toMatchObject({ claimed: 10, outcomes: { settled: 10 } });
  expect(world.table.records.map(({ attempt }) => attempt)).toEqual(Array(10).fill(1));
  await world.end();
});

test('case 4: a message whose lease is over by the time a slot is free is dropped unstarted', async () => {
  const world = new World();
  const a = world.host('a');
  const id = await world.enqueue({ type: 'task' });
  a.process.plan({ at: 1, fate: 'paused after', forMs: 40_000 });
  const run = a.work([lasting(a, 1_000, { lease: '30s' })]);
  await world.until(() => world.quiet);
  expect(world.named('task_left_to_lapse')).toMatchObject([{ cause: 'lapsed-delivery', taskId: id }]);
  expect(run.worker.stats.claimed).toBe(1);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  await world.end();
});

test('case 9: a settle waits for the renewal that is on its way', async () => {
  const world = new World();
  const a = world.host('a');
  let finish: () => void = () => undefined;
  const task = defineTask({ type: 'task', run: () => new Promise<void>((resolve) => (finish = resolve)) });
  a.ledgerFaults.on('put', delayAnswer(500), { nth: 2 });
  a.work([task]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => a.ledgerFaults.callsOf('put').length === 2);
  await world.clock.advance(100);
  finish();
  await world.until(() => world.quiet);
  const [, renewal, settle] = a.ledgerFaults.callsOf('put').map(({ at }) => at);
  expect(settle).toBe((renewal ?? 0) + 500);
  expect(world.record(id)?.state).toBe('settled');
  expect(world.named('warning', 'heartbeat_unknown', 'heartbeat_lost', 'result_rejected', 'late_answer')).toEqual([]);
  await world.end();
});

test('case 11: a release while a renewal is pending stands, and leaves no timer', async () => {
  const world = new World();
  const a = world.host('a');
  let fail: (error: Error) => void = () => undefined;
  const task = defineTask({ type: 'task', run: () => new Promise<void>((_, reject) => (fail = reject)) });
  a.ledgerFaults.on('put', delayAnswer(200), { nth: 2 });
  a.work([task]);
  await world.clock.advance(1_000);
  const idle = a.process.pending;
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => a.ledgerFaults.callsOf('put').length === 2);
  await world.clock.advance(100);
  fail(new RetryableError('not now', { delayMs: 3_600_000 }));
  await world.clock.advance(30_000);
  expect(world.record(id)).toMatchObject({ state: 'queued', fencingToken: 1, failures: 1 });
  expect(world.record(id)?.leaseOwner).toBeUndefined();
  expect(a.process.pending).toBe(idle);
  await world.end();
});

test('case 12: when every renewal fails the signal aborts by the deadline, and what is returned later is discarded', async () => {
  const world = new World();
  const a = world.host('a');
  const aborted: { at: number; reason: unknown }[] = [];
  const rejected: unknown[] = [];
  const task = defineTask({
    type: 'task',
    lease: '30s',
    async run(_input, ctx) {
      ctx.signal.addEventListener('abort', () => aborted.push({ at: a.clock.monotonic(), reason: ctx.signal.reason }));
      await sleep(a.clock, 33_000);
      return 'late';
    },
  });
  a.ledgerFaults.on('put', failBefore('unavailable'), { nth: 2, times: Infinity });
  const run = a.work([task], { onRejected: ({ result }) => rejected.push(result) });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.outcomes.lost === 1);
  const claimedAt = a.ledgerFaults.callsOf('put')[0]?.at ?? 0;
  expect(aborted).toHaveLength(1);
  expect(aborted[0]?.at).toBeLessThanOrEqual(claimedAt + 30_000);
  expect(isTaskAborted(aborted[0]?.reason) && aborted[0]?.reason.reason).toBe('lost');
  expect(rejected).toEqual(['late']);
  expect(world.named('result_rejected')).toMatchObject([{ taskId: id, token: 1 }]);
  expect(world.record(id)).toMatchObject({ state: 'running', version: 1 });
  await world.end();
});

test('case 15: a settle that is applied without an answer is unknown, nothing is given back, and the redelivery only acknowledges', async () => {
  const world = new World();
  const a = world.host('a');
  let runs = 0;
  const task = defineTask({ type: 'task', lease: '30s', run: () => ++runs });
  a.ledgerFaults.on('put', dropAnswer(60_000), { nth: 2 });
  a.ledgerFaults.on('put', hangDeaf(), { nth: 3, times: 60 });
  const run = a.work([task]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.outcomes.unknown === 1);
  expect(world.record(id)?.state).toBe('settled');
  expect(a.brokerFaults.callsOf('release')).toEqual([]);
  expect(a.brokerFaults.callsOf('complete')).toEqual([]);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  expect(runs).toBe(1);
  expect(run.worker.stats).toMatchObject({ claimed: 1, replayed: 1 });
  await world.end();
});

test('case 15: a completion that is applied without an answer is not undone', async () => {
  const world = new World();
  const a = world.host('a');
  let runs = 0;
  a.brokerFaults.on('complete', dropAnswer(60_000));
  a.work([defineTask({ type: 'task', lease: '30s', run: () => ++runs })]);
  await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  await world.clock.advance(120_000);
  expect(runs).toBe(1);
  expect(a.brokerFaults.callsOf('release')).toEqual([]);
  await world.end();
});

test('case 17: a handler of four hours under a lease of one is called once, renewed and settled once', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 4 * 3_600_000, { lease: '1h', stage: '5h' })]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 5 * 3_600_000);
  expect(run.worker.stats).toMatchObject({ claimed: 1, outcomes: { settled: 1 } });
  expect(world.record(id)?.renewalCount).toBeGreaterThanOrEqual(4);
  expect(world.invariants.settles.get(id)).toBe(1);
  await world.end();
});

test.each([
  ['kept in place', { releaseDelayMs: 3_600_000 }],
  ['sent again with a delay', { releaseDelayMs: 0, sendDelayMs: 900_000 }],
  ['kept by its next owner, where the broker keeps no delay', { releaseDelayMs: 0, sendDelayMs: 0 }],
])('case 19: a backoff longer than the lease is %s; attempts never overlap', async (_how, broker) => {
  const world = new World({ broker });
  const a = world.host('a');
  const starts: number[] = [];
  let at_once = 0;
  const task = defineTask({
    type: 'task',
    lease: '30s',
    async run() {
      starts.push(a.clock.monotonic());
      expect(++at_once).toBe(1);
      await sleep(a.clock, 2_000);
      at_once--;
      if (starts.length === 1) throw new RetryableError('later', { delayMs: 40_000 });
    },
  });
  a.work([task]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(starts).toHaveLength(2);
  expect((starts[1] ?? 0) - (starts[0] ?? 0)).toBeGreaterThanOrEqual(42_000);
  expect((starts[1] ?? 0) - (starts[0] ?? 0)).toBeLessThan(60_000);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, failures: 1 });
  expect(a.brokerFaults.callsOf('receive').length).toBeLessThan(20);
  await world.end();
});
