import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import { failBefore } from '@leasehold/core/testing';
import {
  isTaskAborted,
  PermanentError,
  withLease,
  type TaskContext,
  type WithLeaseOptions,
  type WithLeaseResult,
} from '@leasehold/worker';
import { World, type Host } from './harness.ts';
import { running } from '../src/testing/process.ts';
import { make } from './making.ts';

type Work<Result> = (ctx: TaskContext) => Promise<Result> | Result;

/** Starts one piece of work in a process of its own consumer. */
function start<Result>(
  host: Host,
  run: Work<Result>,
  options: Partial<WithLeaseOptions> = {},
): Promise<WithLeaseResult<Result>> {
  return running.run(host.process, () =>
    withLease(
      { ledger: host.ledger, clock: host.clock, taskId: 'charge-1', type: 'charge', lease: '30s', ...options },
      run,
    ),
  );
}

/** The same, until it has ended. */
function lease<Result>(
  world: World,
  host: Host,
  run: Work<Result>,
  options: Partial<WithLeaseOptions> = {},
): Promise<WithLeaseResult<Result>> {
  return world.during(start(host, run, options), 3_600_000);
}

test('work under a lease settles with its result and receipt, extends the message, and is not done again', async () => {
  const world = new World();
  const a = world.host('a');
  const extended: number[] = [];
  const work = async (ctx: TaskContext): Promise<string> => {
    const made = await make(world, a, ctx, 'charge', 'guarded look');
    await sleep(a.clock, 60_000, ctx.signal);
    return made.id;
  };
  const extend = async (leaseMs: number): Promise<void> => void extended.push(leaseMs);
  const first = await lease(world, a, work, { extend });
  expect(first).toMatchObject({
    outcome: 'settled',
    result: 'made-1',
    receipt: { externalId: 'made-1', token: 1, taskId: 'charge-1' },
  });
  expect(extended.length).toBeGreaterThanOrEqual(5);
  expect(new Set(extended)).toEqual(new Set([30_000]));
  const again = await lease(world, a, work);
  expect(again).toMatchObject({ outcome: 'replay', receipt: { externalId: 'made-1' }, record: { state: 'settled' } });
  expect(world.receiver.made).toHaveLength(1);
  expect(world.named('task_claimed', 'task_settled')).toMatchObject([
    { taskId: 'charge-1' },
    { taskId: 'charge-1', externalId: 'made-1' },
  ]);
  expect(world.named('heartbeat_ok').length).toBeGreaterThanOrEqual(5);
  expect(world.invariants.writes.get('charge-1')).toBeGreaterThanOrEqual(3);
  expect(a.process.pending).toBe(0);
});

test('work that somebody else has in hand is busy, with the time to look again', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const first = start(a, (ctx) => sleep(a.clock, 20_000, ctx.signal));
  await world.clock.advance(1_000);
  const second = await lease(world, b, () => 'twice');
  expect(second).toMatchObject({ outcome: 'busy', waitMs: expect.any(Number) as number });
  if (second.outcome === 'busy') expect(second.waitMs).toBeLessThanOrEqual(30_000);
  expect(await world.during(first)).toMatchObject({ outcome: 'settled' });
});

test('an error gives the work back with a wait; the next attempt is told to wait, then runs', async () => {
  const world = new World();
  const a = world.host('a');
  const error = new Error('not now');
  const fails = (): never => {
    throw error;
  };
  expect(await lease(world, a, fails)).toEqual({ outcome: 'released', error });
  const early = await lease(world, a, () => 'early');
  expect(early).toMatchObject({ outcome: 'busy' });
  await world.clock.advance(5_000);
  expect(await lease(world, a, (ctx) => ctx.attempt)).toMatchObject({ outcome: 'settled', result: 2 });
});

test('a permanent error, and attempts that are used up, dead-letter the work', async () => {
  const world = new World();
  const a = world.host('a');
  const error = new PermanentError('no use');
  const permanent = (): never => {
    throw error;
  };
  expect(await lease(world, a, permanent)).toEqual({ outcome: 'dead-lettered', error });
  expect(await lease(world, a, () => 1)).toEqual({ outcome: 'dead-lettered' });
  const fails = (): never => {
    throw new Error('again');
  };
  const options = { taskId: 'charge-2', limits: { attempts: 2 } };
  expect(await lease(world, a, fails, options)).toMatchObject({ outcome: 'released' });
  await world.clock.advance(10_000);
  expect(await lease(world, a, fails, options)).toMatchObject({ outcome: 'dead-lettered' });
  expect(world.record('charge-2')).toMatchObject({ state: 'dead_lettered', attempt: 2 });
  expect(world.named('task_dead_lettered')).toMatchObject([{ errorClass: 'permanent' }, { errorClass: 'error' }]);
  expect(world.named('task_released')).toHaveLength(1);
});

