import { expect, test } from 'vitest';
import { sleep, type BrokerDriver } from '@leasehold/core';
import { delayAnswer } from '@leasehold/core/testing';
import { defineTask, type AnyTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

const lasting = (
  host: Host,
  type: string,
  ms: number,
  options: Partial<Parameters<typeof defineTask>[0]> = {},
): AnyTask => defineTask({ type, ...options, run: (_input, ctx) => sleep(host.clock, ms, ctx.signal) });

const asked = (host: Host): readonly number[] =>
  host.brokerFaults.callsOf('receive').map(({ args }) => (args[0] as { max: number }).max);

test('a worker asks for no more than it can start, and the rest stays in the queue', async () => {
  const world = new World();
  const a = world.host('a');
  for (let number = 0; number < 12; number++) await world.enqueue({ type: 'task', input: { number } });
  const run = a.work([lasting(a, 'task', 10_000)], { concurrency: 3 });
  let most = 0;
  await world.until(() => {
    const running = world.table.records.filter(({ state }) => state === 'running').length;
    most = Math.max(most, running);
    const unstarted =
      world.queue.inFlight.length -
      world.table.records.filter(({ state }) => state !== 'queued').length +
      (12 - world.queue.messages.length);
    expect(unstarted).toBeLessThanOrEqual(3 - running);
    return world.quiet;
  });
  expect(most).toBe(3);
  expect(Math.max(...asked(a))).toBe(3);
  expect(run.worker.stats).toMatchObject({ claimed: 12, outcomes: { settled: 12 } });
  // A full worker does not poll at all.
  expect(asked(a).every((max) => max >= 1)).toBe(true);
  await world.end();
});

test('a poll that does not wait is followed by a pause where it brings nothing, and by none where it brings something', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on(
    'receive',
    // A loop that leaves no turn to timers could be ended by nothing else.
    (call) => (asked(a).length < 1_000 ? call.apply() : new Promise<never>(() => undefined)),
    { times: Infinity },
  );
  const run = a.work([lasting(a, 'task', 100)], { poll: 0, concurrency: 1 });
  await world.clock.advance(20_000);
  expect(asked(a).length).toBeLessThanOrEqual(21);
  expect(asked(a).length).toBeGreaterThanOrEqual(19);
  for (let number = 0; number < 20; number++) await world.enqueue({ type: 'task', input: { number } });
  expect(await world.until(() => run.worker.stats.outcomes.settled === 20)).toBeLessThanOrEqual(4_000);
  await world.end();
});

test('one slow task does not keep the other places empty', async () => {
  const world = new World();
  const a = world.host('a');
  const task = defineTask({ type: 'task', run: (input: { ms: number }) => sleep(a.clock, input.ms) });
  a.work([task], { concurrency: 2 });
  for (const ms of [100_000, 1_000, 1_000, 1_000]) await world.enqueue({ type: 'task', input: { ms } });
  await world.clock.advance(5_000);
  expect(world.table.records.filter(({ state }) => state === 'settled')).toHaveLength(3);
  await world.until(() => world.quiet);
  await world.end();
});

test('a deep queue is emptied by full calls, several under way at a time, and never more of it than can start', async () => {
  const world = new World();
  const a = world.host('a');
  const TASKS = 400;
  const PLACES = 40;
  const polls = { now: 0, most: 0 };
  a.brokerFaults.on(
    'receive',
    async (call) => {
      polls.most = Math.max(polls.most, ++polls.now);
      await sleep(world.clock, 15);
      try {
        return await call.apply(call.args, call.signal);
      } finally {
        polls.now--;
      }
    },
    { times: Infinity },
  );
  for (let number = 0; number < TASKS; number++)
    await world.enqueue({ type: 'task', input: { ms: 20 + ((number * 7) % 31) } });
  const task = defineTask({ type: 'task', run: (input: { ms: number }) => sleep(a.clock, input.ms) });
  const run = a.work([task], { concurrency: PLACES });
  let most = 0;
  await world.until(() => {
    most = Math.max(most, world.queue.inFlight.length);
    return run.worker.stats.outcomes.settled === TASKS;
  });
  const calls = a.brokerFaults.callsOf('receive').length;
  expect(polls.most).toBeGreaterThanOrEqual(3);
  // What is settled stays in flight until it is acknowledged, with others.
  expect(most).toBeLessThanOrEqual(PLACES + 2 * 10);
  expect(calls).toBeLessThanOrEqual(1.2 * (TASKS / 10));
  // A queue that is empty is polled by one call alone.
  await world.clock.advance(60_000);
  expect(polls.now).toBe(1);
  await world.end();
});

