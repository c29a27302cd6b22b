import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import { defineTask, isTaskAborted, type TaskContext, type TaskLimits } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

interface Seen {
  readonly contexts: TaskContext[];
  readonly errors: unknown[];
}

/** Runs one task with one attempt and gives what its handler saw. */
function once(host: Host, limits: TaskLimits, run: (ctx: TaskContext) => Promise<unknown>): Seen {
  const seen: Seen = { contexts: [], errors: [] };
  host.work([
    defineTask({
      type: 'task',
      lease: '30s',
      limits: { attempts: 1, ...limits },
      async run(_input, ctx) {
        seen.contexts.push(ctx);
        try {
          return await run(ctx);
        } catch (error) {
          seen.errors.push(error);
          throw error;
        }
      },
    }),
  ]);
  return seen;
}

const reasons = ({ contexts }: Seen): readonly unknown[] =>
  contexts.map(({ signal }) => isTaskAborted(signal.reason) && signal.reason.reason);
const seconds = (world: World): number => (world.clock.monotonic() - 1_000) / 1_000;

test('a stage that lasts longer than its limit ends the attempt; renewing stops with it', async () => {
  const world = new World();
  const a = world.host('a');
  const seen = once(a, { stage: { external_call: '40s' } }, async (ctx) => {
    await sleep(a.clock, 60_000);
    ctx.stage('external_call', 'asking the model');
    await sleep(a.clock, 600_000, ctx.signal);
  });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => seen.errors.length === 1);
  expect(seconds(world)).toBe(100);
  expect(reasons(seen)).toEqual(['stage-limit']);
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    stage: 'external_call',
    lastError: { errorClass: 'stage-limit' },
  });
  await world.end();
});

test('a stage limit of ten minutes holds where none is set', async () => {
  const world = new World();
  const a = world.host('a');
  const seen = once(a, {}, (ctx) => sleep(a.clock, 3_600_000, ctx.signal));
  await world.enqueue({ type: 'task' });
  await world.until(() => seen.errors.length === 1, 3_600_000);
  expect(seconds(world)).toBe(600);
  expect(reasons(seen)).toEqual(['stage-limit']);
});

test('the same claim of progress for too long is a stall: renewing stops and the handler is aborted', async () => {
  const world = new World();
  const a = world.host('a');
  const seen = once(a, { progress: '45s', stage: '1h' }, async (ctx) => {
    for (let chunk = 1; chunk <= 4; chunk++) {
      ctx.progress(`chunk ${chunk} of 9`);
      await sleep(a.clock, 30_000, ctx.signal);
    }
    for (;;) {
      ctx.progress('chunk 5 of 9');
      await sleep(a.clock, 10_000, ctx.signal);
    }
  });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => seen.errors.length === 1);
  expect(seconds(world)).toBe(4 * 30 + 45);
  expect(reasons(seen)).toEqual(['stalled']);
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'dead_lettered', lastError: { errorClass: 'stalled' } });
  await world.end();
});

test('a stalled handler that goes on is not renewed any more', async () => {
  const world = new World();
  const a = world.host('a');
  const seen = once(a, { progress: '45s' }, () => sleep(a.clock, 600_000));
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => seen.contexts[0]?.signal.aborted === true);
  const renewals = world.record(id)?.renewalCount;
  await world.clock.advance(60_000);
  expect(world.record(id)).toMatchObject({
    renewalCount: renewals,
    state: 'dead_lettered',
    lastError: { errorClass: 'attempts-exhausted' },
  });
});

test('entering another stage is progress, even with the same words', async () => {
  const world = new World();
  const a = world.host('a');
  const seen = once(a, { progress: '45s' }, async (ctx) => {
    for (const stage of ['preflight', 'external_call', 'commit', 'verify'] as const) {
      ctx.stage(stage, 'case 17');
      await sleep(a.clock, 30_000, ctx.signal);
    }
  });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(seen.errors).toEqual([]);
  expect(world.record(id)?.state).toBe('settled');
  await world.end();
});

