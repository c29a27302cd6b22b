import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import type { Acquired, Lease } from '@leasehold/core';
import { delayAnswer, hangDeaf, type Fault } from '@leasehold/core/testing';
import { createWorker, defineTask, isTaskAborted, type AnyTask, type TaskContext } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

/** A task that goes on for `ms`, or until its signal aborts. */
const patient = (
  host: Host,
  ms: number,
  options: { lease?: string; stage?: string; contexts?: TaskContext[] } = {},
): AnyTask =>
  defineTask({
    type: 'task',
    ...(options.lease !== undefined && { lease: options.lease }),
    limits: { ...(options.stage !== undefined && { stage: options.stage }) },
    async run(_input, ctx) {
      options.contexts?.push(ctx);
      await sleep(host.clock, ms, ctx.signal);
      return 'done';
    },
  });

/** A poll that does not listen to its signal: it answers, with what there is then, after `ms`. */
const deafPoll =
  (ms: number): Fault =>
  async (call) => {
    await sleep(call.clock, ms);
    const [ask] = call.args as [{ max: number; leaseMs: number }];
    return call.apply([{ ...ask, waitMs: 0 }], new AbortController().signal);
  };

test('case 24: a message that a deaf poll brings after the stop is given back at once', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('receive', deafPoll(15_000));
  const run = a.work([patient(a, 1_000)]);
  await world.clock.advance(5_000);
  const stopped = run.worker.stop();
  const id = await world.enqueue({ type: 'task' });
  const report = await world.during(stopped, 25_000);
  expect(report).toEqual({ outcome: 'drained', leaked: 0 });
  expect(world.clock.monotonic() - 1_000).toBeLessThan(16_000);
  expect(a.brokerFaults.callsOf('receive')).toHaveLength(1);
  expect(world.queue.messages).toMatchObject([{ deliveries: 1 }]);
  expect(world.queue.inFlight).toEqual([]);
  expect(world.record(id)).toBeUndefined();
  await world.end();
});

test('case 24: a stop ends a waiting poll, and no other begins', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([patient(a, 1_000)]);
  await world.clock.advance(5_000);
  expect(await world.during(run.worker.stop(), 1_000)).toEqual({ outcome: 'drained', leaked: 0 });
  await world.clock.advance(60_000);
  expect(a.brokerFaults.callsOf('receive')).toHaveLength(1);
  await world.end();
});

test('case 25: during a drain longer than the lease renewals go on; at its end the handler is aborted and the task released', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  const run = a.work([patient(a, 3_600_000, { lease: '5m', stage: '2h', contexts })], { drain: '20m' });
  const id = await world.enqueue({ type: 'task' });
  await world.clock.advance(60_000);
  const stopped = run.worker.stop();
  await world.clock.advance(19 * 60_000);
  expect(contexts[0]?.ownership).toBe('held');
  expect(world.queue.inFlight).toHaveLength(1);
  await world.clock.advance(60_000);
  expect(await stopped).toEqual({ outcome: 'drained', leaked: 0 });
  expect(contexts[0]?.signal.reason).toMatchObject({ reason: 'draining' });
  // A drain is not the task's fault, and it is free at once.
  expect(world.record(id)).toMatchObject({
    state: 'queued',
    attempt: 1,
    failures: 0,
    fencingToken: 1,
    lastError: { errorClass: 'draining' },
  });
  expect(world.queue.inFlight).toEqual([]);
  await world.end();
});

test('case 25: a handler that ends within the drain settles, and the stop ends with it', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([patient(a, 600_000, { lease: '5m', stage: '2h' })], { drain: '20m' });
  const id = await world.enqueue({ type: 'task' });
  await world.clock.advance(60_000);
  const stoppedAt = world.clock.monotonic();
  expect(await world.during(run.worker.stop())).toEqual({ outcome: 'drained', leaked: 0 });
  expect(world.clock.monotonic() - stoppedAt).toBeLessThan(9 * 60_000 + 1_000);
  expect(world.record(id)?.state).toBe('settled');
  expect(world.quiet).toBe(true);
  await world.end();
});

