import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { virtualClock, type BrokerDriver, type Delivery, type OutgoingMessage } from '@leasehold/core';
import { memoryBroker, memoryQueue, type MemoryBrokerOptions } from '@leasehold/core/memory';

const never = new AbortController().signal;
const message = (text: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  body: new TextEncoder().encode(text),
  attributes: {},
  ...more,
});
const textOf = ({ body }: { readonly body: Uint8Array }): string => new TextDecoder().decode(body);
const take = async (broker: BrokerDriver<string>, max = 1, leaseMs = 10_000): Promise<readonly Delivery<string>[]> =>
  broker.receive({ max, leaseMs, waitMs: 0 }, never);

function world(options: MemoryBrokerOptions = {}) {
  const clock = virtualClock();
  const queue = memoryQueue();
  const open = () => memoryBroker({ ...options, queue, clock });
  return { clock, queue, open, broker: open() };
}

describe('time', () => {
  test('stepping the wall clock changes no lease, forwards or back', async () => {
    const { clock, broker } = world();
    await broker.send([message('a')], never);
    await take(broker);
    clock.stepWall(3_600_000);
    expect(await take(broker)).toEqual([]);
    clock.stepWall(-7_200_000);
    await clock.advance(9_999);
    expect(await take(broker)).toEqual([]);
    await clock.advance(1);
    expect(await take(broker)).toHaveLength(1);
  });

  test('one queue has one time, that of its first driver, whatever clock the others bring', async () => {
    const { clock, queue, broker } = world();
    const other = memoryBroker({ queue, clock: virtualClock() });
    await broker.send([message('a')], never);
    await take(other);
    await clock.advance(10_000);
    expect(await take(other)).toHaveLength(1);
  });

  test('a lease that ended while the event loop was blocked is over at once, without its timer', async () => {
    const { clock, broker } = world();
    await broker.send([message('a')], never);
    const [held] = await take(broker);
    clock.block(10_000);
    expect(await broker.extend([held?.handle ?? ''], 10_000, never)).toEqual(['gone']);
  });
});

describe('waiting', () => {
  test('a message wakes the receive that waits longest; the others wait on', async () => {
    const { clock, open } = world();
    const ended: string[] = [];
    const waiting = ['first', 'second'].map(async (name) => {
      const got = await open().receive({ max: 1, leaseMs: 60_000, waitMs: 5_000 }, never);
      ended.push(`${name}: ${got.map(textOf).join()} at ${clock.monotonic()}`);
    });
    await clock.advance(1_000);
    await open().send([message('a')], never);
    await clock.advance(10_000);
    await Promise.all(waiting);
    expect(ended).toEqual(['first: a at 2000', 'second:  at 6000']);
  });

  test('I10: however a receive ends, no timer and no listener is left', async () => {
    const ends: Record<string, (at: ReturnType<typeof world>, stop: AbortController) => Promise<unknown>> = {
      'a message': ({ open }) => open().send([message('a')], never),
      'its time': ({ clock }) => clock.advance(20_000),
      'an abort': async (_, stop) => stop.abort(new Error('stop')),
      'a close': ({ broker }) => broker.close(),
    };
    const left: Record<string, readonly number[]> = {};
    for (const [what, end] of Object.entries(ends)) {
      const at = world();
      const stop = new AbortController();
      const count = () => [at.clock.pending, getEventListeners(stop.signal, 'abort').length];
      const waiting = at.broker.receive({ max: 1, leaseMs: 1_000, waitMs: 20_000 }, stop.signal).catch(String);
      await at.clock.advance(0);
      const before = count();
      await end(at, stop);
      await waiting;
      left[what] = [...before, ...count()];
    }
    const expected = Object.keys(ends).map((what) => [what, [1, 1, 0, 0]]);
    expect(left).toEqual(Object.fromEntries(expected));
  });

  test('an abort and a close end a waiting receive at once, with their reasons', async () => {
    const { clock, broker, open } = world();
    const stop = new AbortController();
    const ask = { max: 1, leaseMs: 1_000, waitMs: 20_000 };
    const other = open();
    const outcomes = [broker.receive(ask, stop.signal), other.receive(ask, never)].map((waiting) =>
      waiting.then(String, (error: unknown) => (error as Error).message),
    );
    stop.abort(new Error('draining'));
    await other.close();
    expect(await Promise.all(outcomes)).toEqual([
      'draining',
      'memory was closed while a receive was waiting; nothing was taken.',
    ]);
    expect(clock.monotonic()).toBe(1_000);
  });

  test('a group that is held back does not keep a waiting receive busy', async () => {
    const { clock, broker } = world({ ordering: true });
    await broker.send([message('A1', { groupId: 'A' }), message('A2', { groupId: 'A' })], never);
    const [first] = await take(broker, 1, 60_000);
    const waiting = broker.receive({ max: 1, leaseMs: 60_000, waitMs: 30_000 }, never);
    await clock.advance(1_000);
    expect(clock.pending).toBe(2);
    await broker.complete([first?.handle ?? ''], never);
    expect((await waiting).map(textOf)).toEqual(['A2']);
    expect(clock.pending).toBe(0);
  });
});

