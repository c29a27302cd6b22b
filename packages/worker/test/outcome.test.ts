import { afterEach, expect, test, vi } from 'vitest';
import { sleep, type ContentStore } from '@leasehold/core';
import { defineTask, PermanentError, type TaskContext } from '@leasehold/worker';
import { delayAnswer, dropAnswer, failBefore } from '@leasehold/core/testing';
import { World } from './harness.ts';
import { make } from './making.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

test('a cancellation of a task without effects ends its handler at the next write, and its result is rejected', async () => {
  const world = new World();
  const a = world.host('a');
  const rejected: unknown[] = [];
  const contexts: TaskContext[] = [];
  const run = a.work(
    [
      defineTask({
        type: 'task',
        lease: '9s',
        async run(_input, ctx) {
          contexts.push(ctx);
          await sleep(a.clock, 60_000, ctx.signal).catch(() => undefined);
          return 'result';
        },
      }),
    ],
    { onRejected: ({ result }) => rejected.push(result) },
  );
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => contexts.length === 1);
  expect(await world.client.cancel(id)).toEqual([{ taskId: id, outcome: 'cancelled' }]);
  await world.until(() => contexts[0]?.signal.aborted === true, 5_000);
  await world.until(() => run.worker.stats.running === 0);
  expect(rejected).toEqual(['result']);
  expect(world.record(id)).toMatchObject({ state: 'cancelled', attempt: 1 });
  expect(world.record(id)?.result).toBeUndefined();
  await world.until(() => world.quiet);
  await world.end();
});

test('a cancellation while an effect is open does not throw away what the handler then returns: the effect exists, so it settles', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      async run(_input, ctx) {
        const commit: NonNullable<Parameters<typeof make>[5]>['commit'] = async (call) => {
          const made = await world.receiver.make('guarded', call, a.process);
          await world.client.cancel(ctx.taskId);
          // Long enough for a beat to bring the wish.
          await sleep(a.clock, 5_000);
          return made;
        };
        await make(world, a, ctx, 'create', 'guarded function', { commit }).catch(() => undefined);
        return { done: true };
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', settlementReceipt: { externalId: 'made-1' } });
  expect(world.receiver.made).toHaveLength(1);
  expect(run.worker.stats.claimed).toBeLessThanOrEqual(2);
  await world.end();
});

test('a handler that catches "in doubt" and returns all the same does not settle', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 500 });
  const rejected: unknown[] = [];
  a.work(
    [
      defineTask({
        type: 'task',
        lease: '9s',
        limits: { attempts: 2 },
        async run(_input, ctx) {
          await make(world, a, ctx, 'create', 'plain').catch(() => undefined);
          return 'fine';
        },
      }),
    ],
    { onRejected: ({ result }) => rejected.push(result) },
  );
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 2,
    effects: { create: { status: 'in_doubt' } },
    lastError: { errorClass: 'in-doubt' },
  });
  expect(rejected).toEqual(['fine', 'fine']);
  await world.end();
});

test('beats go on while a large result is being stored', async () => {
  const world = new World();
  const a = world.host('a');
  const contentStore: ContentStore = {
    async put() {
      await sleep(a.clock, 60_000);
      return 'ref';
    },
    get: () => Promise.reject(new Error('not asked')),
  };
  const run = a.work([defineTask({ type: 'task', lease: '9s', run: () => 'x'.repeat(10_000) })], { contentStore });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(run.worker.stats).toMatchObject({ claimed: 1, outcomes: { settled: 1 } });
  expect(world.record(id)?.result).toMatchObject({ ref: 'ref' });
  await world.end();
});

test('a content store that fails is retried like any other error, at once and not after a lapse', async () => {
  const world = new World();
  const a = world.host('a');
  let puts = 0;
  const contentStore: ContentStore = {
    put: () => (++puts === 1 ? Promise.reject(new Error('down')) : Promise.resolve('ref')),
    get: () => Promise.reject(new Error('not asked')),
  };
  a.work([defineTask({ type: 'task', backoff: { first: '1s' }, run: () => 'x'.repeat(10_000) })], { contentStore });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 10_000);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, failures: 1 });
  await world.end();
});

test('checkpoints that a record cannot hold are refused by size; with a content store they are kept and found', async () => {
  const world = new World();
  const a = world.host('a');
  const kept = new Map<string, Uint8Array>();
  const contentStore: ContentStore = {
    put: ({ sha256, bytes }) => {
      kept.set(sha256, bytes);
      return Promise.resolve(sha256);
    },
    get: (ref) => Promise.resolve(kept.get(ref) ?? new Uint8Array()),
  };
  const errors: unknown[] = [];
  const found: unknown[] = [];
  const task = defineTask({
    type: 'task',
    backoff: { first: '1s' },
    async run(_input, ctx) {
      found.push(typeof ctx.checkpointed === 'string' ? ctx.checkpointed.length : ctx.checkpointed);
      if (ctx.checkpointed !== undefined) return;
      await ctx.checkpoint('x'.repeat(20_000)).catch((error: unknown) => {
        errors.push(error);
        throw new PermanentError('cannot');
      });
      throw new Error('again');
    },
  });
  const first = a.work([task]);
  await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(errors).toMatchObject([
    { code: 'content-too-large', field: 'checkpoint', message: expect.stringContaining('20002 bytes') as string },
  ]);
  await world.during(first.worker.stop());
  world.host('b').work([task], { contentStore });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(found).toEqual([undefined, undefined, 20_000]);
  expect(world.record(id)?.state).toBe('settled');
  await world.end();
});

