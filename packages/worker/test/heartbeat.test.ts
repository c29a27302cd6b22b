import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  beatDelay,
  leaseTiming,
  sleep,
  virtualClock,
  type LeaseOption,
  type Lost,
  type TaskLease,
} from '@leasehold/core';
import { delayAnswer, failBefore, hang, pretend } from '@leasehold/core/testing';
import { defineTask, type AnyTask, type TaskContext } from '@leasehold/worker';
import { DueQueue, type Due } from '../src/due-queue.ts';
import { createHeartbeat, type Kept } from '../src/heartbeat.ts';
import { World, type Host } from './harness.ts';

const lasting = (host: Host, ms: number, lease: LeaseOption, contexts: TaskContext[] = []): AnyTask =>
  defineTask({
    type: 'task',
    lease,
    async run(_input, ctx) {
      contexts.push(ctx);
      await sleep(host.clock, ms, ctx.signal);
    },
  });

test('a hundred leases share about ten calls to the broker per beat', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 300_000, '90s')], { concurrency: 100 });
  for (let number = 0; number < 100; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.until(() => run.worker.stats.running === 100);
  await world.clock.advance(240_000);
  const calls = a.brokerFaults.callsOf('extend');
  const extended = calls.reduce((sum, { args }) => sum + (args[0] as unknown[]).length, 0);
  expect(extended).toBeGreaterThanOrEqual(100 * 8);
  // Ten at most fit into a call; jitter spreads a beat over a few calls that are not full.
  expect(calls.length / (extended / 100)).toBeLessThanOrEqual(14);
  expect(run.worker.stats).toMatchObject({ running: 100, claimed: 100 });
  await world.until(() => world.quiet);
  await world.end();
});

test('a thousand leases are beaten by one timer, and nothing of them remains', async () => {
  const clock = virtualClock();
  const heartbeat = createHeartbeat(clock, () => 0.5);
  const keeps = Array.from({ length: 1_000 }, () => fake(clock, 30_000));
  for (const { kept } of keeps) heartbeat.keep(kept);
  expect(heartbeat.size).toBe(1_000);
  expect(clock.pending).toBe(1);
  await clock.advance(300_000);
  expect(keeps.every(({ beats }) => beats.length >= 29 && beats.length <= 33)).toBe(true);
  for (const { kept } of keeps) heartbeat.drop(kept);
  expect(heartbeat.size).toBe(0);
  expect(clock.pending).toBe(0);
});

/** A lease that is confirmed at every beat, or as `answer` says. */
function fake(
  clock: ReturnType<typeof virtualClock>,
  leaseMs: number,
  answer: () => 'held' | 'unknown' | Lost = () => 'held',
) {
  const beats: number[] = [];
  const losses: Lost[] = [];
  const task = {
    timing: leaseTiming(leaseMs),
    confirmedUntil: clock.monotonic() + leaseMs,
    lost: undefined as Lost | undefined,
    ended: false,
  };
  const kept: Kept = {
    task: task as unknown as TaskLease,
    brokerUntil: () => Number.POSITIVE_INFINITY,
    async beat() {
      beats.push(clock.monotonic());
      const result = answer();
      if (result === 'held') task.confirmedUntil = clock.monotonic() + leaseMs;
      return result;
    },
    lost: (loss) => void losses.push(loss),
  };
  return { kept, beats, losses, task };
}

test('beats start by half of what remains, at once within the margin, and never with a negative delay', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 9, max: 3_600_000 }),
      fc.double({ min: -1, max: 1.2, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (leaseMs, share, random) => {
        const timing = leaseTiming(leaseMs);
        const remaining = leaseMs * share;
        const delay = beatDelay(timing, remaining, () => random);
        expect(delay).toBeGreaterThanOrEqual(0);
        expect(delay).toBeLessThanOrEqual(Math.max(0, remaining / 2));
        if (remaining <= timing.marginMs) expect(delay).toBe(0);
      },
    ),
  );
});

test('case 2: a lease with 300 ms left is renewed at once', async () => {
  const clock = virtualClock();
  const { kept, beats, task } = fake(clock, 5_000);
  task.confirmedUntil = clock.monotonic() + 300;
  createHeartbeat(clock).keep(kept);
  await clock.advance(0);
  expect(beats).toEqual([1_000]);
});

