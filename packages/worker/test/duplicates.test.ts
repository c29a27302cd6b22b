import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import { memoryBroker } from '@leasehold/core/memory';
import { defineTask, type AnyTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

const lasting = (host: Host, ms: number, runs: string[] = [], lease = '30s'): AnyTask =>
  defineTask({
    type: 'task',
    lease,
    async run(_input, ctx) {
      runs.push(`${host.name} ${ctx.fence}`);
      await sleep(host.clock, ms, ctx.signal);
    },
  });
const copy = { type: 'task', taskId: 't', idempotencyKey: 'k' } as const;

test('a duplicate of a live task is parked and kept, not run and not acknowledged, until the owner has settled', async () => {
  const world = new World();
  const a = world.host('a');
  const runs: string[] = [];
  const run = a.work([lasting(a, 300_000, runs)]);
  await world.enqueue(copy);
  await world.until(() => runs.length === 1);
  await world.enqueue(copy);
  await world.until(() => run.worker.stats.parked === 1);
  for (let minute = 0; minute < 4; minute++) {
    await world.clock.advance(60_000);
    expect(world.queue.messages.map(({ deliveries, heldUntil }) => [deliveries, heldUntil !== undefined])).toEqual([
      [1, true],
      [1, true],
    ]);
    expect(a.brokerFaults.callsOf('complete')).toEqual([]);
  }
  await world.until(() => world.quiet);
  expect(runs).toEqual(['a 1']);
  expect(run.worker.stats).toMatchObject({ claimed: 1, replayed: 1, parked: 0 });
  await world.end();
});

test('a parked duplicate takes over when the owner has died, within its lease', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const runs: string[] = [];
  a.work([lasting(a, 600_000, runs)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => runs.length === 1);
  const run = b.work([lasting(b, 1_000, runs)]);
  await world.enqueue(copy);
  await world.until(() => run.worker.stats.parked === 1);
  await world.clock.advance(60_000);
  a.process.kill();
  const killedAt = world.clock.monotonic();
  await world.until(() => runs.length === 2);
  expect(runs).toEqual(['a 1', 'b 2']);
  expect(world.clock.monotonic() - killedAt).toBeLessThanOrEqual(35_000);
  await world.until(() => world.quiet);
  await world.end();
});

test('a parked duplicate of a dead owner does not starve behind a full worker', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const runs: string[] = [];
  a.work([lasting(a, 600_000, runs)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => runs.length === 1);
  const run = b.work([lasting(b, 3_137, runs)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => run.worker.stats.parked === 1);
  for (let number = 0; number < 100; number++) await world.enqueue({ type: 'task', input: { number } });
  a.process.kill();
  // After a late claim a duplicate may be the only message that is left.
  const [first] = a.brokerFaults
    .callsOf('receive')
    .flatMap(({ ended }) => (ended && 'value' in ended ? (ended.value as { handle: string }[]) : []));
  await memoryBroker({ queue: world.queue, clock: world.clock }).complete(
    [first?.handle ?? ''],
    new AbortController().signal,
  );
  const killedAt = world.clock.monotonic();
  await world.until(() => world.record('t')?.fencingToken === 2);
  expect(world.clock.monotonic() - killedAt).toBeLessThanOrEqual(45_000);
  await world.until(() => world.quiet);
  await world.end();
});

test('a parked duplicate that takes over does not make a worker run more than its concurrency', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const runs: string[] = [];
  b.work([lasting(b, 3_600_000, runs)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => runs.length === 1);
  const other = defineTask({ type: 'other', lease: '30s', run: () => sleep(a.clock, 1_000) });
  const { worker } = a.work([lasting(a, 40_000, runs), other], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => worker.stats.parked === 1);
  // Between a beat and the next look at the duplicate, so that it takes over, and not the message of the dead owner, which comes back later.
  await world.until(() => world.named('heartbeat_ok').length === 1);
  await world.clock.advance(1_000);
  b.process.kill();
  await world.until(() => worker.stats.running === 1);
  // The place is kept for a poll that still waits.
  const id = await world.enqueue({ type: 'other' });
  let most = 0;
  await world.until(() => {
    most = Math.max(most, worker.stats.running);
    return world.record(id)?.state === 'settled';
  });
  expect(most).toBe(1);
  expect(runs).toEqual(['b 1', 'a 2']);
  await world.until(() => world.quiet);
  expect(world.named('task_left_to_lapse')).toEqual([]);
  await world.end();
});

test('a duplicate goes at once when its task was ended in the same process, even at concurrency 1', async () => {
  const world = new World();
  const a = world.host('a');
  const b = world.host('b');
  a.work([lasting(a, 20_000)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => world.record('t')?.state === 'running');
  const seen = b.work([lasting(b, 1_000)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => seen.worker.stats.parked === 1);
  await world.until(() => world.record('t')?.state === 'settled');
  await world.until(() => world.quiet, 6_000);
  expect(seen.worker.stats).toMatchObject({ claimed: 0, replayed: 1 });
  await world.end();
});

test('at a stop, parked duplicates go back for when their owner may be gone', async () => {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  a.work([lasting(a, 600_000)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => world.record('t')?.state === 'running');
  const run = b.work([lasting(b, 1_000)]);
  await world.enqueue(copy);
  await world.until(() => run.worker.stats.parked === 1);
  expect(await world.during(run.worker.stop())).toEqual({ outcome: 'drained', leaked: 0 });
  expect(b.brokerFaults.callsOf('release')).toMatchObject([{ args: [expect.anything(), expect.any(Number)] }]);
  const delayMs = b.brokerFaults.callsOf('release')[0]?.args[1];
  expect(delayMs).toBeGreaterThan(10_000);
  expect(delayMs).toBeLessThanOrEqual(30_000);
  expect(world.queue.inFlight).toHaveLength(1);
  expect(world.queue.messages).toHaveLength(2);
});

test('where a delivery cannot be kept, a duplicate is handed back for when its owner may be gone', async () => {
  const world = new World({ broker: { extend: false } });
  const a = world.host('a');
  const runs: string[] = [];
  const run = a.work([lasting(a, 20_000, runs)]);
  await world.enqueue(copy);
  await world.until(() => runs.length === 1);
  await world.enqueue(copy);
  await world.until(() => world.quiet);
  expect(runs).toEqual(['a 1']);
  expect(run.worker.stats).toMatchObject({ parked: 0, replayed: 1 });
  await world.end();
});

test('a redelivery of a settled task is acknowledged with its receipt, whoever gets it', async () => {
  const world = new World();
  const a = world.host('a');
  const runs: string[] = [];
  const run = a.work([lasting(a, 1_000, runs)]);
  await world.enqueue(copy);
  await world.until(() => world.quiet);
  for (let again = 0; again < 3; again++) await world.enqueue(copy);
  await world.until(() => world.quiet);
  expect(runs).toEqual(['a 1']);
  expect(run.worker.stats).toMatchObject({ claimed: 1, replayed: 3 });
  expect(world.named('task_replayed')).toHaveLength(3);
  await world.end();
});

test('a message on its last delivery that finds no place is not thrown away by a stop', async () => {
  const world = new World({ broker: { maxDeliveries: 1 } });
  const [a, b] = [world.host('a'), world.host('b')];
  const ran: string[] = [];
  const other = defineTask({ type: 'other', lease: '30s', run: (_input, ctx) => void ran.push(ctx.taskId) });
  b.work([lasting(b, 3_600_000)], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => world.record('t')?.state === 'running');
  const run = a.work([lasting(a, 15_000), other], { concurrency: 1 });
  await world.enqueue(copy);
  await world.until(() => run.worker.stats.parked === 1);
  await world.until(() => world.named('heartbeat_ok').length === 1);
  await world.clock.advance(1_000);
  b.process.kill();
  // The duplicate, in the place that was kept for the poll.
  await world.until(() => run.worker.stats.running === 1);
  const id = await world.enqueue({ type: 'other', taskId: 'o' });
  await world.clock.advance(1_000);
  await world.during(run.worker.stop());
  await world.clock.advance(60_000);
  const c = world.host('c');
  c.work([other]);
  await world.clock.advance(60_000);
  expect(ran).toEqual([id]);
});
