import { expect, test } from 'vitest';
import { createLeaseBroker, sleep, type LeaseBroker, type LedgerDriver } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { failBefore, faultPlan, faultyLedger, type FaultPlan } from '@leasehold/core/testing';
import { defineTask, type AnyTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

const lasting = (host: Host, type: string, ms: number): AnyTask =>
  defineTask({ type, lease: '30s', run: () => sleep(host.clock, ms) });

/** One more broker for a worker of this host, with a queue and a ledger of its own. */
function another(world: World, host: Host): { readonly broker: LeaseBroker; readonly faults: FaultPlan<LedgerDriver> } {
  const faults = faultPlan<LedgerDriver>();
  const driver = memoryBroker({ clock: world.clock });
  const ledger = faultyLedger(memoryLedger({ clock: world.clock }), faults, world.clock);
  return { broker: createLeaseBroker({ driver, ledger, clock: host.clock }), faults };
}

test('when the ledger of one broker goes away, its places go to the others at once', async () => {
  const world = new World();
  const a = world.host('a');
  const { broker: dying, faults } = another(world, a);
  const { worker } = a.work([lasting(a, 'mine', 1_000), lasting(a, 'theirs', 1_000)], {
    broker: [
      { broker: a.broker, weight: 1 },
      { broker: dying, weight: 3 },
    ],
    concurrency: 1,
  });
  await world.during(dying.enqueue(Array.from({ length: 100 }, () => ({ type: 'theirs', input: {} }))));
  for (let number = 0; number < 300; number++) await world.enqueue({ type: 'mine', input: { number } });
  await world.clock.advance(5_300);
  // The one that goes away is the one whose turn would be next.
  await world.until(() => worker.current[0]?.taskType === 'theirs', 60_000);
  await world.until(() => worker.current[0]?.taskType === 'mine', 60_000);
  for (const method of ['put', 'get'] as const) faults.on(method, failBefore('unavailable'), { times: Infinity });
  const before = worker.stats.outcomes.settled;
  await world.clock.advance(60_000);
  // The claim that fails takes its time; then a task a second.
  expect(worker.stats.outcomes.settled - before).toBeGreaterThan(40);
});

test.each([1, 2])('an idle broker does not keep one of %d places from a busy one', async (concurrency) => {
  const world = new World();
  const a = world.host('a');
  const { broker: idle } = another(world, a);
  for (let number = 0; number < 100; number++) await world.enqueue({ type: 'task', input: { number } });
  const { worker } = a.work([lasting(a, 'task', 50)], { broker: [a.broker, idle], concurrency });
  const work = (100 * 50) / concurrency;
  expect(await world.until(() => worker.stats.outcomes.settled === 100)).toBeLessThan(work + 2_000);
  await world.end();
});

test('an idle broker that is offered the last place now and then is served within a second or two', async () => {
  const world = new World();
  const a = world.host('a');
  const { broker: idle } = another(world, a);
  for (let number = 0; number < 600; number++) await world.enqueue({ type: 'task', input: { number } });
  const { worker } = a.work([lasting(a, 'task', 50), lasting(a, 'rare', 50)], {
    broker: [a.broker, idle],
    concurrency: 1,
  });
  await world.until(() => worker.stats.outcomes.settled === 100);
  await world.during(idle.enqueue([{ type: 'rare', input: {} }]));
  expect(await world.until(() => worker.current[0]?.taskType === 'rare')).toBeLessThanOrEqual(2_000);
  await world.until(() => world.quiet);
  await world.end();
});

test('brokers that are all idle take turns at the only place, one waiting poll at a time', async () => {
  const world = new World();
  const a = world.host('a');
  const { broker: other } = another(world, a);
  a.work([lasting(a, 'task', 50)], { broker: [a.broker, other], concurrency: 1 });
  await world.clock.advance(5_000);
  const before = a.brokerFaults.callsOf('receive').length;
  await world.clock.advance(60_000);
  // Every other second.
  expect(a.brokerFaults.callsOf('receive').length - before).toBeLessThanOrEqual(31);
  await world.end();
});

test.each([40, 45, 50])('a broker whose ledger comes back is not starved by idle ones (%d)', async (round) => {
  const world = new World();
  const a = world.host('a');
  const [busy, idle] = [another(world, a), another(world, a)];
  const task = lasting(a, 'task', 20 + 7 * round);
  const { worker } = a.work([task], { broker: [a.broker, busy.broker, idle.broker], concurrency: 2 });
  await world.during(busy.broker.enqueue(Array.from({ length: 100 }, (_, input) => ({ type: 'task', input }))));
  await world.until(() => worker.stats.outcomes.settled >= 10);
  const back = world.clock.monotonic() + 5_000 + 137 * round;
  for (const method of ['put', 'get'] as const)
    busy.faults.on(method, failBefore('unavailable'), { times: Infinity, when: () => world.clock.monotonic() < back });
  await world.until(() => world.clock.monotonic() >= back);
  await world.until(() => worker.stats.claimed >= 90, 120_000);
  expect(worker.health().ready).toBe(true);
  await world.end();
});