test('case 26: closing resolves when every acknowledgement that was asked for is confirmed; later ones are refused visibly', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('complete', delayAnswer(500), { times: Infinity });
  for (let number = 0; number < 7; number++) await world.enqueue({ type: 'task', input: { number } });
  const policy = { timing: patient(a, 1).timing, attempts: 5, retentionMs: 1_000 };
  const acquired = await world.during(
    a.broker.acquire({ max: 7, leaseMs: 90_000, waitMs: 0, owner: 'me', policy: () => policy }),
  );
  const leases = acquired.filter((one: Acquired): one is Lease => one.kind === 'lease');
  const settle = (lease: Lease | undefined): Promise<unknown> => {
    if (!lease) throw new Error('too few leases');
    const receipt = {
      taskId: lease.taskId,
      stage: 'settled',
      externalSystem: 'none',
      externalId: '1',
      status: 'done',
      verifiedAt: 0,
    } as const;
    return a.broker.settle(lease, { receipt: { ...receipt, idempotencyKey: lease.record.idempotencyKey } });
  };
  await world.during(settle(leases[0]));
  await world.until(() => a.brokerFaults.callsOf('complete').length === 1);
  for (const lease of leases.slice(1, 6)) await settle(lease);
  const closed = a.broker.close();
  await world.during(closed);
  const confirmed = a.brokerFaults
    .callsOf('complete')
    .flatMap(({ ended }) => (ended && 'value' in ended ? (ended.value as unknown[]) : []));
  expect(confirmed).toEqual(Array(6).fill('done'));
  expect(await a.broker.handBack(leases[6]?.held as Lease['held'], 0)).toEqual({ failed: 'unavailable' });
  expect(world.queue.messages).toHaveLength(1);
  expect(world.clock.pending).toBe(0);
});

test('case 27: a stop whose acknowledgements hang is forced within its bound, and the late rejections are caught', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('complete', hangDeaf(60_000), { times: Infinity });
  const run = a.work([patient(a, 1_000)], { drain: '5s' });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'settled');
  const stoppedAt = world.clock.monotonic();
  expect(await world.during(run.worker.stop())).toEqual({ outcome: 'forced', leaked: 0 });
  expect(world.clock.monotonic() - stoppedAt).toBeLessThanOrEqual(5_000);
  await world.clock.advance(300_000);
  expect(world.named('late_answer')).not.toEqual([]);
  expect(world.clock.pending).toBe(0);
});

test('case 27: a client whose close hangs does not keep the broker from closing', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('close', hangDeaf(60_000));
  a.ledgerFaults.on('close', hangDeaf());
  const startedAt = world.clock.monotonic();
  await world.during(a.broker.close());
  expect(world.clock.monotonic() - startedAt).toBeLessThanOrEqual(10_000);
  await world.clock.advance(120_000);
  expect(world.named('late_answer')).toMatchObject([{ cause: 'memory: close', reason: 'error' }]);
});

test('case 27: a stop with parked duplicates that cannot be given back is forced within its bound', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  b.work([patient(b, 600_000)], { concurrency: 1 });
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'running');
  const run = a.work([patient(a, 1_000)], { drain: '5s' });
  await world.enqueue({ type: 'task', taskId: id, idempotencyKey: world.record(id)?.idempotencyKey ?? '' });
  await world.until(() => run.worker.stats.parked === 1);
  a.brokerFaults.on('release', hangDeaf(), { times: Infinity });
  const stoppedAt = world.clock.monotonic();
  expect(await world.during(run.worker.stop())).toMatchObject({ outcome: 'forced' });
  expect(world.clock.monotonic() - stoppedAt).toBeLessThanOrEqual(15_000);
});

test('case 28: after kill -9 a second worker claims within the lease, with the next token', async () => {
  const world = new World({ ledger: { clockErrorMs: 100 } });
  const [a, b] = [world.host('a'), world.host('b')];
  a.work([patient(a, 600_000, { lease: '60s' })]);
  const id = await world.enqueue({ type: 'task' });
  await world.clock.advance(90_000);
  expect(world.record(id)).toMatchObject({ state: 'running', fencingToken: 1 });
  a.process.kill();
  const killedAt = world.clock.monotonic();
  b.work([patient(b, 1_000, { lease: '60s' })]);
  await world.until(() => world.record(id)?.fencingToken === 2);
  expect(world.clock.monotonic() - killedAt).toBeLessThanOrEqual(60_000 + 5_000);
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 2, failures: 1 });
  await world.end();
});