test.each(['thinking', 'settled', undefined])(
  'a stage that there is not (%s) is refused, and the limits of other attempts hold',
  async (stage) => {
    const world = new World();
    const a = world.host('a');
    const errors: unknown[] = [];
    const ends: unknown[] = [];
    const bad = defineTask({
      type: 'bad',
      lease: '30s',
      async run(_input, ctx) {
        try {
          ctx.stage(stage as never, 'asking the model for a plan');
        } catch (error) {
          errors.push(error);
        }
        await sleep(a.clock, 100_000, ctx.signal);
      },
    });
    const good = defineTask({
      type: 'good',
      lease: '30s',
      limits: { stage: '20s', attempts: 1 },
      run: (_input, ctx) => sleep(a.clock, 60_000, ctx.signal).finally(() => ends.push(ctx.signal.reason)),
    });
    a.work([bad, good]);
    await world.enqueue({ type: 'bad' });
    await world.clock.advance(1_000);
    await world.enqueue({ type: 'good' });
    await world.until(() => world.quiet);
    expect(ends).toMatchObject([{ reason: 'stage-limit' }]);
    expect(errors).toMatchObject([
      {
        code: 'bad-option',
        field: 'stage',
        message: expect.stringContaining('use one of preflight, external_call, commit, verify.') as string,
      },
    ]);
    await world.end();
  },
);

test('a tool call has a timeout of its own, and the lease goes on', async () => {
  const world = new World();
  const a = world.host('a');
  const signals: AbortSignal[] = [];
  const seen = once(a, { tool: '50s' }, async (ctx) => {
    const errors: unknown[] = [];
    for (const timeout of ['70s', undefined] as const) {
      const call = ctx.call('ask', timeout === undefined ? {} : { timeout }, ({ signal }) => {
        signals.push(signal);
        return sleep(a.clock, 3_600_000, signal);
      });
      await call.catch((error: unknown) => errors.push(error));
      expect(ctx.signal.aborted).toBe(false);
      expect(ctx.ownership).toBe('held');
    }
    return errors.map((error) => (error as { code: string }).code);
  });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(seen.errors).toEqual([]);
  expect(signals.map(({ reason }) => isTaskAborted(reason) && reason.reason)).toEqual(['tool-timeout', 'tool-timeout']);
  expect(world.record(id)).toMatchObject({ state: 'settled', result: { inline: ['tool-timeout', 'tool-timeout'] } });
  const finished = world.named('tool_request_finished');
  expect(finished).toMatchObject([
    { durationMs: 70_000, errorCode: 'ToolTimeout' },
    { durationMs: 50_000, errorCode: 'ToolTimeout' },
  ]);
  await world.end();
});

test('a tool call that ignores its timeout does not cost the handler that goes on without it its result', async () => {
  const world = new World();
  const a = world.host('a');
  once(a, { tool: '20s' }, async (ctx) => {
    const slow = ctx.call('ask', {}, () => new Promise<string>(() => undefined));
    return slow.catch(() => 'without an answer');
  });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 60_000);
  expect(world.record(id)).toMatchObject({ state: 'settled', result: { inline: 'without an answer' } });
  await world.end();
});

test('a tool call that ignores its timeout, in a handler that fails, leaves the lease to lapse soon', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([
    defineTask({
      type: 'task',
      lease: '30s',
      limits: { tool: '20s' },
      run: (_input, ctx) =>
        ctx.attempt > 1 ? 'second' : ctx.call('ask', {}, () => new Promise<string>(() => undefined)),
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 90_000);
  // Its call may still do something: nothing was given back while it could.
  expect(a.brokerFaults.callsOf('release')).toEqual([]);
  expect(run.worker.stats).toMatchObject({ claimed: 2, leaked: 1, outcomes: { leaked: 1, settled: 1 } });
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2 });
});

