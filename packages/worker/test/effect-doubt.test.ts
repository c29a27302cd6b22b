import { expect, test } from 'vitest';
import { type Json } from '@leasehold/core';
import type { Fault } from '@leasehold/core/testing';
import {
  defineTask,
  PermanentError,
  type AnyTask,
  type CommitContext,
  type TaskContext,
  type TaskLimits,
} from '@leasehold/worker';
import { World, type Host } from './harness.ts';
import { make } from './making.ts';

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

test('at a plain receiver, "absent" without a quiet time stays in doubt: retried, dead-lettered, never a second call', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 500 });
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'plain'))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(outside(a).filter((call) => call === 'make')).toHaveLength(1);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 4,
    lastError: { errorClass: 'in-doubt', code: 'in-doubt' },
    effects: { create: { status: 'in_doubt' } },
  });
  expect(world.named('effect_in_doubt').length).toBeGreaterThan(0);
  await world.end();
});

test('at a plain receiver with a quiet time, "absent" counts after intent + lease + quiet time, and the retry waits for it', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 500 });
  const times: number[] = [];
  a.work([
    task(world, a, (ctx) =>
      make(world, a, ctx, 'create', 'plain with quiesce', {
        commit: (call) => {
          times.push(a.clock.monotonic());
          return world.receiver.make('plain', call, a.process);
        },
      }),
    ),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(times).toHaveLength(2);
  expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(9_000 + 5_000);
  expect((times[1] ?? 0) - (times[0] ?? 0)).toBeLessThan(25_000);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 3 });
  expect(world.receiver.made).toHaveLength(1);
  await world.end();
});

test('a guard that knows a higher token than a confirmed grant is overtaken', async () => {
  const world = new World();
  const a = world.host('a');
  const id = await world.enqueue({ type: 'task' });
  await world.receiver.guard.look(
    { scope: id, token: 7, key: 'of a table that was restored since' },
    new AbortController().signal,
  );
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  await world.until(() => world.quiet);
  expect(world.named('token_raised')).toMatchObject([{ count: 7, token: 8 }]);
  expect(world.record(id)).toMatchObject({ state: 'settled', fencingToken: 9 });
  expect(world.receiver.made).toMatchObject([{ token: 9 }]);
  await world.end();
});

test('a guard that knows a higher token because the task was taken over is not overtaken', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 409 });
  world.receiver.looks.push({ state: 'stale', highest: 2 });
  const takenOver: Fault = async (call) => {
    const read = (await call.other('get', [id])) as { record: object; now: unknown };
    return { ok: false, current: { ...read.record, fencingToken: 2, leaseOwner: 'other', version: 99 }, now: read.now };
  };
  const run = a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  a.ledgerFaults.on('put', takenOver, { nth: 3, times: Infinity });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.outcomes.lost === 1);
  expect(world.named('token_raised')).toEqual([]);
  expect(world.receiver.made).toEqual([]);
});

test('an effect that is in progress is waited for, not made again', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 504, afterMaking: true });
  world.receiver.looks.push({ state: 'in-progress' }, { state: 'in-progress' });
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(outside(a)).toEqual(['make', 'look', 'look', 'look']);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  await world.end();
});

test('an effect in progress for long, then in doubt, is retried until it can be told', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 504, afterMaking: true });
  world.receiver.looks.push(...Array.from({ length: 12 }, (): Json => ({ state: 'in-progress' })), {
    state: 'in-doubt',
  });
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(outside(a).filter((call) => call === 'make')).toHaveLength(1);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 4 });
  await world.end();
});

test('a receiver that refused for good ends the task, and the effect counts as absent', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 422 });
  const refusal: Json = { state: 'done', response: { status: 422, headers: {}, body: '{}', bodyEncoding: 'utf8' } };
  world.receiver.looks.push(refusal, refusal);
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(outside(a).filter((call) => call === 'make')).toHaveLength(1);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 1,
    lastError: { errorClass: 'permanent' },
    effects: { create: { status: 'absent' } },
  });
  await world.end();
});

test('a read-back that comes too early is repeated; one that never finds leaves the effect in doubt', async () => {
  const world = new World();
  const a = world.host('a');
  let reads = 0;
  const readBack = (finds: number) => async (call: CommitContext) =>
    ++reads < finds ? undefined : world.receiver.find('guarded', call, a.process);
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded function', { readBack: readBack(3) }))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  expect(reads).toBe(3);
  await world.end();
});

test('a read-back that throws cannot tell: in doubt, retried, and dead-lettered as such', async () => {
  const world = new World();
  const a = world.host('a');
  const readBack = (): never => {
    throw new Error('not reachable');
  };
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded function', { readBack }))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.receiver.made).toHaveLength(1);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 4,
    lastError: { errorClass: 'in-doubt' },
    effects: { create: { status: 'in_doubt' } },
  });
  await world.end();
});

