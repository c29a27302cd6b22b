import { setTimeout as realSleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createLeaseBroker, leaseTiming, type LeaseBroker, type LedgerDriver } from '@leasehold/core';
import { memoryLedger, type MemoryLedger } from '@leasehold/core/memory';
import { kinds } from '@leasehold/emulators';
import type { SqsBroker } from '@leasehold/sqs';
import { createWorker, defineTask, type AnyTask, type Worker, type WorkerOptions } from '@leasehold/worker';
import { machine, never, type Machine, type MachineQueue, type Queue } from './machine.ts';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  one.server.faults.reset();
  one.server.rules.staleHandle = 'by-queue';
  for (const end of endings.splice(0).toReversed()) await settled(end());
});

/** The end of something that needs time to go by. */
async function settled<T>(work: Promise<T>, withinMs = 60_000): Promise<T> {
  let over = false;
  const done = (): void => void (over = true);
  work.then(done, done);
  expect(await one.time.until(() => over, withinMs)).toBe(true);
  return work;
}

/** A queue, a ledger, and as many processes as are made. */
interface World {
  readonly queue: Queue;
  readonly ledger: MemoryLedger;
  broker(driver?: SqsBroker): LeaseBroker;
  worker(tasks: readonly AnyTask[], options?: Partial<WorkerOptions> & { readonly driver?: SqsBroker }): Worker;
  state(taskId: string): Promise<string | undefined>;
}

async function world(options: MachineQueue = {}): Promise<World> {
  const queue = await one.queue(options);
  endings.push(() => queue.dispose());
  const ledger = memoryLedger({ clock: one.clock });
  const shared: LedgerDriver = { ...ledger, close: () => Promise.resolve() };
  const made: World = {
    queue,
    ledger,
    broker(driver = queue.driver()) {
      return createLeaseBroker({ driver, ledger: shared, clock: one.clock });
    },
    worker(tasks, { driver, ...more } = {}) {
      const worker = createWorker({
        broker: made.broker(driver),
        tasks,
        signals: false,
        logger: { warn: () => undefined },
        ...more,
      });
      const running = worker.run();
      endings.push(async () => {
        await worker.stop();
        await running;
      });
      return worker;
    },
    state: async (taskId) => (await ledger.get(taskId, never())).record?.state,
  };
  return made;
}

const task = (type: string, run: AnyTask['run'], options: object = {}): AnyTask =>
  defineTask({ type, lease: '30s', run, ...options });
const sleeps = (ms: number): Promise<void> => new Promise((resolve) => void one.clock.timer(ms, resolve));
const holds = (check: () => boolean | Promise<boolean>, withinMs = 120_000) =>
  expect(one.time.until(check, withinMs)).resolves.toBe(true);

async function enqueue(
  broker: LeaseBroker,
  type: string,
  taskIds: readonly string[],
  groupOf?: (id: string) => string,
) {
  const tasks = taskIds.map((taskId) => ({ type, input: {}, taskId, ...(groupOf && { groupId: groupOf(taskId) }) }));
  for (const outcome of await settled(broker.enqueue(tasks))) expect(outcome).toMatchObject({ ok: true });
}

const LEASE_MS = 6_000;
const acquireOne = async (broker: LeaseBroker, owner: string) => {
  const policy = { timing: leaseTiming(LEASE_MS), attempts: 10, retentionMs: 86_400_000 };
  const [got] = await settled(broker.acquire({ owner, policy: () => policy, max: 1, leaseMs: LEASE_MS, waitMs: 0 }));
  if (got?.kind !== 'lease') throw new Error(`${owner} got ${got?.kind ?? 'nothing'}`);
  return got;
};
const receiptOf = (taskId: string) => ({
  receipt: {
    taskId,
    stage: 'settled',
    externalSystem: 'none',
    externalId: '1',
    status: 'done',
    idempotencyKey: taskId,
    verifiedAt: 0,
  } as const,
});

