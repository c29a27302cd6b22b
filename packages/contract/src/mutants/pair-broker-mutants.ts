import type { BrokerDriver, Clock } from '@leasehold/core';
import type { MemoryBrokerOptions } from '@leasehold/core/memory';
import { PAIRS, pairHarness, type PairOptions } from './memory-harness.ts';
import { declared, type PairMutant } from './pair-mutant.ts';

const [usual, silent, ordered, , delayedSends] = Object.values(PAIRS) as [
  PairOptions,
  PairOptions,
  PairOptions,
  PairOptions,
  PairOptions,
];
const never = (): AbortSignal => new AbortController().signal;

/** A pair whose broker is changed, or `really` another one than it declares. */
const broker = (
  wrong: string,
  fails: readonly string[],
  change: (driver: BrokerDriver, clock: Clock) => Partial<BrokerDriver>,
  options: PairOptions = usual,
  really: MemoryBrokerOptions = {},
): PairMutant => {
  const capabilities = declared(options);
  const around = (driver: BrokerDriver, clock: Clock) => ({
    ...driver,
    capabilities: capabilities.broker,
    ...change(driver, clock),
  });
  const make = () => pairHarness({ ...options, queue: { ...options.queue, ...really } }, { broker: around });
  return { wrong, fails, make, capabilities };
};
const done = (handles: readonly unknown[]): 'done'[] => handles.map(() => 'done');

/** Pairs whose broker has one thing wrong each, found out at the level of the protocol. */
export const pairBrokerMutants: readonly PairMutant[] = [
  broker('ignores the delay of a release', ['field case 19'], (driver) => ({
    release: (handles, _delayMs, signal) => driver.release(handles, 0, signal),
  })),
  broker(
    'ignores the delay of a send',
    ['field case 19'],
    (driver) => ({
      send: (messages, signal) =>
        driver.send(
          messages.map(({ delayMs: _, ...message }) => message),
          signal,
        ),
    }),
    delayedSends,
  ),
  broker('swallows a batch entry failure: half is done, and all is answered', ['field case 21'], (driver) => ({
    complete: async (handles, signal) => {
      await driver.complete(handles.slice(0, Math.ceil(handles.length / 2)), signal);
      return done(handles);
    },
  })),
  broker(
    'acknowledges nothing, and says it did',
    ['field case 28', 'field case 15', 'a task that was cancelled', 'a hand-off'],
    () => ({ complete: async (handles) => done(handles) }),
  ),
  broker('acknowledges later than it says, and forgets that when it is closed', ['field case 26'], (driver, clock) => {
    let closed = false;
    return {
      complete: async (handles) => {
        clock.timer(2_000, () => void (closed || driver.complete(handles, never())));
        return done(handles);
      },
      close: async () => {
        closed = true;
        await driver.close();
      },
    };
  }),
  broker(
    'loses the attributes of a dead letter, and the token of a redrive with them',
    ['a redrive by the current token'],
    (driver) => ({
      reject: (handle, why, signal) => driver.reject(handle, { ...why, attributes: {} }, signal),
    }),
  ),
  broker(
    'loses the attributes of what is sent again',
    ['where only a send keeps a delay, a released'],
    (driver) => ({
      send: (messages, signal) =>
        driver.send(
          messages.map((message) => ({ ...message, attributes: {} })),
          signal,
        ),
    }),
    delayedSends,
  ),
  broker('takes less than it says', ['field case 38'], () => ({}), usual, { maxBodyBytes: 200_000 }),
  broker('says it extended, and did not', ['field case 17'], () => ({ extend: async (handles) => done(handles) })),
  broker('rejects whole batches for one bad message', ['field case 36, I9: what cannot'], (driver) => {
    const held = new Set<unknown>();
    return {
      receive: async (ask, signal) => {
        const got = await driver.receive(ask, signal);
        for (const { handle } of got) held.add(handle);
        return got;
      },
      async reject(_handle, why, signal) {
        let outcome: Awaited<ReturnType<BrokerDriver['reject']>> = 'gone';
        for (const one of held) outcome = await driver.reject(one, why, signal);
        return outcome;
      },
    };
  }),
  broker('completes instead of rejecting', ['a dead-lettering that ended', 'field case 36, I9: what'], (driver) => ({
    reject: async (handle, _why, signal) => (await driver.complete([handle], signal))[0] ?? 'gone',
  })),
  broker(
    'drops what is released often or long, without a dead-letter queue',
    ['field case 36, I9: without', 'where the broker keeps no delay', 'without a dead-letter queue'],
    (driver) => ({ release: (handles, _delayMs, signal) => driver.complete(handles, signal) }),
    silent,
  ),
  broker('hands out a whole group at once', ['field case 44'], () => ({}), ordered, { ordering: false }),
  broker(
    'stamps messages as if they were sent later than they were',
    ['I1: a message older than the retention'],
    (driver) => ({
      receive: async (ask, signal) =>
        (await driver.receive(ask, signal)).map((delivery) => ({ ...delivery, sentAt: Number.MAX_SAFE_INTEGER })),
    }),
  ),
  broker('answers after it was closed', ['field case 26'], () => ({ close: async () => undefined })),
];
