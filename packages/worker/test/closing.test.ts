import { expect, test, vi } from 'vitest';
import { sleep } from '@leasehold/core';
import { defineTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';
import { make, type Otherwise } from './making.ts';

const never = (): Promise<never> => new Promise<never>(() => undefined);

test.each([true, false])(
  'a read-back that hangs while its task is closed holds neither the task nor the place (it listens to its signal: %s)',
  async (listens) => {
    const world = new World();
    const a = world.host('a');
    const hangs = (call: { readonly signal: AbortSignal }): Promise<never> =>
      listens ? sleep(a.clock, 2 ** 40, call.signal).then(never) : never();
    const run = a.work([
      defineTask({
        type: 'task',
        lease: '9s',
        limits: { attempts: 1, stage: '10s' },
        run: (_input, ctx) => make(world, a, ctx, 'create', 'guarded function', { commit: hangs, readBack: hangs }),
      }),
    ]);
    const id = await world.enqueue({ type: 'task' });
    await world.until(() => world.record(id)?.state === 'dead_lettered');
    expect(world.record(id)?.effects['create']?.status).toBe('in_doubt');
    await world.until(() => run.worker.stats.running === 0);
    // What does not listen goes on for ever, and is counted.
    expect(run.worker.stats.leaked > 0).toBe(!listens);
    if (listens) await world.end();
  },
);

test('a receipt that hangs while its task is closed does not: what was read back counts without it', async () => {
  const world = new World();
  const a = world.host('a');
  const otherwise: Otherwise = {
    commit: async (call) => {
      await world.receiver.make('guarded', call, a.process);
      throw new Error('the answer was lost');
    },
    // As long as the task is not closed, what it throws is as if nothing could be read.
    receipt: (made) => {
      if (world.record(made.scope)?.closing) return never();
      throw new Error('no receipt yet');
    },
  };
  a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      limits: { attempts: 1 },
      run: (_input, ctx) => make(world, a, ctx, 'create', 'guarded function', otherwise),
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'dead_lettered', 120_000);
  expect(world.record(id)?.effects['create']).toMatchObject({ status: 'verified', externalStatus: 'exists' });
  await world.end();
});

test('a look that hangs is not cut short by the limits of the handler: the closing keeps its lease and ends', async () => {
  const world = new World();
  const a = world.host('a');
  // Listens to its signal, as fetch does.
  const hangs = (_url: unknown, init?: RequestInit): Promise<never> =>
    sleep(a.clock, 2 ** 40, init?.signal ?? undefined).then(never);
  vi.stubGlobal('fetch', hangs);
  const { worker } = a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      limits: { attempts: 1, stage: '10s' },
      run: (_input, ctx) => make(world, a, ctx, 'create', 'guarded look', { commit: never }),
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'dead_lettered');
  expect(world.record(id)?.effects['create']?.status).toBe('in_doubt');
  // The attempt that made the call, and the one that closes.
  expect(worker.stats).toMatchObject({ claimed: 2, leaked: 1 });
});

test('a task whose handler hangs ends when its attempts are over, also with an effect open: nobody can tell of it', async () => {
  const world = new World();
  const a = world.host('a');
  const { worker } = a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      limits: { attempts: 2, stage: '20s' },
      async run(_input, ctx) {
        if (ctx.attempt > 1) await never();
        await make(world, a, ctx, 'create', 'guarded function', { commit: never });
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'dead_lettered');
  expect(world.record(id)?.effects['create']?.status).toBe('in_doubt');
  // Each attempt, and three runs to learn the read-back.
  expect(worker.stats.leaked).toBe(5);
});

test('a closing starts nothing more once a write of it was refused (I3)', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      run: (_input, ctx) =>
        Promise.all([
          make(world, a, ctx, 'one', 'guarded look', { commit: never }),
          make(world, a, ctx, 'two', 'guarded function', { commit: () => (a.process.kill(), never()) }),
        ]),
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => !a.process.alive);
  await world.during(world.client.cancel(id));
  let lostAt = -1;
  const { worker } = b.work([
    defineTask({
      type: 'task',
      lease: '9s',
      async run(_input, ctx) {
        await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
        lostAt = b.process.calls.length;
      },
    }),
  ]);
  await world.until(() => world.record(id)?.closing !== undefined);
  // Somebody else has the task: the next renewal is refused.
  b.ledgerFaults.on('put', async (call) => {
    const read = (await call.other('get', [id])) as { record: object; now: unknown };
    return { ok: false, current: { ...read.record, fencingToken: 9, leaseOwner: 'other', version: 99 }, now: read.now };
  });
  await world.until(() => worker.stats.outcomes.lost === 1);
  expect(b.process.calls.slice(lostAt).filter((call) => ['look', 'find', 'make'].includes(call))).toEqual([]);
});

test('a closing whose lease is lost between two looks does not take the second', async () => {
  const world = new World();
  const a = world.host('a');
  world.receiver.looks.push(...Array.from({ length: 20 }, () => ({ state: 'in-progress' })));
  const { worker } = a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      limits: { attempts: 1 },
      run: (_input, ctx) =>
        make(world, a, ctx, 'create', 'guarded look', { commit: () => Promise.reject(new Error('no')) }),
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.closing !== undefined);
  const looks = (): number => a.process.calls.filter((call) => call === 'look').length;
  const before = looks();
  await world.until(() => looks() > before);
  // The task does not come back in this test.
  a.brokerFaults.on('receive', never, { times: Infinity });
  // Longer than the lease.
  world.clock.block(10_000);
  await world.until(() => worker.stats.outcomes.lost === 1);
  expect(looks()).toBe(before + 1);
});

test('a deploy that lowers the limit of attempts reads an open effect back before it gives the task up', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const type = (host: Host, attempts: number, otherwise: Otherwise = {}) =>
    defineTask({
      type: 'task',
      lease: '9s',
      limits: { attempts },
      run: async (_input, ctx) => void (await make(world, host, ctx, 'create', 'guarded function', otherwise)),
    });
  a.work([type(a, 10, { readBack: () => Promise.reject(new Error('the receiver cannot be asked just now')) })]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => (world.record(id)?.failures ?? 0) === 3);
  a.process.kill();
  expect(world.receiver.made).toHaveLength(1);
  b.work([type(b, 2)]);
  await world.until(() => world.record(id)?.state === 'dead_lettered');
  expect(world.record(id)?.effects['create']).toMatchObject({ status: 'verified' });
  await world.end();
});

test('a closing that a run of the handler reads back does so more than once before it gives up', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  let reads = 0;
  const type = (host: Host, otherwise: Otherwise) =>
    defineTask({
      type: 'task',
      lease: '9s',
      limits: { attempts: 1 },
      run: async (_input, ctx) => void (await make(world, host, ctx, 'create', 'guarded function', otherwise)),
    });
  const dying: Otherwise = {
    async commit(call) {
      await world.receiver.make('guarded', call, a.process);
      a.process.kill();
      return never();
    },
  };
  const slow: Otherwise = {
    readBack: (call) =>
      reads++ === 0
        ? sleep(b.clock, 2 ** 40, call.signal).then(() => undefined)
        : world.receiver.find('guarded', call, b.process),
  };
  a.work([type(a, dying)]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => !a.process.alive);
  b.work([type(b, slow)]);
  await world.until(() => world.record(id)?.state === 'dead_lettered');
  expect({ reads, status: world.record(id)?.effects['create']?.status }).toEqual({ reads: 2, status: 'verified' });
  await world.end();
});