describe('stale handles', () => {
  test('field case 6: a consumer whose message was taken over is lost, though its deletes are answered with 200', async () => {
    const { broker, state, queue } = await world();
    const [first, second] = [broker(), broker()];
    await enqueue(first, 'any', ['6']);
    const slow = await acquireOne(first, 'first');
    await one.time.advance(LEASE_MS + 1);
    const fast = await acquireOne(second, 'second');
    expect(fast.token).toBe(2);
    expect(await settled(first.settle(slow, receiptOf('6')))).toMatchObject({ lost: expect.anything() as unknown });
    const stale = queue.driver();
    expect(await stale.complete([slow.held.delivery.handle as never], never())).toEqual(['done']);
    expect(await state('6')).toBe('running');
    expect(await settled(second.settle(fast, receiptOf('6')))).toBe('settled');
    await settled(second.drain());
    await one.time.advance(LEASE_MS * 2);
    expect(await queue.driver().receive({ max: 1, leaseMs: 10_000, waitMs: 0 }, never())).toEqual([]);
  });

  test('field case 7: a FIFO queue refuses an expired handle once and for all; nothing is tried again', async () => {
    const { broker, queue } = await world({ fifo: true });
    const first = broker();
    await enqueue(first, 'any', ['7']);
    const slow = await acquireOne(first, 'first');
    await one.time.advance(LEASE_MS + 1);
    const driver = queue.driver();
    const handle = slow.held.delivery.handle as never;
    expect(await driver.extend([handle], 10_000, never())).toEqual(['gone']);
    expect(await driver.release([handle], 0, never())).toEqual(['gone']);
    const before = one.server.faults.calls('DeleteMessageBatch');
    expect(await driver.complete([handle], never())).toEqual(['gone']);
    // As core does it, with time left for as many tries as it likes.
    const again = await acquireOne(broker(), 'second');
    one.server.faults.on('DeleteMessageBatch', kinds.pretend('gone'));
    const session = broker();
    expect(await settled(session.settle(again, receiptOf('7')))).toBe('settled');
    await settled(session.drain());
    expect(one.server.faults.calls('DeleteMessageBatch') - before).toBe(2);
  });

  test('field case 7: an extend that is answered OK and does nothing lets the message come back, and the task still runs once', async () => {
    const { worker, broker, state } = await world();
    let runs = 0;
    const long = task('long', async () => {
      runs++;
      await sleeps(100_000);
      return 'done';
    });
    await enqueue(broker(), 'long', ['7']);
    const pretended = one.server.faults.on('ChangeMessageVisibilityBatch', kinds.pretend('done'), { times: Infinity });
    const workers = [worker([long]), worker([long])];
    await holds(async () => (await state('7')) === 'settled', 300_000);
    expect(pretended.hits).toBeGreaterThan(2);
    expect(runs).toBe(1);
    pretended.cancel();
    await holds(() => workers.reduce((sum, { stats }) => sum + stats.replayed, 0) >= 1, 300_000);
    expect(runs).toBe(1);
  });
});

describe('lost answers', () => {
  test('field case 13: with the answers of a send, a receive and a delete lost, the handler runs once and the queue ends empty', async () => {
    const { worker, broker, queue, state } = await world();
    let runs = 0;
    const lost = ['SendMessageBatch', 'ReceiveMessage', 'DeleteMessageBatch'].map((operation) =>
      one.server.faults.on(operation, kinds.dropAnswer(), {
        when: ({ json }) => operation !== 'ReceiveMessage' || String(json['QueueUrl']) === queue.url,
      }),
    );
    await enqueue(broker(), 'any', ['13']);
    worker([task('any', () => ++runs)]);
    await holds(async () => (await state('13')) === 'settled');
    await one.time.advance(120_000);
    expect(lost.map(({ hits }) => hits)).toEqual([1, 1, 1]);
    expect(runs).toBe(1);
    expect(await queue.driver().depth()).toMatchObject({ visible: 0, inFlight: 0 });
  });
});

