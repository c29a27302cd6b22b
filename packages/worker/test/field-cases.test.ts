import { expect, test } from 'vitest';
import { hashJson, sleep, type ContentStore, type LeaseholdEvent } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { failBefore, hangDeaf, InjectedError } from '@leasehold/core/testing';
import { defineTask, PermanentError, type AnyTask, type TaskContext } from '@leasehold/worker';
import { World } from './harness.ts';
import { make } from './making.ts';

const never = new AbortController().signal;

test('case 20: payloads that differ in the order of their keys are the same; arrays in another order are not', async () => {
  const one = { é: 1, z: [1, 2], Z: { b: 1, a: 2 } };
  const other = { Z: { a: 2, b: 1 }, z: [1, 2], é: 1 };
  expect(hashJson(one)).toBe(hashJson(other));
  expect(hashJson({ ...one, z: [2, 1] })).not.toBe(hashJson(one));
  const world = new World();
  const a = world.host('a');
  const seen: unknown[] = [];
  a.work([defineTask({ type: 'task', run: (input) => void seen.push(input) })]);
  await world.enqueue({ type: 'task', taskId: 't', input: one });
  await world.until(() => world.quiet);
  await world.enqueue({ type: 'task', taskId: 't', input: other });
  await world.until(() => world.quiet);
  expect(seen).toEqual([one]);
  expect(world.queue.deadLetters).toEqual([]);
  await world.enqueue({ type: 'task', taskId: 't', input: { ...one, z: [2, 1] } });
  await world.until(() => world.quiet);
  expect(seen).toHaveLength(1);
  expect(world.queue.deadLetters).toMatchObject([{ reason: 'task-id-reused' }]);
  await world.end();
});

test('case 34: wall clocks that step lose nothing', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([
    defineTask({ type: 'task', lease: '60s', run: (_input, ctx) => sleep(a.clock, 300_000, ctx.signal) }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  for (const step of [60_000, -120_000, 60_000, -3_600_000]) {
    await world.clock.advance(50_000);
    a.clock.stepWall(step);
    world.clock.stepWall(-step);
  }
  await world.until(() => world.quiet);
  expect(run.worker.stats).toMatchObject({ claimed: 1, outcomes: { settled: 1 } });
  expect(world.named('heartbeat_lost', 'handler_aborted', 'duplicate_delivery')).toEqual([]);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  await world.end();
});

test('case 34: a clock that answers NaN fails closed', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  a.work([
    defineTask({
      type: 'task',
      lease: '60s',
      async run(_input, ctx) {
        contexts.push(ctx);
        await sleep(world.clock, 10_000);
        a.clock.break();
        await make(world, a, ctx, 'create', 'guarded look');
      },
    }),
  ]);
  await world.enqueue({ type: 'task' });
  await world.clock.advance(300_000);
  expect(contexts[0]?.ownership).toBe('lost');
  expect(contexts[0]?.signal.aborted).toBe(true);
  expect(world.receiver.made).toEqual([]);
});

test('case 36: of four bodies the two valid ones run, and each bad one is dead-lettered with its reason', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([defineTask({ type: 'task', run: () => null })]);
  const driver = memoryBroker({ queue: world.queue, clock: world.clock });
  const event = (id: string): string =>
    JSON.stringify({ specversion: '1.0', id, source: 'leasehold', type: 'task', data: {} });
  const bodies = [event('one'), '{', '', event('two')].map((text) => ({
    body: new TextEncoder().encode(text),
    attributes: {},
  }));
  await driver.send(bodies, never);
  await world.until(() => world.quiet);
  expect(run.worker.stats.outcomes.settled).toBe(2);
  expect(world.queue.deadLetters.map(({ reason, description }) => [reason, description])).toEqual([
    ['undecodable', 'body is not JSON.'],
    ['undecodable', 'body is empty; send a JSON document.'],
  ]);
  expect(world.named('task_dead_lettered')).toMatchObject([
    { errorClass: 'undecodable' },
    { errorClass: 'undecodable' },
  ]);
  await world.end();
});