test('what only a person can tell waits for one; a yes verifies it', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 504, afterMaking: true });
  const ids: string[] = [];
  const run = a.work([task(world, a, async (ctx) => void ids.push((await make(world, a, ctx, 'create', 'human')).id))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'waiting_human' && world.queue.messages.length === 0);
  expect(run.worker.stats.outcomes['waiting-human']).toBe(1);
  await world.client.answer(id, { approve: true, reason: 'made-1' });
  await world.until(() => world.quiet);
  expect(ids).toEqual(['made-1']);
  expect(outside(a)).toEqual(['make']);
  expect(world.record(id)).toMatchObject({ state: 'settled', settlementReceipt: { externalId: 'made-1' } });
  await world.end();
});

test('what only a person can tell waits for one; a no ends the task without a second call', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.answers.push({ status: 500 });
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'human'))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'waiting_human');
  await world.client.answer(id, { approve: false, reason: 'it is not there' });
  await world.clock.advance(60_000);
  expect(outside(a)).toEqual(['make']);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    lastError: { errorClass: 'rejected' },
    effects: { create: { status: 'in_doubt' } },
  });
  await world.end();
});

test('a receipt that is none ends the task with the effect verified by its read-back', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    task(world, a, (ctx) =>
      make(world, a, ctx, 'create', 'guarded function', {
        receipt: () => ({ id: 1 }) as unknown as { externalId: string; status: string },
      }),
    ),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.receiver.made).toHaveLength(1);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 1,
    lastError: { errorClass: 'permanent' },
  });
  expect(world.record(id)?.effects).toMatchObject({ create: { status: 'verified', externalStatus: 'exists' } });
  await world.end();
});

test('an effect under a clock that cannot be trusted gives up when the confirmed time is over, without a call', async () => {
  // The store's time is never known closely enough to say that the lease is held.
  const world = new World({ ledger: { clockErrorMs: 3_000 } });
  const a = world.host('a');
  const failed: unknown[] = [];
  const hold = defineTask({
    type: 'task',
    lease: { length: '30s', margin: '7s' },
    limits: { attempts: 1 },
    run: async (_input, ctx: TaskContext) => {
      a.clock.stepWall(Number.NaN);
      await make(world, a, ctx, 'create', 'guarded look').catch((error: unknown) => {
        failed.push([a.clock.monotonic(), error]);
        throw error;
      });
    },
  });
  a.work([hold]);
  await world.enqueue({ type: 'task' });
  await world.until(() => failed.length > 0);
  expect(failed).toMatchObject([[expect.any(Number), { code: 'ownership' }]]);
  expect((failed as [number, unknown][])[0]?.[0]).toBeLessThanOrEqual(32_000);
  expect(world.receiver.made).toEqual([]);
  expect(a.ledgerFaults.callsOf('put').length).toBeLessThan(40);
});

test('a permanent error of the call itself is believed only after a read-back', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    task(world, a, (ctx) =>
      make(world, a, ctx, 'create', 'guarded look', {
        async commit(call) {
          await world.receiver.make('guarded', call, a.process);
          throw new PermanentError('said the client');
        },
      }),
    ),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1, effects: { create: { status: 'verified' } } });
  await world.end();
});

test('a refusal for good that a later attempt reads back is not asked for again', async () => {
  const world = new World();
  const a = world.host('a');
  const refusal: Json = { state: 'done', response: { status: 422, headers: {}, body: '{}', bodyEncoding: 'utf8' } };
  world.receiver.answers.push({ status: 503 });
  // The first look fails too; the second attempt's tells.
  world.receiver.looks.push(503, refusal, refusal);
  a.work([task(world, a, (ctx) => make(world, a, ctx, 'create', 'guarded look'))]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(outside(a).filter((call) => call === 'make')).toHaveLength(1);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 2,
    lastError: { errorClass: 'permanent' },
    effects: { create: { status: 'absent' } },
  });
  await world.end();
});

test('closing seals off the call of its own attempt that is still on its way', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.latencyMs = 30_000;
  a.work([
    task(world, a, (ctx) =>
      make(world, a, ctx, 'create', 'guarded look', {
        async commit(call) {
          // The client gives up; the network does not.
          world.receiver.make('guarded', call, a.process).catch(() => undefined);
          throw new PermanentError('gave up');
        },
      }),
    ),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet, 20_000);
  expect(world.record(id)).toMatchObject({ state: 'dead_lettered', attempt: 1, fencingToken: 2 });
  await world.clock.advance(60_000);
  expect(world.record(id)?.effects).toMatchObject({ create: { status: 'absent' } });
  expect(world.receiver.refusals).toEqual(['stale, 1 < 2']);
  expect(world.receiver.made).toEqual([]);
  await world.end();
});
