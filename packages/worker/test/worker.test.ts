import { expect, test } from 'vitest';
import { createLeaseBroker, sleep } from '@leasehold/core';
import { memoryBroker, memoryLedger, memoryQueue } from '@leasehold/core/memory';
import { delayAnswer } from '@leasehold/core/testing';
import { createWorker, defineTask, type AnyTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

const lasting = (host: Host, ms: number, more: Partial<Parameters<typeof defineTask>[0]> = {}): AnyTask =>
  defineTask({ type: 'task', ...more, run: (_input, ctx) => sleep(host.clock, ms, ctx.signal) });

test('a handler that leaks is counted, its late result is rejected and reported, and then it is not counted any more', async () => {
  const world = new World();
  const a = world.host('a');
  const rejected: unknown[] = [];
  const task = defineTask({
    type: 'task',
    lease: '30s',
    limits: { stage: '20s' },
    run: (_input, ctx) => (ctx.attempt > 1 ? 'second' : sleep(a.clock, 300_000).then(() => 'late')),
  });
  const run = a.work([task], { onRejected: (result) => rejected.push(result) });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.leaked === 1);
  expect(run.worker.stats).toMatchObject({ running: 0, outcomes: { leaked: 1 } });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, result: { inline: 'second' } });
  expect(rejected).toEqual([]);
  await world.until(() => run.worker.stats.leaked === 0);
  expect(rejected).toEqual([{ taskId: id, token: 1, result: 'late' }]);
  expect(world.record(id)?.result).toEqual({ inline: 'second' });
  await world.end();
});

test('a stop with a leaked handler is forced, within drain and grace', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([defineTask({ type: 'task', run: () => new Promise(() => undefined) })], {
    drain: '10s',
    abortGrace: '3s',
  });
  await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.running === 1);
  const stoppedAt = world.clock.monotonic();
  expect(await world.during(run.worker.stop())).toEqual({ outcome: 'forced', leaked: 1 });
  expect(world.clock.monotonic() - stoppedAt).toBe(13_000);
  expect(
    world
      .named('drain_started', 'handler_aborted', 'handler_leaked', 'drain_finished')
      .map(({ name, cause }) => [name, cause]),
  ).toEqual([
    ['drain_started', undefined],
    ['handler_aborted', 'draining'],
    ['handler_leaked', 'draining'],
    ['drain_finished', 'forced'],
  ]);
  expect(a.process.pending).toBe(0);
});

test('a claim that is answered after the drain deadline is aborted and released, not run to its end', async () => {
  const world = new World();
  const a = world.host('a');
  a.ledgerFaults.on('put', delayAnswer(8_000), { when: (next) => next.version === 1 });
  const run = a.work([lasting(a, 60_000)], { drain: '2s' });
  const id = await world.enqueue({ type: 'task' });
  await world.clock.advance(1_000);
  expect(await world.during(run.worker.stop(), 20_000)).toMatchObject({ outcome: 'drained' });
  expect(world.record(id)).toMatchObject({ state: 'queued', failures: 0, attempt: 1 });
});

test('a handler does not start under a lease that was over before its claim was answered', async () => {
  const world = new World();
  const a = world.host('a');
  const owned: string[] = [];
  const run = a.work([
    defineTask({ type: 'task', lease: '30s', run: (_input, ctx) => void owned.push(ctx.ownership) }),
  ]);
  // The claim is applied; the process stands still for longer than the lease.
  a.ledgerFaults.on('put', async (call) => {
    const answer = await call.apply();
    world.clock.block(31_000);
    return answer;
  });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(owned).toEqual(['held']);
  expect(run.worker.stats).toMatchObject({ claimed: 2, outcomes: { lost: 1, settled: 1 } });
  expect(world.named('task_left_to_lapse')).toMatchObject([{ cause: 'late-claim' }]);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2 });
  await world.end();
});

test('stopping twice, or before running, is one stop', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 1_000)]);
  await world.clock.advance(1_000);
  expect(await world.during(Promise.all([run.worker.stop(), run.worker.stop()]))).toEqual([
    { outcome: 'drained', leaked: 0 },
    { outcome: 'drained', leaked: 0 },
  ]);
  const idle = createWorker({ broker: world.host('b').broker, tasks: [lasting(a, 1)], signals: false });
  expect(idle.health()).toMatchObject({ live: true, ready: false });
  expect(await world.during(idle.stop())).toEqual({ outcome: 'drained', leaked: 0 });
  expect(world.clock.pending).toBe(0);
});