describe('payloads', () => {
  test('field case 36: of [valid, "{", "", valid] two are handled, and two dead-lettered each with its reason', async () => {
    const { worker, broker, queue, state } = await world({ deadLetter: true });
    const driver = queue.driver();
    await enqueue(broker(driver), 'any', ['first']);
    const raw = ['{', ''].map((body) => ({ body: new TextEncoder().encode(body), attributes: {} }));
    await driver.send(raw, never());
    await enqueue(broker(driver), 'any', ['last']);
    let runs = 0;
    worker([task('any', () => ++runs)]);
    await holds(async () => (await queue.letters()).length === 2 && (await state('last')) === 'settled');
    expect(await state('first')).toBe('settled');
    expect(runs).toBe(2);
    const letters = await queue.letters();
    expect(letters.map(({ body }) => new TextDecoder().decode(body)).sort()).toEqual(['', '{']);
    for (const { attributes } of letters) {
      expect(attributes['leaseholdreason']).toBe('undecodable');
      expect(attributes['leaseholddescription']).toMatch(/body/);
    }
  });
});

describe('FIFO and the receive count', () => {
  test('field case 44: while the owner of A1 is lost A2 is not started and B1 is done; then A1, then A2', async () => {
    const { worker, broker } = await world({ fifo: true });
    const lost = broker();
    await enqueue(lost, 'any', ['A1', 'A2', 'B1'], (id) => id.charAt(0));
    const a1 = await acquireOne(lost, 'lost');
    expect(a1.taskId).toBe('A1');
    const events: string[] = [];
    const any = task('any', async (_input, ctx) => {
      events.push(`${ctx.taskId} starts`);
      await sleeps(1_000);
      events.push(`${ctx.taskId} ends`);
    });
    worker([any], { concurrency: 10 });
    await holds(() => events.length === 2, LEASE_MS - 1_000);
    expect(events).toEqual(['B1 starts', 'B1 ends']);
    await holds(() => events.length === 6);
    expect(events.slice(2)).toEqual(['A1 starts', 'A1 ends', 'A2 starts', 'A2 ends']);
  });

  test('field case 44: with maxReceiveCount 1 and a stop, work in flight finishes inside the drain window', async () => {
    const { worker, broker, queue, state } = await world({ maxReceiveCount: 1 });
    const slow = task('slow', async () => {
      await sleeps(20_000);
      return 'done';
    });
    await enqueue(broker(), 'slow', ['1', '2', '3']);
    const stopping = worker([slow]);
    await holds(() => stopping.stats.running === 3);
    expect(await settled(stopping.stop())).toEqual({ outcome: 'drained', leaked: 0 });
    for (const taskId of ['1', '2', '3']) expect(await state(taskId)).toBe('settled');
    expect(await queue.letters()).toEqual([]);
    expect(await queue.driver().depth()).toMatchObject({ visible: 0, inFlight: 0, deadLetters: 0 });
  });
});

describe('a dead letter that is half done', () => {
  test('sent but not deleted: the record says so, nobody runs the task again, and the message is gone in the end', async () => {
    const { broker, worker, queue, ledger } = await world({ deadLetter: true });
    const first = broker();
    await enqueue(first, 'any', ['bad']);
    const lease = await acquireOne(first, 'first');
    const undone = one.server.faults.on('DeleteMessageBatch', kinds.failEntries('InternalError'), { times: Infinity });
    const why = { errorClass: 'permanent', code: 'x', message: 'no' };
    expect(await settled(first.deadLetter(lease, why))).toBe('done');
    const sent = async (): Promise<boolean | undefined> => (await ledger.get('bad', never())).record?.deadLetterSent;
    await holds(async () => (await queue.letters()).length > 0);
    await holds(() => undone.hits > 0);
    expect(await sent()).toBe(false);
    await one.time.advance(LEASE_MS);
    undone.cancel();
    let runs = 0;
    worker([task('any', () => void runs++)]);
    await holds(async () => (await sent()) === true);
    expect(runs).toBe(0);
    expect(await queue.driver().depth()).toMatchObject({ visible: 0, inFlight: 0 });
    const letters = await queue.letters();
    expect(letters.length).toBeGreaterThan(0);
    for (const { attributes } of letters) {
      expect(attributes).toMatchObject({
        leaseholdtaskid: 'bad',
        leaseholdtoken: '1',
        leaseholdreason: 'permanent',
        leaseholdmessageid: lease.held.delivery.messageId,
      });
    }
  });
});