test('a missed beat is repeated before the margin, ever closer, and the end of the confirmed time is a loss', async () => {
  const clock = virtualClock();
  const { kept, beats, losses, task } = fake(clock, 90_000, () => 'unknown');
  const heartbeat = createHeartbeat(clock, () => 0);
  heartbeat.keep(kept);
  await clock.advance(69_999);
  const inTime = beats.map((at) => at - 1_000);
  // The regular one at 30 s, and at least twice more before the margin of 20 s is reached.
  expect(inTime[0]).toBeLessThanOrEqual(30_000);
  expect(inTime.length).toBeGreaterThanOrEqual(4);
  const gaps = inTime.slice(1).map((at, index) => at - (inTime[index] ?? 0));
  expect(Math.max(...gaps)).toBeLessThanOrEqual(15_000);
  task.lost = { lost: 'deadline', message: 'over' };
  await clock.advance(30_000);
  expect(losses).toEqual([task.lost]);
  expect(heartbeat.size).toBe(0);
  expect(clock.pending).toBe(0);
});

test('a beat in flight is not started again, and its end counts for nothing once the lease was dropped', async () => {
  const clock = virtualClock();
  const { kept, beats } = fake(clock, 9_000);
  let answer: (result: 'held') => void = () => undefined;
  const slow: Kept = {
    ...kept,
    beat: () => (beats.push(clock.monotonic()), new Promise((resolve) => (answer = resolve))),
  };
  const heartbeat = createHeartbeat(clock);
  heartbeat.keep(slow);
  await clock.advance(20_000);
  expect(beats).toHaveLength(1);
  heartbeat.nudge(slow);
  await clock.advance(1_000);
  expect(beats).toHaveLength(1);
  heartbeat.drop(slow);
  answer('held');
  await clock.advance(60_000);
  expect(beats).toHaveLength(1);
  expect(clock.pending).toBe(0);
});

test('nudges bring the next beat forward, but a storm of them makes no storm of beats', async () => {
  const clock = virtualClock();
  const { kept, beats } = fake(clock, 90_000);
  const heartbeat = createHeartbeat(clock, () => 0);
  heartbeat.keep(kept);
  heartbeat.nudge(kept);
  await clock.advance(0);
  expect(beats).toEqual([1_000]);
  for (let turn = 0; turn < 1_000; turn++) {
    heartbeat.nudge(kept);
    await clock.advance(1);
  }
  expect(beats.length).toBeLessThanOrEqual(3);
  heartbeat.drop(kept);
});

test('the latest beat of the last minute is what a blocked loop is known by', async () => {
  const clock = virtualClock();
  const heartbeat = createHeartbeat(clock, () => 0);
  const { kept } = fake(clock, 90_000);
  heartbeat.keep(kept);
  await clock.advance(20_000);
  clock.block(25_000);
  await clock.advance(100);
  expect(heartbeat.lateMs).toBeGreaterThan(10_000);
  await clock.advance(70_000);
  expect(heartbeat.lateMs).toBe(0);
});

test('a worker whose loop was blocked says that it is not live, until a minute later', async () => {
  const world = new World();
  const a = world.host('a');
  const run = a.work([lasting(a, 600_000, '90s')]);
  await world.enqueue({ type: 'task' });
  await world.clock.advance(20_000);
  expect(run.worker.health()).toMatchObject({ live: true, ready: true, running: 1 });
  a.process.pause(20_000);
  await world.clock.advance(21_000);
  expect(run.worker.health().live).toBe(false);
  await world.clock.advance(61_000);
  expect(run.worker.health().live).toBe(true);
});

test('a delivery that the broker has lost does not end a lease that the ledger keeps', async () => {
  const world = new World();
  const a = world.host('a');
  a.brokerFaults.on('extend', pretend('gone'), { times: Infinity });
  const run = a.work([lasting(a, 120_000, '30s')]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.outcomes.settled === 1);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  expect(world.named('delivery_gone').length).toBeGreaterThan(0);
  // Its lost delivery came back and was parked: two beats a lease, not one per millisecond.
  expect(a.ledgerFaults.callsOf('put').length).toBeLessThan(80);
  await world.until(() => world.quiet);
  await world.end();
});

