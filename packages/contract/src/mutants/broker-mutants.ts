import type { BrokerCapabilities, BrokerDriver, Delivery } from '@leasehold/core';
import { memoryBroker, type MemoryBrokerOptions } from '@leasehold/core/memory';
import type { BrokerHarness } from '../conformance-case.ts';
import type { Mutant } from './mutant.ts';
import { brokerHarness, QUEUES } from './memory-harness.ts';

const [usual, silent, ordered, pushed] = Object.values(QUEUES) as [
  MemoryBrokerOptions,
  MemoryBrokerOptions,
  MemoryBrokerOptions,
  MemoryBrokerOptions,
];

type Change = (driver: BrokerDriver) => Partial<BrokerDriver>;

/** A queue that is `really` something else than the capabilities it declares, or whose driver is changed. */
const broken = (
  wrong: string,
  fails: readonly string[],
  options: MemoryBrokerOptions,
  change: Change,
  really: MemoryBrokerOptions = options,
) => {
  const { capabilities } = memoryBroker(options);
  const make = () => brokerHarness(really, (driver) => ({ ...driver, capabilities, ...change(driver) }));
  return { wrong, fails, make, capabilities };
};
const lies = (wrong: string, fails: readonly string[], options: MemoryBrokerOptions, really: MemoryBrokerOptions) =>
  broken(wrong, fails, options, () => ({}), { ...options, ...really });

const received = (driver: BrokerDriver, map: (delivery: Delivery) => Delivery): Partial<BrokerDriver> => ({
  receive: async (ask, signal) => (await driver.receive(ask, signal)).map(map),
});
const never = (): AbortSignal => new AbortController().signal;

