import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { createLeaseBroker, type HeldDelivery, type LeaseBroker } from '@leasehold/core';
import { memoryLedger } from '@leasehold/core/memory';
import { kinds, type Fault } from '@leasehold/emulators';
import type { SqsBroker } from '@leasehold/sqs';
import { machine, never, type Machine, type Queue } from './machine.ts';

const MINUTE = 60_000;

let one: Machine;
let queue: Queue;
let refused: number;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  queue = await one.queue({});
  one.server.faults.reset();
  refused = 0;
  for (const operation of ['GetQueueAttributes', 'SendMessageBatch', 'ReceiveMessage', 'DeleteMessageBatch'])
    one.server.faults.on(operation, signedInTime, { times: Infinity });
});
afterEach(async () => {
  vi.useRealTimers();
  await queue.dispose();
});

/** As the service does it: a signature holds for five minutes either way. */
const signedInTime: Fault = (call) => {
  const text = String(call.request.headers['x-amz-date']);
  const [, day, hours, minutes, seconds] = /^(\d{8})T(\d\d)(\d\d)(\d\d)Z$/.exec(text) ?? [];
  const signed = Date.parse(`${day?.replace(/^(....)(..)(..)$/, '$1-$2-$3')}T${hours}:${minutes}:${seconds}Z`);
  const lateMs = one.clock.wall() - signed;
  if (Math.abs(lateMs) <= 5 * MINUTE) return call.apply();
  refused++;
  const message =
    lateMs > 0
      ? `Signature expired: ${text} is now earlier than what the service takes.`
      : `Signature not yet current: ${text} is still later than what the service takes.`;
  return kinds.failBefore({ type: 'InvalidSignatureException', message, status: 403 })(call);
};

/** The container's clock: so far ahead of the service's. */
function containerAhead(ms: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: one.clock.wall() + ms });
}

async function until<Result>(work: Promise<Result>): Promise<Result> {
  let over = false;
  const done = (): void => void (over = true);
  work.then(done, done);
  expect(await one.time.until(() => over, MINUTE)).toBe(true);
  return work;
}

/** The first poll of a client finds out; a worker polls again. */
async function take(broker: LeaseBroker, driver: SqsBroker): Promise<HeldDelivery> {
  const poll = () => until(broker.receive({ max: 1, leaseMs: 30_000, waitMs: 0 }));
  const error = await poll().catch((reason: unknown) => reason);
  expect(driver.classify(error)).toBe('unavailable');
  const [held] = await poll();
  if (!held) throw new Error('nothing came');
  return held;
}

test.each([10, -10, 60, -60])(
  'I8: with a container clock %i minutes off the very first task is sent, taken and acknowledged',
  async (off) => {
    containerAhead(off * MINUTE);
    const driver = queue.driver();
    const broker = createLeaseBroker({ driver, ledger: memoryLedger({ clock: one.clock }), clock: one.clock });
    expect(await until(broker.enqueue([{ type: 'a', input: 1 }]))).toMatchObject([{ ok: true }]);
    const { delivery } = await take(broker, driver);
    expect(await driver.complete([delivery.handle as never], never())).toEqual(['done']);
    // One of each client.
    expect(refused).toBe(2);
  },
);

test.each([10, -10])(
  'I8: a container clock that is set right after it was %i minutes off makes calls that may be repeated, not denied ones',
  async (off) => {
    containerAhead(off * MINUTE);
    const driver = queue.driver();
    const broker = createLeaseBroker({ driver, ledger: memoryLedger({ clock: one.clock }), clock: one.clock });
    await until(broker.enqueue([{ type: 'a', input: 1 }]));
    const { delivery } = await take(broker, driver);
    vi.setSystemTime(one.clock.wall());
    const complete = () => driver.complete([delivery.handle as never], never());
    const error = await complete().catch((reason: unknown) => reason);
    expect(driver.classify(error)).toBe('unavailable');
    expect(refused).toBe(3);
    expect(await complete()).toEqual(['done']);
  },
);