test('case 45: whatever a handler returns, its completion counts and nothing runs again', async () => {
  const world = new World();
  const a = world.host('a');
  const kept = new Map<string, Uint8Array>();
  const store: ContentStore = {
    async put({ sha256, bytes }) {
      kept.set(sha256, bytes);
      return `kept:${sha256}`;
    },
    get: async (ref) => kept.get(ref.slice(5)) ?? new Uint8Array(),
  };
  class Instance {
    readonly secret = () => 1;
  }
  const results = new Map<string, unknown>([
    ['nothing', undefined],
    ['an instance', new Instance()],
    ['a function', () => 1],
    ['a bigint', 1n],
    ['large', 'x'.repeat(450_000)],
    ['small', { ok: true }],
  ]);
  let runs = 0;
  const task = defineTask({ type: 'task', run: (input: { what: string }) => (runs++, results.get(input.what)) });
  const plain = a.work([task]);
  for (const what of results.keys()) await world.enqueue({ type: 'task', taskId: what, input: { what } });
  await world.until(() => world.quiet);
  expect(runs).toBe(results.size);
  expect(world.table.records.every(({ state }) => state === 'settled')).toBe(true);
  expect(world.record('nothing')?.result).toBeUndefined();
  expect(world.record('an instance')?.result).toHaveProperty('omitted');
  expect(world.record('large')?.result).toMatchObject({ bytes: 450_002 });
  expect(world.record('small')?.result).toEqual({ inline: { ok: true } });
  await world.during(plain.worker.stop());
  const stored = world.host('b').work([task], { contentStore: store });
  await world.enqueue({ type: 'task', taskId: 'again', input: { what: 'large' } });
  await world.until(() => world.quiet);
  expect(world.record('again')?.result).toMatchObject({ ref: expect.stringMatching(/^kept:/) as string });
  expect(stored.worker.stats.outcomes.settled).toBe(1);
  await world.end();
});

test('case 45: of fifty first claims at once one wins, the others see that it is busy', async () => {
  const world = new World();
  let runs = 0;
  const workers = Array.from({ length: 50 }, (_, index) => {
    const host = world.host(`w${index}`);
    return host.work([defineTask({ type: 'task', run: () => (runs++, sleep(world.clock, 10_000)) })], {
      concurrency: 1,
    });
  });
  await world.clock.advance(100);
  for (let copy = 0; copy < 50; copy++) await world.enqueue({ type: 'task', taskId: 't', idempotencyKey: 'k' });
  await world.until(() => workers.reduce((sum, { worker }) => sum + worker.stats.parked, 0) === 49, 1_000);
  expect(runs).toBe(1);
  expect(world.record('t')).toMatchObject({ fencingToken: 1, attempt: 1 });
  await world.until(() => world.quiet);
  expect(runs).toBe(1);
  await world.end();
});

test('case 45: a record whose lease is over can be claimed although it is still there', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  a.work([defineTask({ type: 'task', lease: '9s', run: () => new Promise(() => undefined) })]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'running');
  a.process.kill();
  await world.clock.advance(60_000);
  expect(world.record(id)?.state).toBe('running');
  b.work([defineTask({ type: 'task', lease: '9s', run: () => 'b' })]);
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', fencingToken: 2 });
  await world.end();
});