test('case 30: a handler longer than the longest lease is told, then aborted before it with "lease-cap"', async () => {
  const world = new World({ broker: { totalLeaseMs: 300_000 } });
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  const told: number[] = [];
  const task = defineTask({
    type: 'task',
    lease: '2m',
    limits: { attempts: 2 },
    backoff: { first: '1s' },
    async run(_input, ctx) {
      contexts.push(ctx);
      ctx.onCapNear(() => told.push(a.clock.monotonic()));
      await sleep(a.clock, 900_000, ctx.signal);
    },
  });
  const startedAt = world.clock.monotonic();
  a.work([task]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => contexts[0]?.signal.aborted === true);
  const lasted = world.clock.monotonic() - startedAt;
  expect(lasted).toBeGreaterThan(250_000);
  expect(lasted).toBeLessThan(300_000);
  expect(isTaskAborted(contexts[0]?.signal.reason) && contexts[0]?.signal.reason.reason).toBe('lease-cap');
  expect(contexts[0]?.deadline).toBe(1_700_000_000_000 + lasted);
  expect(told[0]).toBeLessThan(world.clock.monotonic());
  expect(world.named('lease_cap_near')).toHaveLength(1);
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({
    state: 'dead_lettered',
    attempt: 2,
    lastError: { errorClass: 'lease-cap' },
  });
  await world.end();
});

test('case 30: an expected duration beyond the cap is refused at start', () => {
  const world = new World({ broker: { totalLeaseMs: 300_000 } });
  const a = world.host('a');
  const task = defineTask({ type: 'long', lease: '2m', limits: { expected: '15m' }, run: () => null });
  expect(() => createWorker({ broker: a.broker, tasks: [task] })).toThrow(
    /long\.limits\.expected is 900000: an attempt .* for 300000 ms at most/,
  );
  expect(() => defineTask({ type: 'long', limits: { expected: '15m', total: '5m' }, run: () => null })).toThrow(
    /long\.limits\.expected/,
  );
  expect(a.brokerFaults.calls).toEqual([]);
});

test('case 31: a handler that never ends is aborted at its budget, left unacknowledged and counted as leaked', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  const task = defineTask({
    type: 'task',
    limits: { total: '30m', stage: '2h' },
    run(_input, ctx) {
      contexts.push(ctx);
      return new Promise<void>(() => undefined);
    },
  });
  const run = a.work([task]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.leaked === 1, 1_900_000);
  const renewals = world.record(id)?.renewalCount;
  expect(contexts[0]?.signal.reason).toMatchObject({ reason: 'lease-cap' });
  expect(world.clock.monotonic()).toBeLessThan(1_800_000 + 10_000);
  expect(run.worker.stats).toMatchObject({ running: 0, outcomes: { leaked: 1 } });
  expect(world.named('handler_leaked')).toMatchObject([{ cause: 'lease-cap' }]);
  await world.clock.advance(60_000);
  expect(world.record(id)?.renewalCount).toBe(renewals);
  expect(a.brokerFaults.callsOf('complete')).toEqual([]);
  expect(a.brokerFaults.callsOf('release')).toEqual([]);
});

test('case 32: a thousand leases under one stop leave no listener, no timer and no warning', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([patient(a, 600_000)], { concurrency: 1_000, drain: '1s' });
  await world.clock.advance(1_000);
  const idle = a.process.pending;
  for (let number = 0; number < 1_000; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.until(() => run.worker.stats.running === 1_000);
  await world.clock.advance(100_000);
  expect(run.worker.stats.running).toBe(1_000);
  expect(await world.during(run.worker.stop())).toEqual({ outcome: 'drained', leaked: 0 });
  expect(world.queue.inFlight).toEqual([]);
  expect(world.table.records.every(({ state, failures }) => state === 'queued' && failures === 0)).toBe(true);
  expect(idle).toBeGreaterThan(0);
  await world.end();
});