test('a cancellation before, and one in between, end the work', async () => {
  const world = new World();
  const a = world.host('a');
  await world.client.cancel('charge-1');
  expect(await lease(world, a, () => 1)).toEqual({ outcome: 'cancelled' });
  const work = start(a, (ctx) => sleep(a.clock, 60_000, ctx.signal), { taskId: 'charge-2' });
  await world.clock.advance(5_000);
  await world.client.cancel('charge-2');
  const ended = await world.during(work);
  expect(ended.outcome).toBe('lost');
  expect(world.named('heartbeat_lost')).toMatchObject([{ cause: 'cancelled' }]);
  expect('error' in ended && isTaskAborted(ended.error) && ended.error.reason).toBe('lost');
  expect(world.record('charge-2')?.state).toBe('cancelled');
});

test('a ledger that does not answer is unknown: nothing ran, nothing to acknowledge', async () => {
  const world = new World();
  const a = world.host('a');
  let ran = false;
  for (const method of ['put', 'get'] as const)
    a.ledgerFaults.on(method, failBefore('unavailable'), { times: Infinity });
  expect(await lease(world, a, () => (ran = true))).toEqual({
    outcome: 'unknown',
    cause: 'unavailable',
    error: expect.objectContaining({
      message: expect.stringMatching(/had no answer: unavailable \(ledger memory\)/) as string,
    }) as Error,
  });
  expect(ran).toBe(false);
});

test('a lease that is lost on the way is lost, whatever the work returns', async () => {
  const world = new World();
  const a = world.host('a');
  a.ledgerFaults.on('put', failBefore('unavailable'), { nth: 2, times: Infinity });
  const late = await lease(world, a, () => sleep(a.clock, 34_000).then(() => 'late'));
  expect(late).toEqual({ outcome: 'lost' });
  expect(world.named('result_rejected')).toHaveLength(1);
});

test('a handler that ignores the end of its time is leaked', async () => {
  const world = new World();
  const a = world.host('a');
  const leaked = await lease(world, a, () => new Promise(() => undefined), { limits: { total: '60s' } });
  expect(leaked).toEqual({ outcome: 'leaked' });
  expect(world.record('charge-1')?.state).toBe('running');
});

test('a hand-off leaves the message to its consumer, and the next attempt finds the checkpoint', async () => {
  const world = new World();
  const a = world.host('a');
  const work = async (ctx: TaskContext): Promise<unknown> => {
    if (ctx.checkpointed !== undefined) return ctx.checkpointed;
    await ctx.checkpoint('half');
    return ctx.handOff();
  };
  expect(await lease(world, a, work)).toMatchObject({ outcome: 'handed-off' });
  expect(await lease(world, a, work)).toMatchObject({ outcome: 'settled', result: 'half' });
});

test('another input under the same id, and work older than the ledger, are refused with the cause', async () => {
  const world = new World();
  const a = world.host('a');
  expect(await lease(world, a, () => 1, { input: { amount: 1 } })).toMatchObject({ outcome: 'settled' });
  expect(await lease(world, a, () => 1, { input: { amount: 2 } })).toMatchObject({
    outcome: 'refused',
    cause: 'task-id-reused',
  });
  const old = { taskId: 'old', sentAt: world.clock.wall() - 31 * 86_400_000 };
  expect(await lease(world, a, () => 1, old)).toMatchObject({ outcome: 'refused', cause: 'older-than-ledger' });
});

test('a question parks the work until a person has answered', async () => {
  const world = new World();
  const a = world.host('a');
  const ask = (ctx: TaskContext): Promise<unknown> => ctx.askHuman('May it?');
  expect(await lease(world, a, ask)).toMatchObject({ outcome: 'waiting-human' });
  expect(await lease(world, a, ask)).toMatchObject({ outcome: 'refused', cause: 'waiting-human' });
});

test('follow-ups are refused where there is no broker to send them', async () => {
  const world = new World();
  const a = world.host('a');
  const errors: unknown[] = [];
  await lease(world, a, (ctx) => {
    try {
      ctx.next('other', {});
    } catch (error) {
      errors.push(error);
    }
  });
  expect(errors).toMatchObject([{ code: 'bad-task', message: expect.stringContaining('no broker') as string }]);
  expect(world.record('charge-1')?.next).toBeUndefined();
});

test('options are checked before anything is claimed', async () => {
  const world = new World({ ledger: { minLeaseMs: 5_000 } });
  const a = world.host('a');
  await expect(lease(world, a, () => 1, { lease: '30' })).rejects.toThrow(/charge\.lease is "30": it has no unit/);
  await expect(lease(world, a, () => 1, { lease: '1s' })).rejects.toThrow(/cannot keep leases below 5s apart/);
  await expect(lease(world, a, () => 1, { taskId: '' })).rejects.toThrow(/taskId/);
  expect(a.ledgerFaults.calls).toEqual([]);
});

test('an extension that fails is announced and changes nothing', async () => {
  const world = new World();
  const a = world.host('a');
  const extend = (): Promise<never> => Promise.reject(new Error('gone'));
  expect(await lease(world, a, () => sleep(a.clock, 30_000), { extend })).toMatchObject({ outcome: 'settled' });
  expect(world.named('delivery_gone').length).toBeGreaterThan(0);
});
