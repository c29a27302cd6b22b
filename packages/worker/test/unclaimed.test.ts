import { expect, test } from 'vitest';
import { createLeaseBroker, sleep, type LedgerErrorCode } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { failBefore } from '@leasehold/core/testing';
import { defineTask, type Worker } from '@leasehold/worker';
import { World, type Host } from './harness.ts';

const task = defineTask({ type: 'task', lease: '30s', run: () => 'done' });

/** From now on the ledger answers no call of this process. */
function cutOff(host: Host, code: LedgerErrorCode): void {
  for (const method of ['put', 'get'] as const) host.ledgerFaults.on(method, failBefore(code), { times: Infinity });
}

/** How many messages were taken for nothing. */
function lapsed(world: World): number {
  return world.named('task_left_to_lapse').length;
}

/** The ledger is away for so long. */
async function neverReady(world: World, worker: Worker, ms: number): Promise<void> {
  const readyAt: number[] = [];
  for (let at = 0; at < ms; at += 1_000) {
    await world.clock.advance(1_000);
    if (worker.health().ready) readyAt.push(at);
  }
  // A first claim is tried until its time is up.
  expect(readyAt.filter((at) => at > 10_000)).toEqual([]);
}

/** What a ledger does that is away. */
function refuse(): Promise<never> {
  return Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
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

test.each(['denied', 'unavailable', 'invalid'] as const)(
  'a ledger whose every answer is “%s” for an hour costs a message or two: the worker tries one at a time, and then goes on at full speed',
  async (code) => {
    const world = new World({ broker: { maxDeliveries: 5 } });
    const a = world.host('a');
    const { worker } = a.work([task], { concurrency: 10 });
    await world.enqueue({ type: 'task' });
    await world.until(() => world.quiet);
    cutOff(a, code);
    for (let number = 0; number < 40; number++) await world.enqueue({ type: 'task', input: { number } });
    await neverReady(world, worker, 3_600_000);
    expect(worker.stats.claimed).toBe(1);
    a.ledgerFaults.reset();
    await world.until(() => world.quiet);
    expect(worker.stats).toMatchObject({ claimed: 41, outcomes: { settled: 41 } });
    expect(world.queue.deadLetters).toEqual([]);
    await world.end();
  },
);

test('a ledger that is read but not written costs a message one delivery more: what was tried is kept, and tries grow rare', async () => {
  const world = new World({ broker: { maxDeliveries: 5 } });
  const a = world.host('a');
  a.ledgerFaults.on('put', failBefore('throttled'), { times: Infinity });
  const { worker } = a.work([task], { concurrency: 10 });
  for (let number = 0; number < 40; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.clock.advance(3_600_000);
  expect(lapsed(world)).toBeGreaterThan(10);
  // Unprotected, each of the 40 would be taken every 30 seconds.
  expect(lapsed(world)).toBeLessThan(200);
  expect(worker.stats.claimed).toBe(0);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  expect(worker.stats.outcomes.settled).toBe(40);
  expect(world.queue.deadLetters).toEqual([]);
  await world.end();
});

test.each(['invalid', 'denied', 'unavailable', 'not-found', 'throttled'] as const)(
  'one record that can be neither read nor written (%s) holds up nobody else',
  async (code) => {
    const world = new World();
    const a = world.host('a');
    const bad = await world.enqueue({ type: 'task' });
    a.ledgerFaults.on('put', failBefore(code), { times: Infinity, when: ({ taskId }) => taskId === bad });
    a.ledgerFaults.on('get', failBefore(code), { times: Infinity, when: (taskId) => taskId === bad });
    const { worker } = a.work([task], { concurrency: 2 });
    for (let number = 0; number < 20; number++) await world.enqueue({ type: 'task', input: { number } });
    await world.until(() => worker.stats.outcomes.settled === 20, 60_000);
    a.ledgerFaults.reset();
    await world.until(() => world.quiet);
    expect(worker.health().ready).toBe(true);
    await world.end();
  },
);

test.each<[number, LedgerErrorCode]>([
  [1, 'unavailable'],
  [1, 'unknown'],
  [1, 'denied'],
  [3, 'invalid'],
  [8, 'invalid'],
  [8, 'unavailable'],
])('%d bad records at the head of an idle queue (%s) keep nobody waiting for long', async (count, code) => {
  const world = new World();
  const a = world.host('a');
  const bad: string[] = [];
  for (let number = 0; number < count; number++) bad.push(await world.enqueue({ type: 'task', input: { number } }));
  a.ledgerFaults.on('put', failBefore(code), { times: Infinity, when: ({ taskId }) => bad.includes(taskId) });
  a.ledgerFaults.on('get', failBefore(code), { times: Infinity, when: (taskId) => bad.includes(taskId) });
  const { worker } = a.work([task], { concurrency: 10 });
  await world.clock.advance(600_000);
  for (let number = 0; number < 40; number++) await world.enqueue({ type: 'task', input: { good: number } });
  await world.until(() => worker.stats.outcomes.settled === 40, 60_000);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  await world.end();
});

test('a short queue outlives a ledger that takes no writes: what was tried is kept, and loses no further delivery', async () => {
  const world = new World({ broker: { maxDeliveries: 5 } });
  const a = world.host('a');
  a.ledgerFaults.on('put', failBefore('denied'), { times: Infinity });
  const { worker } = a.work([task]);
  await world.enqueue({ type: 'task' });
  await world.clock.advance(3_600_000);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  expect(worker.stats.outcomes.settled).toBe(1);
  expect(world.queue.deadLetters).toEqual([]);
  await world.end();
});

test('a worker whose ledger is back is ready though nothing is left to try it with', async () => {
  const world = new World({ broker: { maxDeliveries: 1 } });
  const a = world.host('a');
  cutOff(a, 'unavailable');
  const { worker } = a.work([task]);
  await world.enqueue({ type: 'task' });
  await world.until(() => world.queue.deadLetters.length === 1);
  expect(worker.health().ready).toBe(false);
  a.ledgerFaults.reset();
  await world.until(() => worker.health().ready, 60_000);
  await world.end();
});

test('a broker whose ledger is away leaves the places of the worker to the others', async () => {
  const world = new World();
  const a = world.host('a');
  const driver = memoryBroker({ clock: world.clock });
  const ledger = { ...memoryLedger({ clock: world.clock }), put: refuse, get: refuse };
  const dead = createLeaseBroker({ driver, ledger, clock: a.clock });
  const { worker } = a.work([task], { broker: [dead, a.broker], concurrency: 1 });
  await world.during(dead.enqueue(Array.from({ length: 5 }, () => ({ type: 'task', input: {} }))));
  for (let number = 0; number < 40; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.until(() => worker.stats.outcomes.settled === 40, 120_000);
  await world.end();
});

test('the claim of a key has no answer either: a serialized task closes the gate like any other', async () => {
  const world = new World({ broker: { maxDeliveries: 5 } });
  const a = world.host('a');
  cutOff(a, 'unavailable');
  const serial = defineTask({ type: 'task', lease: '30s', serialize: () => 'one', run: () => 'done' });
  const { worker, warnings } = a.work([serial], { concurrency: 5 });
  for (let number = 0; number < 10; number++) await world.enqueue({ type: 'task', input: { number } });
  await neverReady(world, worker, 600_000);
  expect(warnings.at(-1)).toMatch(/could not be claimed: unavailable/);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  expect(world.queue.deadLetters).toEqual([]);
  await world.end();
});

test('duplicates that are parked are not spent on a ledger that is away', async () => {
  const world = new World();
  const a = world.host('a');
  const long = defineTask({ type: 'task', lease: '30s', run: (_input, ctx) => sleep(a.clock, 900_000, ctx.signal) });
  const ids = Array.from({ length: 5 }, (_, number) => `t${number}`);
  const { worker } = a.work([long], { concurrency: 20 });
  for (let copy = 0; copy < 2; copy++) for (const taskId of ids) await world.enqueue({ type: 'task', taskId });
  await world.until(() => worker.stats.parked === 5);
  cutOff(a, 'denied');
  await world.enqueue({ type: 'task', taskId: 'another' });
  await world.until(() => lapsed(world) > 0);
  await world.clock.advance(120_000);
  expect(worker.stats.parked).toBeGreaterThanOrEqual(5);
  a.ledgerFaults.reset();
  await world.until(() => worker.stats.claimed > 5);
  await world.end();
});
