import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { brokerSession, messageBytes, splitMessages, type HeldDelivery } from '../src/broker-session.ts';
import { virtualClock } from '../src/clock.ts';
import type { BrokerDriver, OutgoingMessage } from '../src/driver.ts';
import { memoryBroker, type MemoryBrokerOptions } from '../src/memory/index.ts';
import { delayAnswer, delayCall, failBefore, faultPlan, faultyBroker, hang, hangDeaf } from '../src/testing/index.ts';
import { finish } from './lease-bench.ts';

function sessionBench(options: MemoryBrokerOptions = {}, wrap = (driver: BrokerDriver): BrokerDriver => driver) {
  const clock = virtualClock();
  const memory = memoryBroker({ clock, ...options });
  const calls = faultPlan<BrokerDriver>();
  const session = brokerSession(faultyBroker(wrap(memory), calls, clock), clock);
  const message = { body: new Uint8Array([1]), attributes: {} };
  const hold = async (count: number, leaseMs = 30_000): Promise<readonly HeldDelivery[]> => {
    await finish(clock, session.send(Array.from({ length: count }, () => message)));
    return finish(clock, session.receive({ max: count, leaseMs, waitMs: 0 }));
  };
  return { clock, queue: memory.queue, calls, session, hold, message };
}

test('case 38: messages are split by count and by bytes, in order, and one alone may be larger than a batch', () => {
  const message = fc.record({
    body: fc.uint8Array({ maxLength: 40 }),
    attributes: fc.dictionary(fc.string({ maxLength: 4 }), fc.string({ maxLength: 6, unit: 'grapheme' }), {
      maxKeys: 3,
    }),
  });
  const limits = fc.record({
    send: fc.integer({ min: 1, max: 5 }),
    bytes: fc.option(fc.integer({ min: 1, max: 120 }), { nil: undefined }),
  });
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 20 }),
      limits,
      (messages: readonly OutgoingMessage[], { send, bytes }) => {
        const capabilities = {
          maxBatch: { send, receive: 1, handles: 1 },
          ...(bytes !== undefined && { maxBatchBytes: bytes }),
        };
        const groups = splitMessages(messages, capabilities);
        expect(groups.flat()).toEqual(messages);
        const sizes = groups.map((group) => group.reduce((sum, one) => sum + messageBytes(one), 0));
        groups.forEach((group, index) => {
          const [first] = group;
          expect(group.length).toBeGreaterThan(0);
          expect(group.length).toBeLessThanOrEqual(send);
          expect(group.length === 1 || (sizes[index] ?? 0) <= (bytes ?? Infinity)).toBe(true);
          // No group that the one before had room for.
          const before = groups[index - 1];
          const room =
            before &&
            before.length < send &&
            (sizes[index - 1] ?? 0) + messageBytes(first as OutgoingMessage) <= (bytes ?? Infinity);
          expect(room ?? false).toBe(false);
        });
      },
    ),
  );
  expect(messageBytes({ body: new TextEncoder().encode('中'), attributes: { é: '中' } })).toBe(3 + 2 + 3);
});

test('case 21: an entry that the answer says nothing about is unconfirmed, and tried again', async () => {
  let short = true;
  const { clock, session, hold, calls } = sessionBench({}, (driver) => ({
    ...driver,
    capabilities: driver.capabilities,
    async complete(handles, signal) {
      const outcomes = await driver.complete(handles, signal);
      const told = short ? outcomes.slice(0, 1) : outcomes;
      short = false;
      return told;
    },
  }));
  const held = await hold(3);
  expect(await finish(clock, Promise.all(held.map((one) => session.complete(one))))).toEqual(['done', 'gone', 'gone']);
  expect(calls.callsOf('complete').map(({ args }) => (args[0] as unknown[]).length)).toEqual([3, 2]);
});