test('follow-ups are sent once the task has settled, once each, and only then', async () => {
  const world = new World();
  const a = world.host('a');
  const seen: [string, unknown[]][] = [];
  const child = defineTask({
    type: 'child',
    run: (input, ctx) => void seen.push([ctx.taskId, [input, ctx.agentRunId, world.record('parent')?.state]]),
  });
  a.work([
    child,
    defineTask({
      type: 'parent',
      limits: { attempts: 2 },
      backoff: { first: '1s' },
      run(_input, ctx) {
        ctx.next(child, { number: 1 });
        ctx.next('child', { number: 2 });
        if (ctx.attempt === 1) throw new Error('asked for, and not sent');
      },
    }),
  ]);
  await world.enqueue({ type: 'parent', taskId: 'parent', agentRunId: 'run-7' });
  await world.until(() => world.quiet);
  expect(new Map(seen)).toEqual(
    new Map([
      ['parent:next:0', [{ number: 1 }, 'run-7', 'settled']],
      ['parent:next:1', [{ number: 2 }, 'run-7', 'settled']],
    ]),
  );
  expect(seen).toHaveLength(2);
  expect(world.named('follow_ups_sent')).toMatchObject([{ count: 2 }]);
  await world.end();
});

test('follow-ups beyond what a record holds are refused where they are asked for', async () => {
  const world = new World();
  const a = world.host('a');
  const errors: unknown[] = [];
  a.work([
    defineTask({
      type: 'task',
      run(_input, ctx) {
        try {
          for (;;) ctx.next('other', { text: 'x'.repeat(1_000) });
        } catch (error) {
          errors.push(error);
        }
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task', input: {} });
  await world.until(() => (world.record(id)?.state ?? '') === 'settled');
  expect(errors[0]).toMatchObject({ code: 'content-too-large' });
});

test('a question waits for a person and is answered to the next attempt', async () => {
  const world = new World();
  const a = world.host('a');
  const answers: string[] = [];
  a.work([
    defineTask({
      type: 'task',
      async run(_input, ctx) {
        answers.push((await ctx.askHuman('May it cost more than 100?')).reason);
        return 'done';
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'waiting_human' && world.queue.messages.length === 0);
  await world.clock.advance(3_600_000);
  expect(world.record(id)).toMatchObject({ state: 'waiting_human', attempt: 1 });
  await world.client.answer(id, { approve: true, reason: 'up to 200' });
  await world.until(() => world.quiet);
  expect(answers).toEqual(['up to 200']);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, failures: 0 });
  await world.end();
});

test.each(['askHuman', 'handOff'] as const)(
  'a beat that would meet the %s of its own handler announces no loss',
  async (end) => {
    const world = new World();
    const a = world.host('a');
    const run = a.work([
      defineTask({
        type: 'task',
        lease: '30s',
        async run(_input, ctx) {
          if (ctx.attempt > 1) return;
          await sleep(a.clock, 9_000);
          await ctx[end]('May it run?');
        },
      }),
    ]);
    a.ledgerFaults.on('put', delayAnswer(2_500), { when: (next) => next.state !== 'running' });
    await world.enqueue({ type: 'task' });
    await world.until(() => Object.values(run.worker.stats.outcomes).some((count) => count > 0));
    await world.clock.advance(10_000);
    expect(run.worker.stats.outcomes).toMatchObject(end === 'askHuman' ? { 'waiting-human': 1 } : { 'handed-off': 1 });
    expect(world.named('heartbeat_lost', 'handler_aborted')).toEqual([]);
    await world.end();
  },
);

test('a settle without an answer is repeated at once, and not left to a redelivery', async () => {
  const world = new World();
  const a = world.host('a');
  a.ledgerFaults.on('put', failBefore('throttled'), { nth: 2 });
  a.ledgerFaults.on('put', dropAnswer(), { nth: 3 });
  const run = a.work([defineTask({ type: 'task', run: () => 'done' })]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 5_000);
  expect(run.worker.stats).toMatchObject({ claimed: 1, replayed: 0, outcomes: { settled: 1 } });
  expect(world.record(id)?.version).toBe(2);
  await world.end();
});

test.each([0, 0.999])(
  'with the defaults five attempts outlast a receiver that is away for 40 s, whatever the jitter (%d)',
  async (random) => {
    vi.spyOn(Math, 'random').mockReturnValue(random);
    const world = new World();
    const a = world.host('a');
    const began = a.clock.monotonic();
    const task = defineTask({
      type: 'task',
      run() {
        if (a.clock.monotonic() - began < 40_000) throw new Error('503');
        return 'done';
      },
    });
    a.work([task]);
    const id = await world.enqueue({ type: 'task' });
    await world.until(() => world.quiet);
    expect(world.record(id)).toMatchObject({ state: 'settled' });
    await world.end();
  },
);