test('where there is more, places that come free together are asked for together', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('receive', delayAnswer(2), { times: Infinity });
  for (let number = 0; number < 100; number++) await world.enqueue({ type: 'task', input: { ms: 50 + (number % 9) } });
  const task = defineTask({ type: 'task', run: (input: { ms: number }, ctx) => sleep(a.clock, input.ms, ctx.signal) });
  const run = a.work([task], { concurrency: 10 });
  await world.until(() => run.worker.stats.outcomes.settled === 100);
  expect(asked(a).length).toBeLessThanOrEqual(20);
  // One place that is free alone does not wait for long.
  await world.enqueue({ type: 'task', input: { ms: 1_000_000 } });
  await world.until(() => run.worker.stats.running === 1);
  const from = world.clock.monotonic();
  const last = await world.enqueue({ type: 'task', input: { ms: 10 } });
  await world.until(() => world.record(last)?.state === 'settled');
  expect(world.clock.monotonic() - from).toBeLessThanOrEqual(30);
  await world.end();
});

test('a type runs as often at once as it says, and what it cannot take is handed back for others', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  let most = 0;
  let now = 0;
  const slow = (host: Host): AnyTask =>
    defineTask({
      type: 'slow',
      concurrency: 2,
      async run() {
        if (host === a) most = Math.max(most, ++now);
        await sleep(host.clock, 20_000);
        if (host === a) now--;
      },
    });
  for (let number = 0; number < 6; number++) await world.enqueue({ type: 'slow', input: { number } });
  await world.enqueue({ type: 'quick' });
  a.work([slow(a), lasting(a, 'quick', 1_000)], { concurrency: 10 });
  await world.clock.advance(10_000);
  expect(most).toBe(2);
  expect(world.table.records.filter(({ taskType }) => taskType === 'quick')).toMatchObject([{ state: 'settled' }]);
  expect(world.named('task_deferred').every(({ reason }) => reason === 'deferred')).toBe(true);
  b.work([slow(b)]);
  await world.clock.advance(5_000);
  expect(world.table.records.filter(({ leaseOwner }) => leaseOwner?.startsWith('b/'))).toHaveLength(2);
  await world.until(() => world.quiet);
  expect(most).toBe(2);
  // Waiting for its turn is nobody's failure.
  expect(world.table.records.every(({ attempt, failures }) => attempt === 1 && failures === 0)).toBe(true);
  await world.end();
});

test('a type that is not ours is handed back untouched, for longer', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const run = a.work([lasting(a, 'ours', 1_000)]);
  const id = await world.enqueue({ type: 'theirs' });
  await world.clock.advance(59_000);
  expect(world.record(id)).toBeUndefined();
  expect(world.queue.inFlight).toEqual([]);
  expect(world.queue.messages).toMatchObject([{ deliveries: 1 }]);
  expect(world.named('task_deferred')).toMatchObject([{ reason: 'refused-type', delayMs: 60_000 }]);
  await world.during(run.worker.stop());
  b.work([lasting(b, 'theirs', 1_000)]);
  await world.until(() => world.quiet && world.record(id)?.state === 'settled', 1_200_000);
  await world.end();
});

