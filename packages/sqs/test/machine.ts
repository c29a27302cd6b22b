import { randomUUID } from 'node:crypto';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { BrokerHarness } from '@leasehold/contract';
import { virtualClock, type BrokerCapabilities, type Delivery, type VirtualClock } from '@leasehold/core';
import { steadyTime, type SteadyTime } from '@leasehold/core/testing';
import { startSqs, type QueueOptions, type SqsEmulator } from '@leasehold/emulators';
import { sqsBroker, type SqsBroker, type SqsBrokerOptions } from '@leasehold/sqs';
import { capabilitiesOf } from '../src/queue-settings.ts';

/** A signal that never aborts. */
export function never(): AbortSignal {
  return new AbortController().signal;
}

/** An SQS server whose time a test moves, and drivers on it. */
export interface Machine {
  readonly clock: VirtualClock;
  readonly server: SqsEmulator;
  readonly time: SteadyTime;
  /** A new queue; with `maxReceiveCount` or `deadLetter` it has a dead-letter queue. */
  queue(options?: MachineQueue): Promise<Queue>;
  close(): Promise<void>;
}

/** How a queue is to be. */
export interface MachineQueue extends Omit<QueueOptions, 'deadLetter'> {
  readonly deadLetter?: boolean;
  readonly maxReceiveCount?: number;
}

/** A queue of one test. */
export interface Queue {
  readonly url: string;
  readonly deadLetterUrl?: string;
  /** A driver as another process would have it, its calls counted. Not opened yet. */
  driver(options?: Partial<SqsBrokerOptions>): SqsBroker;
  /** One whose calls time does not wait for: they may hang. */
  unwatched(): SqsBroker;
  /** What lies in the dead-letter queue; it is left where it is. */
  letters(): Promise<readonly Delivery[]>;
  dispose(): Promise<void>;
}

/** With a dead-letter queue alone a message is never moved by SQS itself, as far as a test goes. */
const SELDOM = 1_000;

/** Starts one. */
export async function machine(): Promise<Machine> {
  const clock = virtualClock();
  const server = await startSqs({ time: clock });
  const time = steadyTime(clock, [server]);
  const { endpoint, region, credentials } = server;
  return {
    clock,
    server,
    time,
    async queue({ deadLetter, maxReceiveCount, ...options }: MachineQueue = {}) {
      const name = `q-${randomUUID()}${options.fifo ? '.fifo' : ''}`;
      const dead =
        (deadLetter ?? maxReceiveCount !== undefined)
          ? await server.createQueue(`dead-${name}`, options.fifo ? { fifo: true } : {})
          : undefined;
      const { url } = await server.createQueue(name, {
        ...options,
        ...(dead && { deadLetter: { queueUrl: dead.url, maxReceiveCount: maxReceiveCount ?? SELDOM } }),
      });
      const opened: SqsBroker[] = [];
      const make = (more: Partial<SqsBrokerOptions> = {}): SqsBroker => {
        const connection = more.client ? {} : { endpoint, region, credentials };
        const driver = sqsBroker({ queueUrl: url, ...connection, clock, ...more });
        opened.push(driver);
        return driver;
      };
      return {
        url,
        ...(dead && { deadLetterUrl: dead.url }),
        driver: (more) => time.watch(make(more)),
        unwatched: () => make(),
        letters: () => (dead ? readAll(server, dead.url) : Promise.resolve([])),
        async dispose() {
          const closing = Promise.all(opened.map((driver) => driver.close()));
          // A poll under way ends when its time has come.
          let closed = false;
          const done = (): void => void (closed = true);
          closing.then(done, done);
          await time.until(() => closed, 30_000);
          await closing;
        },
      };
    },
    close: () => server.close(),
  };
}

/** Everything that is visible in a queue, given back. */
async function readAll(server: SqsEmulator, queueUrl: string): Promise<readonly Delivery[]> {
  const { endpoint, region, credentials } = server;
  const broker = sqsBroker({ queueUrl, endpoint, region, credentials, settings: {} });
  const found: Delivery[] = [];
  for (;;) {
    const got = await broker.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never());
    if (got.length === 0) break;
    found.push(...got);
  }
  for (const { handle } of found) await broker.release([handle as never], 0, never());
  await broker.close();
  return found;
}

/** What a driver on such a queue declares once it is open. */
export function declared({ fifo = false, deadLetter, maxReceiveCount }: MachineQueue = {}): BrokerCapabilities {
  const url = `https://sqs.us-east-1.amazonaws.com/000000000000/q${fifo ? '.fifo' : ''}`;
  return capabilitiesOf(url, {
    ...((deadLetter ?? maxReceiveCount !== undefined) && {
      deadLetterQueueUrl: `${url}-dead`,
      maxReceiveCount: maxReceiveCount ?? SELDOM,
    }),
  });
}

/** The harness of the contract, on a queue of its own. */
export async function brokerHarness(one: Machine, options: MachineQueue = {}): Promise<BrokerHarness> {
  const queue = await one.queue(options);
  return {
    async open() {
      const driver = queue.driver();
      await driver.open(never());
      return driver;
    },
    advance: (ms) => one.time.advance(ms),
    async deadLetters() {
      return (await queue.letters()).map(({ body, attributes }) => {
        const { leaseholdreason: reason, leaseholddescription: description } = attributes;
        return {
          body,
          attributes,
          ...(reason !== undefined && { reason }),
          ...(description !== undefined && { description }),
        };
      });
    },
    dispose: () => queue.dispose(),
  };
}

/** A client of a test's own. */
export function testClient({ endpoint, region, credentials }: SqsEmulator): SQSClient {
  return new SQSClient({ endpoint, region, credentials, maxAttempts: 1 });
}
