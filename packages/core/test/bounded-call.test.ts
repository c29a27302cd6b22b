import { expect, onTestFinished, test } from 'vitest';
import { boundedCall } from '../src/bounded-call.ts';
import { subscribe, type LeaseholdEvent } from '../src/channel.ts';
import { sleep, virtualClock } from '../src/clock.ts';
import { LeaseholdError } from '../src/errors.ts';
import { ledgerSession } from '../src/ledger-session.ts';
import { memoryLedger } from '../src/memory/index.ts';
import { finish } from './lease-bench.ts';

function recorded(): readonly LeaseholdEvent[] {
  const events: LeaseholdEvent[] = [];
  onTestFinished(subscribe((event) => events.push(event)));
  return events;
}
const failed = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);

test('an answer in time leaves no timer', async () => {
  const clock = virtualClock();
  expect(await boundedCall(clock, 'db: get', 100, async () => 7)).toBe(7);
  expect(clock.pending).toBe(0);
});

test('a call that throws instead of rejecting is a rejection, and leaves no timer', async () => {
  const clock = virtualClock();
  const call = (): Promise<never> => {
    throw new TypeError('no such method');
  };
  expect(await failed(boundedCall(clock, 'db: get', 100, call))).toBeInstanceOf(TypeError);
  expect(clock.pending).toBe(0);
});

test('without an answer in time the signal aborts and the call is over; what comes later is handed over and announced, never unhandled', async () => {
  const clock = virtualClock();
  const events = recorded();
  const late: number[] = [];
  let aborted: unknown;
  const deaf = async (signal: AbortSignal, ending: () => number): Promise<number> => {
    signal.addEventListener('abort', () => void (aborted = signal.reason as unknown));
    await sleep(clock, 500);
    return ending();
  };
  const answered = failed(
    boundedCall(clock, 'db: get', 100, (signal) => deaf(signal, () => 7), { onLate: (result) => late.push(result) }),
  );
  const rejected = failed(
    boundedCall(clock, 'db: put', 100, (signal) =>
      deaf(signal, () => {
        throw new Error('down');
      }),
    ),
  );
  const start = clock.monotonic();
  expect(await finish(clock, answered)).toMatchObject({
    code: 'timeout',
    message: 'db: get was not answered within 100 ms; whether it was applied is not known.',
  });
  expect(await finish(clock, rejected)).toMatchObject({ code: 'timeout' });
  expect([clock.monotonic() - start, aborted]).toEqual([100, expect.any(LeaseholdError) as LeaseholdError]);
  await clock.advance(1_000);
  expect(late).toEqual([7]);
  expect(events.map(({ name, cause, reason }) => [name, cause, reason])).toEqual([
    ['late_answer', 'db: get', 'answer'],
    ['late_answer', 'db: put', 'error'],
  ]);
});

test("the caller's signal is passed on and left alone afterwards; the driver may still bring what it took", async () => {
  const clock = virtualClock();
  const outer = new AbortController();
  const calling = boundedCall(
    clock,
    'queue: receive',
    100,
    async (signal) => (await sleep(clock, 50), signal.aborted),
    { outer: outer.signal },
  );
  outer.abort(new Error('stop'));
  expect(await finish(clock, calling)).toBe(true);
  const again = boundedCall(clock, 'queue: receive', 100, async (signal) => signal.reason as unknown, {
    outer: outer.signal,
  });
  expect(await again).toMatchObject({ message: 'stop' });
});

test('a session opens its driver once, before the first call, and again after an opening that failed', async () => {
  const clock = virtualClock();
  const order: string[] = [];
  const memory = memoryLedger({ clock });
  let fails = true;
  const driver = {
    ...memory,
    async open() {
      order.push('open');
      if (fails) throw new Error('no network');
    },
    async get(...args: Parameters<typeof memory.get>) {
      order.push('get');
      return memory.get(...args);
    },
  };
  const session = ledgerSession(driver, clock);
  expect(await session.get('t', 1_000)).toMatchObject({ unanswered: 'unknown' });
  fails = false;
  await Promise.all([session.get('t', 1_000), session.get('t', 1_000)]);
  expect(order).toEqual(['open', 'open', 'get', 'get']);
});

test('the time of the store is read when it is not known, and carried forward from then on', async () => {
  const clock = virtualClock();
  const memory = memoryLedger({ clock });
  let reads = 0;
  const session = ledgerSession({ ...memory, get: (...args) => (reads++, memory.get(...args)) }, clock);
  for (let call = 0; call < 5; call++) await session.time('t', 1_000);
  expect(reads).toBe(1);
  clock.stepWall(3_600_000);
  await session.time('t', 1_000);
  await session.time('t', 1_000);
  expect(reads).toBe(2);
});

test('after a silence the time of the store is read anew: carried through a night it would be off by minutes', async () => {
  const clock = virtualClock();
  const memory = memoryLedger({ clock });
  let reads = 0;
  const session = ledgerSession({ ...memory, get: (...args) => (reads++, memory.get(...args)) }, clock);
  const width = async (): Promise<number> => {
    const now = await session.time('t', 1_000);
    if ('unanswered' in now) throw new Error('no answer');
    expect(now.earliest).toBeLessThanOrEqual(clock.wall());
    expect(now.latest).toBeGreaterThanOrEqual(clock.wall());
    return now.latest - now.earliest;
  };
  await width();
  for (const silentMs of [1_000, 60_000, 600_000, 86_400_000]) {
    await clock.advance(silentMs);
    expect(await width(), `after ${silentMs} ms`).toBeLessThan(1_100);
  }
  expect(reads).toBe(3);
});