test('where a broker keeps no delay, what is handed back does not spin', async () => {
  const world = new World({ broker: { releaseDelayMs: 0, sendDelayMs: 0 } });
  const a = world.host('a');
  a.work([lasting(a, 'ours', 60_000, { concurrency: 1 })]);
  for (let number = 0; number < 2; number++) await world.enqueue({ type: 'ours', input: { number } });
  await world.enqueue({ type: 'theirs' });
  await world.clock.advance(60_000);
  expect(a.brokerFaults.callsOf('receive').length).toBeLessThan(150);
});

test('one of several bad messages delays nothing', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 'task', 1_000)], { concurrency: 10 });
  a.ledgerFaults.on('put', () => new Promise(() => undefined), {
    when: (next) => next.taskId === 'stuck',
    times: Infinity,
  });
  for (const taskId of ['one', 'stuck', 'two']) await world.enqueue({ type: 'task', taskId });
  await world.clock.advance(5_000);
  expect(run.worker.stats.outcomes.settled).toBe(2);
  expect(['one', 'two'].map((id) => world.record(id)?.state)).toEqual(['settled', 'settled']);
});

test('too few deliveries before the broker gives up are warned about at start, with the remedy', () => {
  const world = new World({ broker: { maxDeliveries: 5 } });
  const warnings: string[] = [];
  const start = (attempts: number): void => {
    const a = world.host('a');
    warnings.push(...a.work([lasting(a, 'task', 1, { limits: { attempts } })]).warnings);
  };
  start(1);
  expect(warnings).toEqual([]);
  start(5);
  expect(warnings).toEqual([expect.stringContaining('raise it to at least 13 (2 x 5 attempts + 3)')]);
});

test('a broker that knows its limit of deliveries only once it is open is warned about then, and once', async () => {
  const wrap = (driver: BrokerDriver): BrokerDriver => {
    let { capabilities } = driver;
    const opens: Pick<BrokerDriver, 'open'> = {
      async open() {
        capabilities = { ...capabilities, maxDeliveries: 5 };
      },
    };
    return Object.defineProperty({ ...driver, ...opens }, 'capabilities', { get: () => capabilities });
  };
  const world = new World({ wrap });
  const a = world.host('a');
  const run = a.work([lasting(a, 'task', 1, { limits: { attempts: 5 } })], { poll: '1s' });
  expect(run.warnings).toEqual([]);
  await world.clock.advance(10_000);
  expect(run.warnings).toEqual([expect.stringContaining('raise it to at least 13')]);
  await world.end();
});

test('receiving that fails is tried again ever later, and warned about once', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('receive', () => Promise.reject(new Error('no')), { times: 6 });
  const run = a.work([lasting(a, 'task', 1_000)]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'settled');
  const at = a.brokerFaults.callsOf('receive').map((call) => call.at);
  const gaps = at.slice(1, 7).map((time, index) => time - (at[index] ?? 0));
  expect(gaps.every((gap) => gap >= 250)).toBe(true);
  expect(gaps[5]).toBeGreaterThan(gaps[0] ?? 0);
  expect(run.warnings).toHaveLength(1);
  expect(world.named('broker_call_failed')).toHaveLength(6);
  await world.end();
});

test('a task that waits long for its type is not given up by the broker, and never given back beyond a third of its deliveries', async () => {
  const world = new World({ broker: { maxDeliveries: 13 } });
  const a = world.host('a');
  const run = a.work([lasting(a, 'slow', 120_000, { concurrency: 1 }), lasting(a, 'quick', 1_000)], {
    concurrency: 10,
  });
  for (let number = 0; number < 4; number++) await world.enqueue({ type: 'slow', input: { number } });
  await world.until(() => world.quiet);
  expect(world.queue.deadLetters).toEqual([]);
  expect(run.worker.stats.outcomes.settled).toBe(4);
  expect(a.brokerFaults.callsOf('release').length).toBeLessThanOrEqual(3 * 5);
  await world.end();
});