/** Broker drivers with one thing wrong each. */
export const brokerMutants: readonly Mutant<BrokerHarness, BrokerCapabilities>[] = [
  broken('loses attributes', ['a body comes back'], usual, (driver) =>
    received(driver, (delivery) => ({ ...delivery, attributes: {} })),
  ),
  broken('reads bodies as text', ['a body comes back byte for byte'], usual, (driver) =>
    received(driver, (delivery) => ({
      ...delivery,
      body: new TextEncoder().encode(new TextDecoder().decode(delivery.body)),
    })),
  ),
  broken('answers sends in another order', ['a full batch is answered'], usual, (driver) => ({
    send: async (messages, signal) => (await driver.send(messages, signal)).toReversed(),
  })),
  broken('takes messages it was not asked for', ['receive gives no more'], usual, (driver) => ({
    receive: (ask, signal) => driver.receive({ ...ask, max: 10 }, signal),
  })),
  broken('throws on an empty queue', ['an empty queue'], usual, (driver) => ({
    receive: async (ask, signal) => {
      const got = await driver.receive(ask, signal);
      if (got.length === 0) throw new Error('no messages');
      return got;
    },
  })),
  broken(
    'never waits',
    ['a receive that waits is woken by a message', 'a receive that waits is woken by a release'],
    usual,
    (driver) => ({
      receive: (ask, signal) => driver.receive({ ...ask, waitMs: 0 }, signal),
    }),
  ),
  broken('waits without an end', ['an empty queue'], usual, (driver) => ({
    receive: (ask, signal) => driver.receive({ ...ask, waitMs: ask.waitMs === 0 ? 0 : 3_600_000 }, signal),
  })),
  broken(
    'does not see that a lease lapses while it waits',
    ['a receive that waits is woken when a lease lapses'],
    usual,
    (driver) => ({
      receive: (ask, signal) => driver.receive({ ...ask, waitMs: Math.min(ask.waitMs, 2_000) }, signal),
    }),
  ),
  broken('forgets the delay of a send', ['a delayed message'], usual, (driver) => ({
    send: (messages, signal) =>
      driver.send(
        messages.map(({ delayMs: _, ...message }) => message),
        signal,
      ),
  })),
  broken('cuts long bodies', ['field case 38: a body of the longest', 'a batch of the greatest'], ordered, (driver) =>
    received(driver, (delivery) => ({ ...delivery, body: delivery.body.slice(0, 20_000) })),
  ),
  lies('takes bodies beyond its limit', ['field case 38: a body beyond'], usual, { maxBodyBytes: 1_000_000 }),
  lies('hands out a whole group at once', ['field case 44'], ordered, { ordering: false }),
  lies('holds groups back without saying so', ['without ordering'], usual, { ordering: true }),
  broken('delivers twice', ['two processes', 'a message is held'], usual, (driver) => ({
    receive: async (ask, signal) => {
      const got = await driver.receive(ask, signal);
      await driver.release(got.map(({ handle }) => handle).slice(0, 1), 0, signal).catch(() => undefined);
      return got;
    },
  })),
  broken('cannot classify', ['classify'], usual, () => ({ classify: (error) => (error as { code: 'invalid' }).code })),
  broken('grants longer leases than asked', ['a message is held'], usual, (driver) => ({
    receive: async (ask, signal) =>
      (await driver.receive({ ...ask, leaseMs: ask.leaseMs * 2 }, signal)).map((delivery) => ({
        ...delivery,
        leaseMs: ask.leaseMs,
      })),
  })),
  broken('grants shorter leases than it says', ['a message is held'], usual, (driver) => ({
    receive: async (ask, signal) =>
      (await driver.receive({ ...ask, leaseMs: Math.ceil(ask.leaseMs / 3) }, signal)).map((delivery) => ({
        ...delivery,
        leaseMs: ask.leaseMs,
      })),
  })),
  broken(
    'takes the message id for a handle',
    ['a message is held', 'a released message comes back at once'],
    usual,
    (driver) => {
      const handles = new Map<string, unknown>();
      const real = (given: readonly unknown[]) => given.map((id) => handles.get(id as string) ?? id);
      return {
        receive: async (ask, signal) =>
          (await driver.receive(ask, signal)).map((delivery) => {
            handles.set(delivery.messageId, delivery.handle);
            return { ...delivery, handle: delivery.messageId };
          }),
        complete: (given, signal) => driver.complete(real(given), signal),
        release: (given, delayMs, signal) => driver.release(real(given), delayMs, signal),
      };
    },
  ),
  broken('adds an extension to what is left', ['extend holds a message'], usual, (driver) => ({
    extend: (handles, leaseMs, signal) => driver.extend(handles, leaseMs * 1.5, signal),
  })),
  broken('says it extended, and did not', ['extend holds a message', 'extending one message'], usual, () => ({
    extend: async (handles) => handles.map(() => 'done' as const),
  })),
  broken('says it extended what cannot be', ['where a delivery cannot be prolonged'], pushed, () => ({
    extend: async (handles) => handles.map(() => 'done' as const),
  })),
  broken('answers stale handles with done', ['field case 7'], usual, () => ({}), silent),
  broken(
    'throws on a stale handle',
    ['field case 6'],
    silent,
    (driver) => ({
      complete: async (handles, signal) => {
        const outcomes = await driver.complete(handles, signal);
        if (outcomes.includes('gone')) throw new Error('stale');
        return outcomes;
      },
    }),
    { ...silent, staleHandle: 'detected' },
  ),
  lies('prolongs beyond its total cap', ['field case 30'], ordered, { totalLeaseMs: 3_600_000 }),
  broken('completes nothing', ['complete removes', 'field case 6'], silent, () => ({
    complete: async (handles) => handles.map(() => 'done' as const),
  })),
  broken('settles only the first of a batch', ['field case 22'], usual, (driver) => ({
    complete: (handles, signal) => driver.complete(handles.slice(0, 1), signal),
  })),
  broken('fails a whole batch for one bad handle', ['I9: in a batch'], usual, (driver) => ({
    release: async (handles, delayMs, signal) => {
      const outcomes = await driver.release(handles, delayMs, signal);
      return outcomes.includes('gone') ? outcomes.map(() => ({ failed: 'unknown' as const })) : outcomes;
    },
  })),
  broken(
    'lets a release wait for the lease',
    ['a released message comes back at once', 'a receive that waits is woken by a release'],
    usual,
    () => ({
      release: async (handles) => handles.map(() => 'done' as const),
    }),
  ),
  lies('forgets the delay of a release', ['field case 19'], usual, { releaseDelayMs: 0 }),
  lies('keeps a delay it says it cannot', ['where a release keeps no delay'], silent, { releaseDelayMs: 100_000 }),
  broken('counts deliveries from zero', ['deliveries are counted'], usual, (driver) =>
    received(driver, (delivery) => ({ ...delivery, deliveryCount: (delivery.deliveryCount ?? 1) - 1 })),
  ),
  lies('counts where it says it does not', ['where deliveries are not counted'], silent, { deliveryCount: true }),
  broken('loses the reason of a rejection', ['a rejected message'], usual, (driver) => ({
    reject: (handle, why, signal) => driver.reject(handle, { ...why, reason: '', attributes: {} }, signal),
  })),
  broken('completes instead of rejecting', ['a rejected message'], usual, (driver) => ({
    reject: async (handle, _why, signal) => (await driver.complete([handle], signal))[0] ?? 'gone',
  })),
  broken('never moves a poison message', ['after its last delivery'], ordered, () => ({}), {
    ...ordered,
    maxDeliveries: 1_000,
  }),
  broken('drops a message that was delivered often', ['without a dead-letter queue'], silent, (driver) => {
    let releases = 0;
    return {
      release: async (handles, delayMs, signal) =>
        ++releases > 8 ? driver.complete(handles, signal) : driver.release(handles, delayMs, signal),
    };
  }),
  broken('takes and drops when aborted', ['field case 24', 'a receive whose signal'], usual, (driver) => ({
    receive: async (ask, signal) => {
      const got = await driver.receive({ ...ask, waitMs: Math.min(ask.waitMs, 100) }, never());
      signal.throwIfAborted();
      return got;
    },
  })),
  broken('goes on polling after close', ['close ends a receive', 'field case 26'], usual, () => ({
    close: async () => undefined,
  })),
  broken('cannot be closed twice', ['field case 26'], usual, (driver) => {
    let closed = false;
    return {
      close: async () => {
        if (closed) throw new Error('already closed');
        closed = true;
        await driver.close();
      },
    };
  }),
];