describe('a stop and the last delivery', () => {
  test('field case 44: what a poll brings after the stop, on the last delivery it has, is worked on and not given up', async () => {
    const { worker, broker, queue, state } = await world({ maxReceiveCount: 1 });
    const stopping = worker([task('any', () => 'done')]);
    await holds(() => one.server.waiting > 0);
    const stop = stopping.stop();
    await enqueue(broker(), 'any', ['late']);
    expect(await settled(stop)).toEqual({ outcome: 'drained', leaked: 0 });
    expect(await state('late')).toBe('settled');
    worker([task('any', () => 'again')]);
    await one.time.advance(LEASE_MS * 2);
    expect(await queue.letters()).toEqual([]);
  });
});

describe('credentials, throttling, hanging', () => {
  test('field case 46: credentials that run out are asked for again', async () => {
    const { queue } = await world();
    let asked = 0;
    const credentials = async () => {
      asked++;
      return { accessKeyId: 'a', secretAccessKey: 'b', expiration: new Date(Date.now() + 1_000) };
    };
    const driver = queue.driver({ credentials });
    await driver.open(never());
    const before = asked;
    await realSleep(5);
    await driver.receive({ max: 1, leaseMs: 10_000, waitMs: 0 }, never());
    expect(asked).toBeGreaterThan(before);
  });

  test('field case 46: while every extend is refused for expired credentials, the ledger decides: the task runs once and settles', async () => {
    const { worker, broker, state } = await world();
    let runs = 0;
    const long = task('long', async () => {
      runs++;
      await sleeps(70_000);
    });
    await enqueue(broker(), 'long', ['46']);
    const expired = one.server.faults.on('ChangeMessageVisibilityBatch', kinds.failBefore('expired'), { times: 4 });
    const workers = [worker([long]), worker([long])];
    await holds(async () => (await state('46')) === 'settled', 200_000);
    expect(expired.hits).toBeGreaterThan(1);
    expect(runs).toBe(1);
    expect(workers.reduce((sum, { stats }) => sum + stats.outcomes.lost, 0)).toBe(0);
  });

  test('field case 46: an extend that is throttled twice succeeds within the lease, and the message does not come back', async () => {
    const { worker, broker, state } = await world();
    const long = task('long', () => sleeps(50_000));
    await enqueue(broker(), 'long', ['46']);
    const throttled = one.server.faults.on('ChangeMessageVisibilityBatch', kinds.failBefore('throttled'), { times: 2 });
    const [first, second] = [worker([long]), worker([long])];
    await holds(async () => (await state('46')) === 'settled', 200_000);
    expect(throttled.hits).toBe(2);
    for (const { stats } of [first, second]) expect(stats.parked + stats.replayed).toBe(0);
  });

  test('field case 46: a receive that hangs is cut, the worker turns unhealthy, and then goes on', async () => {
    const { worker, broker, state, queue } = await world();
    const hung = one.server.faults.on('ReceiveMessage', kinds.hang());
    const stuck = worker([task('any', () => 'done')], { poll: '10s', driver: queue.unwatched() });
    await holds(() => hung.hits === 1);
    expect(stuck.health().ready).toBe(true);
    await holds(() => !stuck.health().ready, 20_000);
    await enqueue(broker(), 'any', ['46']);
    await holds(async () => (await state('46')) === 'settled');
    await holds(() => stuck.health().ready);
  });
});