describe('handles and groups', () => {
  test('field case 6: a silent queue answers done for a stale handle and does nothing', async () => {
    const { clock, queue, broker } = world({ staleHandle: 'silent' });
    await broker.send([message('a')], never);
    const [stale] = await take(broker);
    await clock.advance(10_000);
    const [fresh] = await take(broker);
    const { handle } = stale as Delivery<string>;
    expect(await broker.extend([handle], 60_000, never)).toEqual(['done']);
    expect(await broker.release([handle], 0, never)).toEqual(['done']);
    expect(await broker.complete([handle], never)).toEqual(['done']);
    expect(await broker.reject(handle, { reason: 'r', description: 'd', attributes: {} }, never)).toBe('done');
    expect(queue.inFlight).toMatchObject([{ deliveries: 2, heldUntil: clock.wall() + 10_000 }]);
    expect(queue.deadLetters).toEqual([]);
    expect(await broker.complete([fresh?.handle ?? ''], never)).toEqual(['done']);
    expect(queue.messages).toEqual([]);
  });

  test('field case 44: with groupBatch one receive brings a group in order, and holds back the rest of it', async () => {
    const { broker, open } = world({ ordering: true, groupBatch: true });
    await broker.send(
      ['A1', 'A2', 'B1', 'A3'].map((text) => message(text, { groupId: text.charAt(0) })),
      never,
    );
    expect((await take(broker, 3)).map(textOf)).toEqual(['A1', 'A2', 'B1']);
    expect(await take(open(), 10)).toEqual([]);
  });

  test('a group whose first message waits out its delay is held back with it', async () => {
    const { clock, broker } = world({ ordering: true });
    await broker.send([message('A1', { groupId: 'A' }), message('A2', { groupId: 'A' })], never);
    const [first] = await take(broker);
    await broker.release([first?.handle ?? ''], 5_000, never);
    expect(await take(broker)).toEqual([]);
    await clock.advance(5_000);
    expect((await take(broker, 10)).map(textOf)).toEqual(['A1']);
  });

  test('nothing is shared with what a caller holds', async () => {
    const { broker, queue } = world();
    const sent = { body: Uint8Array.of(1), attributes: { a: '1' } };
    await broker.send([sent], never);
    sent.body[0] = 9;
    sent.attributes.a = '9';
    for (const seen of [...(await take(broker)), ...queue.messages]) {
      seen.body[0] = 8;
      Object.assign(seen.attributes, { a: '8' });
    }
    expect(queue.messages).toMatchObject([{ body: Uint8Array.of(1), attributes: { a: '1' } }]);
  });
});

describe('dead letters', () => {
  test('a message that lapses after its last delivery moves with its reason, a driver can read it there, and redrive brings it back', async () => {
    const { clock, queue, broker } = world({ maxDeliveries: 2 });
    await broker.send([message('poison', { attributes: { leaseholdtoken: '2' } })], never);
    for (let delivery = 0; delivery < 2; delivery++) {
      await take(broker);
      await clock.advance(10_000);
    }
    expect(queue.deadLetters).toMatchObject([{ reason: 'max-deliveries', attributes: { leaseholdtoken: '2' } }]);
    expect(queue.messages).toEqual([]);
    const reader = memoryBroker({ queue: queue.deadLetterQueue });
    expect((await take(reader, 1, 1_000)).map(textOf)).toEqual(['poison']);
    await clock.advance(1_000);
    expect(queue.redrive((letter) => letter.reason === 'other')).toBe(0);
    expect(queue.redrive()).toBe(1);
    const [again] = await take(broker);
    expect(again).toMatchObject({ deliveryCount: 1, attributes: { leaseholdtoken: '2' } });
    expect(Object.keys(again?.attributes ?? {})).toEqual(['leaseholdtoken']);
    expect(queue.deadLetters).toEqual([]);
  });

  test('a redrive wakes a receive that waits', async () => {
    const { queue, broker } = world();
    await broker.send([message('a')], never);
    const [held] = await take(broker);
    await broker.reject(held?.handle ?? '', { reason: 'r', description: 'd', attributes: {} }, never);
    const waiting = broker.receive({ max: 1, leaseMs: 1_000, waitMs: 60_000 }, never);
    queue.redrive();
    expect((await waiting).map(textOf)).toEqual(['a']);
  });

  test('without a dead-letter queue a limit of deliveries is refused, since nothing may be dropped', () => {
    expect(() => memoryBroker({ deadLetter: 'none', maxDeliveries: 3 })).toThrow(/maxDeliveries is 3/);
  });
});

test('a call that core should never make is refused as invalid', async () => {
  const { broker } = world({ maxBatchBytes: 10, leaseMs: { min: 1_000, max: 60_000, step: 1_000 } });
  const ask = { max: 1, leaseMs: 1_000, waitMs: 0 };
  const calls = [
    broker.send([], never),
    broker.send(
      Array.from({ length: 11 }, () => message('')),
      never,
    ),
    broker.send([message('12345'), message('123456')], never),
    broker.send([message('123', { attributes: { name: 'v中' } })], never),
    broker.receive({ ...ask, max: 11 }, never),
    broker.receive({ ...ask, leaseMs: 999 }, never),
    broker.receive({ ...ask, leaseMs: 1_500 }, never),
    broker.receive({ ...ask, leaseMs: Number.NaN }, never),
    broker.extend(['x'], 61_000, never),
    broker.complete(
      Array.from({ length: 11 }, () => 'x'),
      never,
    ),
  ];
  const found = await Promise.all(calls.map((call) => call.then(String, (error: unknown) => broker.classify(error))));
  expect(found).toEqual(calls.map(() => 'invalid'));
});
