import { expect, test } from 'vitest';
import { plainJson, sleep } from '@leasehold/core';
import { memoryBroker } from '@leasehold/core/memory';
import type { Fault } from '@leasehold/core/testing';
import { defineTask, type AnyTask, type CommitContext, type TaskContext, type TaskLimits } from '@leasehold/worker';
import { World, type Host } from './harness.ts';
import { make } from './making.ts';
import type { Made } from './receiver.ts';

/** One task type with a short lease whose handler is given everything. */
function task(
  world: World,
  host: Host,
  run: (ctx: TaskContext, world: World, host: Host) => unknown,
  limits: TaskLimits = {},
): AnyTask {
  return defineTask({
    type: 'task',
    lease: '9s',
    limits: { attempts: 4, ...limits },
    backoff: { first: '1s' },
    run: (_input, ctx) => run(ctx, world, host),
  });
}

const outside = (host: Host): readonly string[] =>
  host.process.calls.filter((call) => ['make', 'find', 'look'].includes(call));

test('a task without effects costs two ledger writes, with one effect three, with two four', async () => {
  const world = new World();
  const a = world.host('a');
  const effects = async (ctx: TaskContext, count: number): Promise<void> => {
    for (let number = 0; number < count; number++) await make(world, a, ctx, `effect ${number}`, 'guarded look');
  };
  a.work([defineTask({ type: 'task', run: (input: { count: number }, ctx) => effects(ctx, input.count) })]);
  for (const count of [0, 1, 2]) await world.enqueue({ type: 'task', taskId: `${count}`, input: { count } });
  await world.until(() => world.quiet);
  expect([0, 1, 2].map((count) => world.invariants.writes.get(`${count}`))).toEqual([2, 3, 4]);
  expect(world.receiver.made).toHaveLength(3);
  expect(world.record('2')?.effects).toMatchObject({
    'effect 0': { status: 'verified', externalId: 'made-2' },
    'effect 1': { status: 'verified' },
  });
  await world.end();
});

test('an effect that the record has as verified is returned without a call', async () => {
  const world = new World();
  const a = world.host('a');
  const via: unknown[] = [];
  a.work([
    task(world, a, async (ctx) => {
      const made = await make(world, a, ctx, 'create', 'guarded function');
      via.push([made.via, made.id, made.status, made.found !== undefined]);
      await ctx.checkpoint('so that it is written');
      if (ctx.attempt === 1) throw new Error('later');
      via.push((await make(world, a, ctx, 'create', 'guarded function')).via);
    }),
  ]);
  await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(via).toEqual([['commit', 'made-1', 'made', true], ['record', 'made-1', 'made', false], 'record']);
  expect(outside(a)).toEqual(['make', 'find']);
  await world.end();
});

test('an effect that an earlier attempt intended is read back before anything else', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const commit = async (call: CommitContext): Promise<Made> => {
    await world.receiver.make('guarded', call, a.process);
    a.process.kill();
    return new Promise(() => undefined);
  };
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded function', { commit }))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => !a.process.alive);
  expect(outside(a)).toEqual(['make']);
  b.work([
    task(world, b, async (ctx) =>
      expect((await make(world, b, ctx, 'create', 'guarded function')).via).toBe('read-back'),
    ),
  ]);
  await world.until(() => world.quiet);
  expect(outside(b)).toEqual(['find']);
  expect(world.record(id)).toMatchObject({ state: 'settled', effects: { create: { status: 'verified', token: 2 } } });
  await world.end();
});

test('one effect name with two keys ends the task', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    task(world, a, async (ctx) => {
      await make(world, a, ctx, 'create', 'guarded look', { key: 'one' });
      await make(world, a, ctx, 'create', 'guarded look', { key: 'two' });
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.receiver.made.map(({ key }) => key)).toEqual(['one']);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    lastError: { errorClass: 'permanent' },
    effects: { create: { key: 'one', status: 'verified' } },
  });
  expect(world.record(id)?.lastError?.message).toContain('one name cannot have two keys');
  await world.end();
});

test('one effect name for two targets ends the task instead of passing the first off as the second', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    task(world, a, async (ctx) => {
      await make(world, a, ctx, 'notify', 'guarded look', { targetId: 'ada' });
      await make(world, a, ctx, 'notify', 'guarded look', { targetId: 'bob' });
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.receiver.made).toHaveLength(1);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    effects: { notify: { targetId: 'ada', status: 'verified' } },
  });
  expect(world.record(id)?.lastError?.message).toContain('a name of its own');
  await world.end();
});