test('case 46: throttled twice, then served: the lease is kept, and the retries fit before its deadline', async () => {
  const world = new World();
  const a = world.host('a');
  a.ledgerFaults.on('put', failBefore('throttled'), { nth: 3, times: 2 });
  const run = a.work([
    defineTask({ type: 'task', lease: '30s', run: (_input, ctx) => sleep(a.clock, 120_000, ctx.signal) }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(run.worker.stats).toMatchObject({ claimed: 1, outcomes: { settled: 1 } });
  expect(world.named('heartbeat_unknown')).toHaveLength(2);
  expect(world.record(id)?.attempt).toBe(1);
  await world.end();
});

test('case 46: when credentials expire, what cannot be renewed aborts on time', async () => {
  const world = new World();
  const a = world.host('a');
  let abortedAt = 0;
  const task = defineTask({
    type: 'task',
    lease: '30s',
    async run(_input, ctx) {
      ctx.signal.addEventListener('abort', () => (abortedAt = a.clock.monotonic()));
      await sleep(a.clock, 600_000, ctx.signal);
    },
  });
  const run = a.work([task]);
  await world.enqueue({ type: 'task' });
  await world.clock.advance(60_000);
  const last = a.ledgerFaults.callsOf('put').at(-1)?.at ?? 0;
  for (const method of ['put', 'get'] as const) a.ledgerFaults.on(method, failBefore('denied'), { times: Infinity });
  await world.until(() => run.worker.stats.outcomes.lost === 1);
  expect(abortedAt).toBeLessThanOrEqual(last + 30_000);
  expect(abortedAt).toBeGreaterThan(last + 20_000);
  a.ledgerFaults.reset();
  await world.until(() => run.worker.stats.claimed === 2);
});

test('case 46: a poll that hangs is cut at its wait + 5 s, the worker turns unready, and recovers', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('receive', hangDeaf(), { nth: 2, times: 2 });
  const run = a.work([defineTask({ type: 'task', run: () => null })], { poll: '10s' });
  await world.clock.advance(9_000);
  expect(run.worker.health().ready).toBe(true);
  await world.clock.advance(16_500);
  const polls = (): number[] => a.brokerFaults.callsOf('receive').map(({ at }) => at - 1_000);
  expect(polls().slice(0, 2)).toEqual([0, 10_000]);
  expect(polls()[2]).toBeGreaterThanOrEqual(25_000);
  expect(polls()[2]).toBeLessThan(26_000);
  expect(run.worker.health()).toMatchObject({ ready: false, live: true });
  expect(run.warnings).toHaveLength(1);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'settled');
  await world.clock.advance(10_000);
  expect(run.worker.health().ready).toBe(true);
  await world.end();
});

test('case 48: a marker in payload, handle, SDK errors and tool answers reaches no event, no warning and no field but checkpoint and result', async () => {
  const marker = 'marker-in-the-content';
  const world = new World({
    wrap: (driver) => ({
      ...driver,
      receive: async (ask, signal) =>
        (await driver.receive(ask, signal)).map((one) => ({ ...one, handle: `${marker}|${String(one.handle)}` })),
      extend: (handles, leaseMs, signal) => driver.extend(handles.map(bare), leaseMs, signal),
      complete: (handles, signal) => driver.complete(handles.map(bare), signal),
      release: (handles, delayMs, signal) => driver.release(handles.map(bare), delayMs, signal),
      reject: (handle, why, signal) => driver.reject(bare(handle), why, signal),
    }),
  });
  const bare = (handle: unknown): string => String(handle).split('|')[1] ?? '';
  const a = world.host('a');
  const fail = (): never => {
    throw Object.assign(new TypeError(`the SDK said ${marker}`), { body: marker });
  };
  const broken = (): Promise<never> => Promise.reject(new InjectedError('unavailable', marker));
  a.ledgerFaults.on('put', broken, { nth: 3 });
  a.brokerFaults.on('extend', broken);
  a.brokerFaults.on('receive', broken, { nth: 2 });
  a.brokerFaults.on('complete', broken);
  const tasks: AnyTask[] = [
    defineTask({
      type: 'works',
      limits: { attempts: 3 },
      backoff: { first: '1s' },
      async run(input, ctx) {
        const answer = await ctx.call('ask', { provider: 'p', model: 'm' }, () => marker);
        await ctx.checkpoint({ answer });
        if (ctx.attempt === 1) fail();
        if (ctx.attempt === 2) await ctx.call('ask', {}, fail);
        await sleep(a.clock, 60_000);
        await make(world, a, ctx, 'create', 'guarded look', { commit: () => fail() }).catch(() => undefined);
        await make(world, a, ctx, 'other', 'guarded function');
        return { input, answer };
      },
    }),
    defineTask({ type: 'fails', limits: { attempts: 1 }, run: fail }),
    defineTask({
      type: 'refuses',
      run: (_input, ctx) => make(world, a, ctx, 'create', 'guarded function', { commit: fail, readBack: fail }),
      limits: { attempts: 1 },
    }),
    defineTask({
      type: 'checks',
      input: {
        '~standard': {
          version: 1,
          vendor: 'v',
          validate: (value) => ({ issues: [{ message: `not good: ${JSON.stringify(value)}`, path: ['said'] }] }),
        },
      },
      run: () => null,
    }),
  ];
  const run = a.work(tasks);
  for (const type of ['works', 'fails', 'refuses', 'checks']) await world.enqueue({ type, input: { said: marker } });
  await world.until(() => world.quiet);
  await world.end();
  expect(holders(marker, world.events)).toEqual([]);
  expect(holders(marker, run.warnings)).toEqual([]);
  expect(world.table.records).toHaveLength(4);
  for (const { checkpoint: _checkpoint, result: _result, ...record } of world.table.records)
    expect(JSON.stringify(record)).not.toContain(marker);
  for (const { reason, description, attributes } of world.queue.deadLetters) {
    expect(JSON.stringify([reason, description, attributes])).not.toContain(marker);
  }
  // Seen where it may be: else the test would see nothing anywhere.
  expect(JSON.stringify(world.table.records)).toContain(marker);
});

function holders(marker: string, all: readonly (LeaseholdEvent | string)[]): readonly unknown[] {
  return all.filter((one) => JSON.stringify(one).includes(marker));
}

test('case 48: what a handler itself says about a permanent error is kept, cut and without what looks like a secret', async () => {
  const world = new World();
  const a = world.host('a');
  const said = 'the account is closed; token=abc123 user@example.com https://x.test/a?sig=1 ' + 'long '.repeat(100);
  a.work([
    defineTask({
      type: 'task',
      run: () => {
        throw new PermanentError(said);
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  const message = world.record(id)?.lastError?.message ?? '';
  expect(message).toMatch(/^the account is closed; token=\*\*\* \*\*\*@\*\*\* https:\/\/x\.test\/a\?\*\*\* long/);
  expect(message.length).toBe(200);
  await world.end();
});

test('case 49: a thousand empty polls make no error and leave nothing behind', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([defineTask({ type: 'task', run: () => null })], { poll: '1s' });
  await world.clock.advance(10_000);
  const { pending } = world.clock;
  await world.until(() => a.brokerFaults.callsOf('receive').length > 1_000, 2_000_000);
  expect(world.clock.pending).toBe(pending);
  expect(world.events).toEqual([]);
  expect(run.warnings).toEqual([]);
  expect(run.worker.health().ready).toBe(true);
  expect(memoryLedger({ table: world.table, clock: world.clock }).table.records).toEqual([]);
  await world.end();
});