test('what is under way can be seen: type, stage, reason, remaining time', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([
    defineTask({
      type: 'task',
      async run(_input, ctx) {
        ctx.stage('external_call', 'page 3 of 9');
        await sleep(a.clock, 20_000, ctx.signal);
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.clock.advance(10_000);
  expect(run.worker.current).toEqual([
    { taskId: id, taskType: 'task', stage: 'external_call', reason: 'page 3 of 9', remainingMs: 80_000 },
  ]);
  await world.until(() => world.quiet);
  expect(run.worker.current).toEqual([]);
  await world.end();
});

/** Two more queues beside the world's, on its clock. */
function queues(world: World, host: Host) {
  const make = (name: string) => {
    const queue = memoryQueue();
    const driver = memoryBroker({ queue, clock: world.clock, name });
    return {
      queue,
      broker: createLeaseBroker({
        driver,
        ledger: memoryLedger({ table: world.table, clock: world.clock }),
        clock: host.clock,
      }),
    };
  };
  return [make('old'), make('new')] as const;
}

test('several brokers share the places by weight, and an idle one keeps none', async () => {
  const world = new World();
  const a = world.host('a');
  const [old, fresh] = queues(world, a);
  const done = { old: 0, new: 0 };
  const task = defineTask({
    type: 'task',
    async run(input: { from: 'old' | 'new' }) {
      await sleep(a.clock, 1_000);
      done[input.from]++;
    },
  });
  for (const [name, { broker }] of [
    ['old', old],
    ['new', fresh],
  ] as const) {
    for (let number = 0; number < 60; number++) await broker.enqueue([{ type: 'task', input: { from: name, number } }]);
  }
  const run = a.work([task], {
    broker: [
      { broker: old.broker, weight: 1 },
      { broker: fresh.broker, weight: 3 },
    ],
    concurrency: 8,
  });
  await world.until(() => done.new === 45, 60_000);
  expect(done.old).toBeGreaterThanOrEqual(8);
  expect(done.old).toBeLessThanOrEqual(24);
  await world.until(() => done.old === 60 && done.new === 60, 60_000);
  // With one of them empty the other has all places: 8 a second, a little less for polling.
  const startedAt = world.clock.monotonic();
  for (let number = 0; number < 40; number++)
    await old.broker.enqueue([{ type: 'task', input: { from: 'old', number: `again ${number}` } }]);
  await world.until(() => done.old === 100, 60_000);
  expect(world.clock.monotonic() - startedAt).toBeLessThan(12_000);
  expect(run.worker.health().brokers).toEqual([
    { name: 'old', ready: true },
    { name: 'new', ready: true },
  ]);
  await world.end();
});

test('tasks of one key run one at a time, across processes; others do not wait for them', async () => {
  const world = new World();
  const hosts = [world.host('a'), world.host('b')];
  const spans: { key: string; from: number; to: number }[] = [];
  for (const host of hosts) {
    host.work([
      defineTask({
        type: 'task',
        serialize: 'agent-run',
        async run(_input, ctx) {
          const from = host.clock.monotonic();
          await sleep(host.clock, 3_000, ctx.signal);
          spans.push({ key: ctx.agentRunId ?? '', from, to: host.clock.monotonic() });
        },
      }),
    ]);
  }
  for (let number = 0; number < 4; number++) {
    for (const agentRunId of ['one', 'two']) await world.enqueue({ type: 'task', agentRunId, input: { number } });
  }
  await world.until(() => spans.length === 8);
  const ofOne = spans.filter(({ key }) => key === 'one').sort((left, right) => left.from - right.from);
  const ofTwo = spans.filter(({ key }) => key === 'two').sort((left, right) => left.from - right.from);
  for (const some of [ofOne, ofTwo])
    for (const [index, span] of some.entries()) expect(span.from).toBeGreaterThanOrEqual(some[index - 1]?.to ?? 0);
  expect((ofOne[0]?.from ?? 0) < (ofTwo[0]?.to ?? 0) && (ofTwo[0]?.from ?? 0) < (ofOne[0]?.to ?? 0)).toBe(true);
});

test('the key of a handler that leaked is not free before its lease has lapsed', async () => {
  const world = new World();
  const a = world.host('a');
  const starts: [string, number][] = [];
  const task = defineTask({
    type: 'task',
    lease: '30s',
    serialize: () => 'one key',
    limits: { stage: '20s', attempts: 1 },
    run(_input, ctx) {
      starts.push([ctx.taskId, a.clock.monotonic()]);
      return ctx.taskId === 'deaf' ? new Promise<void>(() => undefined) : undefined;
    },
  });
  const run = a.work([task]);
  await world.enqueue({ type: 'task', taskId: 'deaf' });
  await world.until(() => run.worker.stats.running === 1);
  await world.enqueue({ type: 'task', taskId: 'next' });
  await world.until(() => run.worker.stats.leaked === 1);
  const leakedAt = world.clock.monotonic();
  await world.until(() => starts.length === 2);
  expect(starts.map(([id]) => id)).toEqual(['deaf', 'next']);
  // The last beat was up to ten seconds before the abort, the grace five.
  expect((starts[1]?.[1] ?? 0) - leakedAt).toBeGreaterThan(10_000);
  expect((starts[1]?.[1] ?? 0) - leakedAt).toBeLessThan(40_000);
});
