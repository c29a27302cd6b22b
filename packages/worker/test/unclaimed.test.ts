import { expect, test } from 'vitest';
import { failBefore } from '@leasehold/core/testing';
import { defineTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

const task = defineTask({ type: 'task', lease: '30s', run: () => 'done' });

/** From now on the ledger answers no call of this process. */
function cutOff(host: Host, code: 'denied' | 'unavailable'): void {
  for (const method of ['put', 'get'] as const) host.ledgerFaults.on(method, failBefore(code), { times: Infinity });
}

test('a ledger that refuses every claim is told of once, not never and not for every message', async () => {
  const world = new World();
  const a = world.host('a');
  cutOff(a, 'denied');
  const { warnings, worker } = a.work([task], { concurrency: 5 });
  for (let number = 0; number < 30; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.clock.advance(10_000);
  expect(worker.stats.claimed).toBe(0);
  expect(worker.health()).toMatchObject({ live: true, ready: false });
  const told = warnings.filter((warning) => warning.includes('could not be claimed'));
  expect(told).toEqual([expect.stringMatching(/denied \(ledger memory\)\. Check what this role may do/) as string]);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  expect(worker.health().ready).toBe(true);
  await world.end();
});

test.each(['denied', 'unavailable'] as const)(
  'no message loses its deliveries to a ledger that is %s for an hour: the worker takes one at a time, and then goes on at full speed',
  async (code) => {
    const world = new World({ broker: { maxDeliveries: 5 } });
    const a = world.host('a');
    const { worker } = a.work([task], { concurrency: 10 });
    await world.enqueue({ type: 'task' });
    await world.until(() => world.quiet);
    cutOff(a, code);
    for (let number = 0; number < 40; number++) await world.enqueue({ type: 'task', input: { number } });
    await world.clock.advance(3_600_000);
    expect(worker.stats.claimed).toBe(1);
    a.ledgerFaults.reset();
    await world.until(() => world.quiet);
    expect(worker.stats).toMatchObject({ claimed: 41, outcomes: { settled: 41 } });
    expect(world.queue.deadLetters).toEqual([]);
    await world.end();
  },
);

test('a ledger that is read but not written costs few deliveries: a try needs one, so tries grow rare', async () => {
  const world = new World();
  const a = world.host('a');
  a.ledgerFaults.on('put', failBefore('throttled'), { times: Infinity });
  const { worker } = a.work([task], { concurrency: 10 });
  for (let number = 0; number < 40; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.clock.advance(3_600_000);
  const tries = world.events.filter(({ name }) => name === 'task_left_to_lapse').length;
  expect(tries).toBeGreaterThan(10);
  expect(tries).toBeLessThan(40);
  expect(worker.stats.claimed).toBe(0);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  await world.end();
});

test('a record that cannot be written holds up nobody else', async () => {
  const world = new World();
  const a = world.host('a');
  const bad = await world.enqueue({ type: 'task' });
  a.ledgerFaults.on('put', failBefore('invalid'), {
    times: Infinity,
    when: (record) => record.taskId === bad,
  });
  const { worker } = a.work([task], { concurrency: 2 });
  for (let number = 0; number < 20; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.clock.advance(5_000);
  expect(worker.stats.outcomes.settled).toBe(20);
  expect(worker.health().ready).toBe(true);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  await world.end();
});