test('a call that failed and can be found happened', async () => {
  const world = new World();
  const a = world.host('a');
  const via: string[] = [];
  world.receiver.answers.push({ status: 504, afterMaking: true });
  a.work([task(world, a, async (ctx) => void via.push((await make(world, a, ctx, 'create', 'guarded look')).via))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(via).toEqual(['read-back']);
  expect(world.record(id)).toMatchObject({
    state: 'settled',
    attempt: 1,
    settlementReceipt: { externalId: 'made-1', externalSystem: 'crm' },
  });
  await world.end();
});

test('an effect is refused where only the message id names the task, unless the type says that this will do', async () => {
  const world = new World({ codec: plainJson({ type: 'task' }) });
  const a = world.host('a');
  const driver = memoryBroker({ queue: world.queue, clock: world.clock });
  const send = (): Promise<unknown> =>
    driver.send([{ body: new TextEncoder().encode('{}'), attributes: {} }], new AbortController().signal);
  const first = a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  await send();
  await world.until(() => world.quiet && world.table.records.length === 1);
  expect(world.receiver.made).toEqual([]);
  expect(world.table.records[0]).toMatchObject({
    state: 'dead_lettered',
    effects: {},
    lastError: { errorClass: 'permanent' },
  });
  expect(world.table.records[0]?.lastError?.message).toContain("declare identity: 'message-id'");
  await world.during(first.worker.stop());
  const b = world.host('b');
  b.work([{ ...task(world, b, (ctx) => make(world, b, ctx, 'create', 'guarded look')), identity: 'message-id' }]);
  await send();
  await world.until(() => world.quiet && world.table.records.length === 2);
  expect(world.receiver.made).toHaveLength(1);
  await world.end();
});

test.each(['guarded look', 'guarded function'] as const)(
  'an effect (%s) that the handler does not await ends before the task is given back',
  async (style) => {
    const world = new World();
    const a = world.host('a');
    world.receiver.latencyMs = 3_000;
    const ended: string[] = [];
    a.work([
      task(world, a, async (ctx) => {
        if (ctx.attempt > 1) return;
        void make(world, a, ctx, 'create', style).then(() => ended.push(world.record(ctx.taskId)?.state ?? ''));
        throw new Error('left it behind');
      }),
    ]);
    const id = await world.enqueue({ type: 'task' });
    await world.until(() => world.quiet);
    expect(ended).toEqual(['running']);
    expect(world.record(id)).toMatchObject({
      state: 'settled',
      attempt: 2,
      settlementReceipt: { externalSystem: 'none' },
    });
    expect(world.receiver.made).toHaveLength(1);
    await world.end();
  },
);

test('an effect waits while ownership is unknown and starts when a beat is confirmed', async () => {
  const world = new World();
  const a = world.host('a');
  const hold: Fault = async (call) => {
    await sleep(call.clock, 5_000);
    return call.apply(call.args, new AbortController().signal);
  };
  a.ledgerFaults.on('put', hold, { nth: 2 });
  a.work([
    defineTask({
      type: 'task',
      lease: '30s',
      async run(_input, ctx) {
        await sleep(a.clock, 14_000);
        expect(ctx.ownership).toBe('unknown');
        await make(world, a, ctx, 'create', 'guarded look');
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.named('heartbeat_unknown', 'heartbeat_ok', 'effect_intended').map(({ name }) => name)).toEqual([
    'heartbeat_unknown',
    'heartbeat_ok',
    'effect_intended',
  ]);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  await world.clock.advance(10_000);
  await world.end();
});

test('no effect starts once a cancellation is asked for, although the lease is still held', async () => {
  const world = new World();
  const a = world.host('a');
  const errors: unknown[] = [];
  world.receiver.answers.push({ status: 500 });
  a.work([
    task(world, a, async (ctx) => {
      await make(world, a, ctx, 'first', 'plain').catch(() => undefined);
      expect(await world.client.cancel(ctx.taskId)).toMatchObject([{ outcome: 'requested' }]);
      await make(world, a, ctx, 'second', 'guarded look').catch((error: unknown) => errors.push(error));
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(errors).toMatchObject([{ code: 'closing' }]);
  expect(outside(a).filter((call) => call === 'make')).toHaveLength(1);
  expect(world.record(id)).toMatchObject({ state: 'cancelled', effects: { first: { status: 'in_doubt' } } });
  expect(Object.keys(world.record(id)?.effects ?? {})).toEqual(['first']);
  await world.end();
});

test('one name is one effect: asked for twice at once, the second is refused and nothing is made twice', async () => {
  const world = new World();
  const a = world.host('a');
  const errors: unknown[] = [];
  a.work([
    task(world, a, async (ctx) => {
      const both = [make(world, a, ctx, 'create', 'plain'), make(world, a, ctx, 'create', 'plain')];
      for (const end of await Promise.allSettled(both)) if (end.status === 'rejected') errors.push(end.reason);
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(errors).toMatchObject([{ name: 'PermanentError' }]);
  expect(world.receiver.made).toHaveLength(1);
  expect(world.record(id)?.state).toBe('settled');
  await world.end();
});

test('a quiet time that is none is refused before anything of its effect starts', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'plain', { quiesce: 'a minute' as never }))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(outside(a)).toEqual([]);
  expect(world.record(id)).toMatchObject({ state: 'dead_lettered', attempt: 1, effects: {} });
  expect(world.record(id)?.lastError?.message).toMatch(/effect\("create"\)\.quiesce is "?a minute"?/);
  await world.end();
});

test('effects of different names may be made at once', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    task(world, a, (ctx) =>
      Promise.all(['one', 'two', 'three'].map((name) => make(world, a, ctx, name, 'guarded look'))).then(() => null),
    ),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.receiver.made).toHaveLength(3);
  expect(Object.values(world.record(id)?.effects ?? {}).map(({ status }) => status)).toEqual([
    'verified',
    'verified',
    'verified',
  ]);
  await world.end();
});

test('within the margin before the end of its lease nothing irreversible starts, even before a beat was missed', async () => {
  const world = new World();
  const a = world.host('a');
  const seen: string[] = [];
  a.work([
    task(world, a, async (ctx) => {
      // The loop was blocked: no beat was sent, none is unanswered, and 1.5 s of nine are left.
      a.process.pause(7_500);
      await a.process.outside('tool', async () => undefined);
      seen.push(ctx.ownership);
      await make(world, a, ctx, 'create', 'guarded look');
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(seen).toEqual(['unknown']);
  expect(world.named('heartbeat_ok', 'effect_intended').map(({ name }) => name)).toEqual([
    'heartbeat_ok',
    'effect_intended',
  ]);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  await world.end();
});