describe('the total of 12 hours', () => {
  const HOUR = 3_600_000;
  const extensions = (): number => one.server.faults.calls('ChangeMessageVisibilityBatch');
  /** Nothing is under way: time need not go in small steps. */
  const jump = async (ms: number): Promise<void> => {
    await one.clock.advance(ms);
    await one.time.calm();
  };

  test('a lease is asked for up to the total and never beyond; then the message comes back', async () => {
    const { broker, queue } = await world();
    const driver = queue.driver();
    const owner = broker(driver);
    await enqueue(owner, 'any', ['12h']);
    const [held] = await settled(owner.receive({ max: 1, leaseMs: HOUR, waitMs: 0 }));
    const asked: unknown[] = [];
    for (let passed = 0; passed < 11.9 * HOUR; passed += 0.7 * HOUR) {
      const outcome = await settled(
        owner.extend({ kind: 'busy', taskId: '12h', waitMs: 0, held: held as never }, HOUR),
      );
      expect(outcome).toBe('done');
      const entries = one.server.faults.log.at(-1)?.request.json['Entries'] as
        | { VisibilityTimeout: number }[]
        | undefined;
      asked.push(entries?.[0]?.VisibilityTimeout);
      await jump(0.7 * HOUR);
    }
    // The last ones: what was left.
    expect(asked.at(0)).toBe(3_600);
    expect(asked.at(-1)).toBeLessThan(0.9 * 3_600);
    expect(await driver.receive({ max: 1, leaseMs: 10_000, waitMs: 0 }, never())).toEqual([]);
    await jump(0.2 * HOUR);
    const calls = extensions();
    expect(await settled(owner.extend({ kind: 'busy', taskId: '12h', waitMs: 0, held: held as never }, HOUR))).toEqual({
      failed: 'invalid',
    });
    expect(extensions()).toBe(calls);
    expect(await driver.receive({ max: 1, leaseMs: 10_000, waitMs: 0 }, never())).toHaveLength(1);
  });

  test('it counts from the receive that brought the message: one that has waited for days is held as long as any', async () => {
    const { queue } = await world();
    const driver = queue.driver();
    await driver.send([{ body: new TextEncoder().encode('x'), attributes: {} }], never());
    for (let days = 0; days < 3; days++) {
      const [held] = await driver.receive({ max: 1, leaseMs: HOUR, waitMs: 0 }, never());
      expect(held?.ageMs).toBeUndefined();
      expect(await driver.release([held?.handle as never], 11 * HOUR, never())).toEqual(['done']);
      await jump(11 * HOUR);
    }
    const [held] = await driver.receive({ max: 1, leaseMs: HOUR, waitMs: 0 }, never());
    expect(await driver.extend([held?.handle as never], 11.9 * HOUR, never())).toEqual(['done']);
    expect(await driver.extend([held?.handle as never], 12 * HOUR + 1_000, never())).toEqual([{ failed: 'invalid' }]);
  });

  test('a release whose delay would go beyond it comes back early instead of being refused', async () => {
    const { queue } = await world();
    const driver = queue.driver();
    await driver.send([{ body: new TextEncoder().encode('x'), attributes: {} }], never());
    const [held] = await driver.receive({ max: 1, leaseMs: 11 * HOUR, waitMs: 0 }, never());
    await jump(10 * HOUR);
    expect(await driver.release([held?.handle as never], 5 * HOUR, never())).toEqual(['done']);
    await jump(1.9 * HOUR);
    expect(await driver.receive({ max: 1, leaseMs: 10_000, waitMs: 0 }, never())).toEqual([]);
    await jump(0.1 * HOUR);
    expect(await driver.receive({ max: 1, leaseMs: 10_000, waitMs: 0 }, never())).toHaveLength(1);
  });
});