test('the total limit is told before it comes, and a hand-off goes on from the checkpoint without costing an attempt', async () => {
  const world = new World();
  const a = world.host('a');
  const told: number[] = [];
  const seen: unknown[] = [];
  a.work([
    defineTask({
      type: 'task',
      limits: { attempts: 1, total: '100s' },
      async run(_input, ctx) {
        seen.push([ctx.attempt, ctx.checkpointed, (ctx.deadline ?? 0) - a.clock.wall()]);
        let near = false;
        ctx.onCapNear(() => {
          near = true;
          told.push(seconds(world));
        });
        for (let chunk = Number(ctx.checkpointed ?? 0); chunk < 25; chunk++) {
          if (near) {
            await ctx.checkpoint(chunk);
            return ctx.handOff('out of time');
          }
          ctx.progress(`chunk ${chunk} of 25`);
          await sleep(a.clock, 10_000, ctx.signal);
        }
        return 'all';
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 3_600_000);
  expect(seen).toEqual([
    [1, undefined, 100_000],
    [2, 9, 100_000],
    [3, 18, 100_000],
  ]);
  expect(told).toEqual([90, expect.any(Number)]);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 3, failures: 0, result: { inline: 'all' } });
  expect(world.named('lease_cap_near').map(({ durationMs }) => durationMs)).toEqual([10_000, 10_000]);
  await world.end();
});

test('a hand-off without progress counts as a failure, and they end', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    defineTask({ type: 'task', limits: { attempts: 3 }, run: (_input, ctx) => ctx.handOff('never gets anywhere') }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 3,
    lastError: { errorClass: 'attempts-exhausted' },
  });
  await world.end();
});

test('a delivery whose total time is used up is passed on with a fresh one', async () => {
  // The broker counts from the first receive: only a new message starts a new count.
  let age = 595_000;
  const world = new World({
    broker: { totalLeaseMs: 600_000 },
    wrap: (driver) => ({
      ...driver,
      receive: async (ask, signal) =>
        (await driver.receive(ask, signal)).map((one) => ({ ...one, ageMs: one.messageId === 'm-1' ? age : 0 })),
    }),
  });
  const a = world.host('a');
  const seen = once(a, { attempts: 3 }, (ctx) => sleep(a.clock, 5_000, ctx.signal));
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  age = 0;
  expect(seen.contexts.length).toBe(2);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, failures: 1 });
  await world.end();
});

test('a checkpoint that is the same again is no progress', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    defineTask({
      type: 'task',
      limits: { attempts: 3 },
      async run(_input, ctx) {
        await ctx.checkpoint({ at: 'the same place' });
        return ctx.handOff();
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  // The first brought it there; the next three did not move it.
  expect(world.record(id)).toMatchObject({ state: 'dead_lettered', attempt: 4 });
  await world.end();
});

test('the deadline of a task ends it at its next claim', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    defineTask({
      type: 'task',
      limits: { deadline: '60s', attempts: 50 },
      backoff: { first: '5s', max: '5s' },
      run: () => {
        throw new Error('again');
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(seconds(world)).toBeGreaterThan(55);
  expect(seconds(world)).toBeLessThan(75);
  expect(world.record(id)).toMatchObject({ state: 'dead_lettered', lastError: { errorClass: 'deadline' } });
  await world.end();
});

test.each([
  ['stalled', { progress: '20s' }],
  ['stage-limit', { stage: '20s' }],
] as const)(
  'what a handler returns after its abort (%s) is rejected, since nothing vouches for it any more',
  async (cause, limits) => {
    const world = new World();
    const a = world.host('a');
    const rejected: unknown[] = [];
    a.work(
      [
        defineTask({
          type: 'task',
          limits: { attempts: 2, ...limits },
          run: (_input, ctx) => (ctx.attempt > 1 ? 'second' : sleep(a.clock, 30_000, ctx.signal).catch(() => 'first')),
        }),
      ],
      { onRejected: ({ result }) => rejected.push(result) },
    );
    const id = await world.enqueue({ type: 'task' });
    await world.until(() => world.quiet);
    expect(rejected).toEqual(['first']);
    expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, failures: 1, result: { inline: 'second' } });
    expect(world.named('task_released')).toMatchObject([{ errorClass: cause }]);
    await world.end();
  },
);