describe('retries', () => {
  test('are for what may pass, and end with the lease', async () => {
    const { clock, session, hold, calls } = sessionBench();
    const [held] = (await hold(1, 800)) as [HeldDelivery];
    calls.on('complete', failBefore('throttled'), { times: 99 });
    const began = clock.monotonic();
    expect(await finish(clock, session.complete(held))).toEqual({ failed: 'throttled' });
    expect(clock.monotonic() - began).toBeLessThan(800);
    expect(calls.callsOf('complete').length).toBeGreaterThan(1);
  });

  test.each(['denied', 'invalid', 'not-found'] as const)('are none for %s', async (code) => {
    const { clock, session, hold, calls } = sessionBench();
    const [held] = (await hold(1)) as [HeldDelivery];
    calls.on('release', failBefore(code), { times: 99 });
    expect(await finish(clock, session.release(held, 0))).toEqual({ failed: code });
    expect(calls.callsOf('release').length).toBe(1);
  });

  test('case 46: throttled twice, then let through: the lease is kept', async () => {
    const { clock, session, hold, calls, queue } = sessionBench();
    const [held] = (await hold(1, 10_000)) as [HeldDelivery];
    calls.on('extend', failBefore('throttled'), { times: 2 });
    expect(await finish(clock, session.extend(held, 10_000))).toBe('done');
    await clock.advance(9_000);
    expect(queue.inFlight.length).toBe(1);
  });
});

describe('a receive', () => {
  test('case 46: that hangs is cut five seconds after its wait, however deaf the driver is', async () => {
    const { clock, session, calls } = sessionBench();
    calls.on('receive', hangDeaf());
    const began = clock.monotonic();
    await expect(finish(clock, session.receive({ max: 1, leaseMs: 90_000, waitMs: 20_000 }))).rejects.toMatchObject({
      code: 'timeout',
    });
    expect(clock.monotonic() - began).toBe(25_000);
    expect(clock.pending).toBe(0);
  });

  test('that brings something after it was given up gives that back at once', async () => {
    const { clock, session, calls, message, queue } = sessionBench();
    await finish(clock, session.send([message]));
    calls.on('receive', delayDeaf(9_000));
    await expect(finish(clock, session.receive({ max: 1, leaseMs: 90_000, waitMs: 1_000 }))).rejects.toMatchObject({
      code: 'timeout',
    });
    expect(queue.inFlight.length).toBe(1);
    await clock.advance(5_000);
    await finish(clock, session.drain());
    expect([queue.inFlight.length, queue.messages.length]).toEqual([0, 1]);
  });

  test('that is called off takes nothing, or hands over what it took', async () => {
    const { clock, session, message, queue } = sessionBench();
    const stop = new AbortController();
    const polling = session.receive({ max: 1, leaseMs: 90_000, waitMs: 20_000 }, stop.signal);
    await clock.advance(1_000);
    stop.abort(new Error('stop'));
    await expect(finish(clock, polling)).rejects.toThrow('stop');
    await finish(clock, session.send([message]));
    expect([queue.inFlight.length, clock.pending]).toEqual([0, 0]);
  });

  test('asks for no more than the broker takes, and no longer a lease than it grants', async () => {
    const { clock, session, calls } = sessionBench({ leaseMs: { min: 10_000, max: 600_000, step: 10_000 } });
    await finish(clock, session.receive({ max: 500, leaseMs: 12_345, waitMs: 0 }));
    await finish(clock, session.receive({ max: 1, leaseMs: 9_999_999, waitMs: 0 }));
    expect(calls.callsOf('receive').map(({ args }) => args[0])).toEqual([
      { max: 10, leaseMs: 20_000, waitMs: 0 },
      { max: 1, leaseMs: 600_000, waitMs: 0 },
    ]);
  });
});

test('no extension goes beyond the total cap, by rounding neither; past it none is asked for', async () => {
  const { clock, session, hold, calls } = sessionBench({
    leaseMs: { min: 1_000, max: 60_000, step: 1_000 },
    totalLeaseMs: 100_000,
  });
  const [held] = (await hold(1, 60_000)) as [HeldDelivery];
  await clock.advance(40_400);
  expect(await finish(clock, session.extend(held, 59_500))).toBe('done');
  await clock.advance(50_000);
  expect(await finish(clock, session.extend(held, 59_500))).toBe('done');
  await clock.advance(9_000);
  expect(await finish(clock, session.extend(held, 59_500))).toEqual({ failed: 'invalid' });
  expect(calls.callsOf('extend').map(({ args }) => args[1])).toEqual([59_000, 9_000]);
});

test('extensions of one length share a call; a delivery whose extension was confirmed is held from before it left', async () => {
  const { clock, session, hold, calls } = sessionBench();
  const held = await hold(7);
  await clock.advance(10_000);
  calls.on('extend', delayAnswer(500));
  const sentAt = clock.monotonic();
  await finish(clock, Promise.all(held.map((one) => session.extend(one, 30_000))));
  expect(calls.callsOf('extend').length).toBe(1);
  expect(new Set(held.map(({ heldUntil }) => heldUntil))).toEqual(new Set([sentAt + 30_000]));
});