test('a ledger that does not answer one lease does not hold up the beats of the others', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  a.work([lasting(a, 200_000, '30s', contexts)]);
  for (const taskId of ['stuck', 'one', 'two']) await world.enqueue({ type: 'task', taskId });
  await world.until(() => contexts.length === 3);
  a.ledgerFaults.on('put', hang(), { when: (next) => next.taskId === 'stuck', times: Infinity });
  await world.clock.advance(60_000);
  expect(Object.fromEntries(contexts.map(({ taskId, ownership }) => [taskId, ownership]))).toEqual({
    one: 'held',
    stuck: 'lost',
    two: 'held',
  });
});

test('slow beats of the ledger keep the lease, and ownership is unknown in between', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  a.ledgerFaults.on('put', delayAnswer(3_000), { nth: 2, times: Infinity });
  const run = a.work([lasting(a, 200_000, '30s', contexts)]);
  await world.enqueue({ type: 'task' });
  const seen = new Set<string>();
  await world.until(() => {
    if (contexts[0] && run.worker.stats.running === 1) seen.add(contexts[0].ownership);
    return world.quiet;
  });
  expect(run.worker.stats.outcomes.settled).toBe(1);
  expect([...seen]).toEqual(['held']);
  await world.end();
});

test('a machine that slept is in doubt about its leases until one confirmation', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  a.work([lasting(a, 60_000, '30s', contexts)]);
  await world.enqueue({ type: 'task' });
  await world.clock.advance(2_000);
  expect(contexts[0]?.ownership).toBe('held');
  a.clock.stepWall(3_600_000);
  expect(contexts[0]?.ownership).toBe('unknown');
  await world.clock.advance(11_000);
  expect(contexts[0]?.ownership).toBe('held');
  await world.until(() => world.quiet);
  await world.end();
});

test('a takeover is noticed at the next beat, with its cause', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  a.work([lasting(a, 600_000, '30s', contexts)]);
  const id = await world.enqueue({ type: 'task' });
  await world.clock.advance(1_000);
  await world.client.cancel(id);
  a.ledgerFaults.on('put', failBefore('throttled'));
  await world.until(() => contexts[0]?.signal.aborted === true, 25_000);
  expect(world.named('heartbeat_lost')).toMatchObject([{ cause: 'cancelled' }]);
  await world.until(() => world.quiet);
  await world.end();
});

test('the queue of due times is a heap whatever is set, moved and removed', () => {
  const step = fc.record({ entry: fc.nat(15), at: fc.nat(100), remove: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = new DueQueue<Due & { readonly id: number }>();
      const entries = Array.from({ length: 16 }, (_, id) => ({ id, dueAt: 0, place: -1 }));
      const model = new Map<number, number>();
      for (const { entry, at, remove } of steps) {
        const one = entries[entry] as Due & { readonly id: number };
        if (remove) queue.remove(one);
        else queue.set(one, at);
        if (remove) model.delete(entry);
        else model.set(entry, at);
        expect(queue.size).toBe(model.size);
        expect(queue.first()?.dueAt).toBe(model.size === 0 ? undefined : Math.min(...model.values()));
      }
    }),
  );
});

test('a delivery that has little of its lease left is prolonged before it comes back', async () => {
  const world = new World();
  const a = world.host('a');
  await world.enqueue({ type: 'task' });
  // Most of the broker's lease passes before the task is claimed under a full lease of the ledger.
  a.process.plan({ at: 1, fate: 'paused after', forMs: 19_000 });
  const run = a.work([lasting(a, 60_000, { length: '30s', heartbeat: '20s', margin: '5s' })]);
  await world.until(() => run.worker.stats.outcomes.settled === 1);
  expect(world.named('duplicate_delivery')).toEqual([]);
  expect(
    a.brokerFaults
      .callsOf('receive')
      .flatMap(({ ended }) => (ended && 'value' in ended ? (ended.value as unknown[]) : [])),
  ).toHaveLength(1);
});
