import { expect, test } from 'vitest';
import { subscribe, type LeaseholdEvent } from '../src/channel.ts';
import { virtualClock } from '../src/clock.ts';
import { LeaseholdError } from '../src/errors.ts';
import { createLeaseBroker } from '../src/lease-broker.ts';
import { memoryBroker, memoryLedger } from '../src/memory/index.ts';
import { ledgerSession } from '../src/ledger-session.ts';
import { finish } from './lease-bench.ts';

function pair(open: (signal: AbortSignal) => Promise<void>) {
  const clock = virtualClock();
  const queue = memoryBroker({ clock });
  let receives = 0;
  const driver = {
    ...queue,
    receive: (...ask: Parameters<typeof queue.receive>) => {
      receives++;
      return queue.receive(...ask);
    },
  };
  const broker = createLeaseBroker({ driver, ledger: { ...memoryLedger({ clock }), open }, clock });
  return { clock, broker, receives: () => receives };
}

const ask = { max: 10, leaseMs: 30_000, waitMs: 0 };

test('without its ledger a worker takes no message, is told why, and begins when the ledger is there', async () => {
  let missing = true;
  const { clock, broker, receives } = pair(async () => {
    if (missing) throw new LeaseholdError('not-found', 'table t does not exist; make it.', { field: 'table' });
  });
  await finish(clock, broker.enqueue([{ type: 'a', input: 1 }]));
  for (let tries = 0; tries < 20; tries++) {
    await expect(finish(clock, broker.receive(ask))).rejects.toMatchObject({
      message: 'table t does not exist; make it.',
    });
  }
  expect(receives()).toBe(0);
  missing = false;
  const [held] = await finish(clock, broker.receive(ask));
  // Not one delivery was used up meanwhile.
  expect(held?.delivery.deliveryCount).toBe(1);
});

test('a stop does not wait for a ledger that hangs while it is opened, and leaves no listener', async () => {
  const { clock, broker, receives } = pair(() => new Promise(() => undefined));
  const stopping = new AbortController();
  const receiving = broker.receive({ ...ask, signal: stopping.signal }).catch((error: unknown) => error);
  await clock.advance(10);
  stopping.abort(new Error('stopping'));
  const before = clock.monotonic();
  expect(await finish(clock, receiving)).toMatchObject({ message: 'stopping' });
  expect(clock.monotonic()).toBe(before);
  expect(receives()).toBe(0);
});

test('who waits for an opening that others gave up gets its outcome, and a failed one is asked for again', async () => {
  let opens = 0;
  const { clock, broker } = pair(
    () =>
      new Promise((resolve, reject) => {
        opens++;
        clock.timer(1_000, () => (opens === 1 ? reject(new Error('not yet')) : resolve()));
      }),
  );
  const stopping = new AbortController();
  const impatient = broker.receive({ ...ask, signal: stopping.signal }).catch((error: unknown) => error);
  const patient = [broker.receive(ask), broker.receive(ask)].map((work) => work.catch((error: unknown) => error));
  await clock.advance(10);
  stopping.abort(new Error('stopping'));
  expect(await finish(clock, impatient)).toMatchObject({ message: 'stopping' });
  expect(await finish(clock, Promise.all(patient))).toMatchObject([
    { cause: { message: 'not yet' } },
    { cause: { message: 'not yet' } },
  ]);
  expect(opens).toBe(1);
  expect(await finish(clock, Promise.all([broker.receive(ask), broker.receive(ask)]))).toEqual([[], []]);
  expect(opens).toBe(2);
});

test('a ledger that cannot be opened is told from the broker, by what happened to it and not by what its server said', async () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED of a secret place'), { code: 'ECONNREFUSED' });
  const denied = Object.assign(new Error('user secret may not'), { name: 'ExpiredTokenException' });
  for (const [error, label] of [
    [refused, 'ECONNREFUSED'],
    [denied, 'ExpiredTokenException'],
    [new AggregateError([refused], 'secret'), 'AggregateError'],
    [Object.assign(new Error('secret'), { code: 'some secret text' }), 'Error'],
  ] as const) {
    const { clock, broker } = pair(() => Promise.reject(error));
    await expect(finish(clock, broker.receive(ask))).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining(`the ledger memory cannot be opened (${label}).`) as string,
      cause: error,
    });
  }
});

test('a call of the ledger that failed is announced, by what happened to it and not by what its server said', async () => {
  const clock = virtualClock();
  const memory = memoryLedger({ clock });
  const gone = Object.assign(new Error('secret'), { code: 'ECONNRESET' });
  const session = ledgerSession(
    {
      ...memory,
      classify: () => 'unavailable',
      get: () => Promise.reject(gone),
      put: () => new Promise(() => undefined),
    },
    clock,
  );
  const events: LeaseholdEvent[] = [];
  const unsubscribe = subscribe((event) => void events.push(event));
  await session.get('t', 1_000);
  await finish(clock, session.put({} as never, undefined, { version: 0 }, 1_000));
  unsubscribe();
  expect(events).toMatchObject([
    { name: 'ledger_call_failed', cause: 'memory: get', errorCode: 'unavailable', reason: 'ECONNRESET' },
    { name: 'ledger_call_failed', cause: 'memory: put', errorCode: 'timeout' },
  ]);
  expect(JSON.stringify(events)).not.toContain('secret');
});