test('case 26: after a close nothing reaches the driver any more, of whatever kind', async () => {
  const { clock, session, hold, calls } = sessionBench();
  const [one, two, three, four] = (await hold(4)) as [HeldDelivery, HeldDelivery, HeldDelivery, HeldDelivery];
  await finish(clock, session.close());
  const before = calls.calls.length;
  const outcomes = await finish(
    clock,
    Promise.all([
      session.complete(one),
      session.release(two, 5_000),
      session.reject(three, { reason: 'r', description: '', attributes: {} }),
      session.extend(four, 30_000),
    ]),
  );
  for (const outcome of outcomes) expect(outcome).toHaveProperty('failed');
  expect(calls.calls.length).toBe(before);
});

test('a call that never ends is unconfirmed after ten seconds, and leaves no timer', async () => {
  const { clock, session, hold, calls } = sessionBench();
  const [held] = (await hold(1, 12_000)) as [HeldDelivery];
  calls.on('complete', hang(), { times: 99 });
  expect(await finish(clock, session.complete(held))).toEqual({ failed: 'unknown' });
  expect(clock.pending).toBe(0);
});

/** The answer takes `ms`, and the driver does not listen to its signal. */
function delayDeaf(ms: number): ReturnType<typeof delayAnswer> {
  return async (call) => {
    const answer = await call.apply();
    await new Promise<void>((resolve) => call.clock.timer(ms, resolve));
    return answer;
  };
}

test('opening is repeated where that may help, so that what is sent first is not lost to a refusal that passes', async () => {
  for (const [code, times, opened] of [
    ['throttled', 2, 3],
    ['unavailable', 2, 3],
    ['unavailable', Infinity, 5],
    ['denied', Infinity, 1],
  ] as const) {
    let opens = 0;
    const failing = (driver: BrokerDriver): BrokerDriver => ({
      ...driver,
      classify: () => code,
      open: () => (++opens <= times ? Promise.reject(new Error('not now')) : Promise.resolve()),
    });
    const { clock, session } = sessionBench({}, failing);
    const opening = session.open().then(
      () => 'open',
      () => 'failed',
    );
    expect(await finish(clock, opening)).toBe(times === 2 ? 'open' : 'failed');
    expect(opens).toBe(opened);
  }
});

describe('with ordering', () => {
  const ordered = {
    ordering: true,
    maxBatch: { send: 2, receive: 10, handles: 10 },
  } as const satisfies MemoryBrokerOptions;
  const named = (text: string): OutgoingMessage => ({
    body: new TextEncoder().encode(text),
    attributes: {},
    ...(text.startsWith('-') ? {} : { groupId: text.charAt(0) }),
  });
  const texts = (queue: { readonly messages: readonly { readonly body: Uint8Array }[] }): readonly string[] =>
    queue.messages.map(({ body }) => new TextDecoder().decode(body));

  test('messages of a group arrive in the order they were sent in, however slow the first call is', async () => {
    const { clock, queue, calls, session } = sessionBench(ordered);
    calls.on('send', delayCall(3_000));
    const all = ['A1', 'A2', 'A3', 'B1', 'A4'];
    await finish(clock, session.send(all.map(named)));
    expect(texts(queue)).toEqual(all);
  });

  test('one message that is sent twice is answered twice', async () => {
    const { clock, queue, session } = sessionBench(ordered);
    const twice = named('A');
    const outcomes = await finish(clock, session.send([twice, twice]));
    expect(new Set(outcomes.map((outcome) => 'messageId' in outcome && outcome.messageId)).size).toBe(2);
    expect(texts(queue)).toEqual(['A', 'A']);
  });

  test('what follows a message of its group that failed is not sent, and everything else is', async () => {
    const { clock, queue, calls, session } = sessionBench(ordered);
    calls.on('send', failBefore('denied'), { when: ([first]) => first?.groupId === 'A' });
    const outcomes = await finish(clock, session.send(['A1', 'A2', 'B1', 'A3', 'A4', '-', 'B2'].map(named)));
    expect(outcomes.map((outcome) => ('failed' in outcome ? outcome.failed : 'sent'))).toEqual([
      ...['denied', 'denied', 'sent', 'denied', 'denied', 'sent', 'sent'],
    ]);
    expect(texts(queue)).toEqual(['B1', '-', 'B2']);
    const sizes = calls.callsOf('send').map(({ args }) => (args[0] as readonly unknown[]).length);
    expect(Math.min(...sizes)).toBeGreaterThan(0);
  });
});
