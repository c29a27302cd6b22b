import { randomUUID } from 'node:crypto';
import type { BrokerHarness, CaseHarness, GuardHarness, PairHarness } from '@leasehold/contract';
import { systemClock, type Delivery, type GuardStore, type LedgerDriver } from '@leasehold/core';
import { createTable, dynamoDbGuard, dynamoDbLedger } from '@leasehold/dynamodb';
import { sqsBroker, type SqsBroker } from '@leasehold/sqs';
import { sqsRequest } from './sqs-requests.ts';

/** How a queue is to be. */
export interface QueueKind {
  readonly fifo?: boolean;
  /** With a dead-letter queue, to which the server itself moves a message after so many receives. */
  readonly maxReceiveCount?: number;
}

/** Long enough to be extended in time on a busy machine, whatever the error of the service's clock. */
const SHORTEST_HOLD_MS = 9_000;
/** Of deliveries; SQS keeps shorter ones apart, but a busy machine does not. */
const SHORTEST_LEASE_MS = 3_000;
const CONNECTION = { region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };

function never(): AbortSignal {
  return new AbortController().signal;
}

async function makeQueue(endpoint: string, name: string, attributes: Record<string, string>): Promise<string> {
  const input = {
    QueueName: name,
    Attributes: { ...attributes, ...(name.endsWith('.fifo') && { FifoQueue: 'true' }) },
  };
  const { QueueUrl } = await sqsRequest(endpoint, 'CreateQueue', input);
  // A server in a container names the address that it has there.
  const { pathname } = new URL(String(QueueUrl));
  return endpoint + pathname;
}

async function arnOf(endpoint: string, queueUrl: string): Promise<string> {
  const answer = await sqsRequest(endpoint, 'GetQueueAttributes', { QueueUrl: queueUrl, AttributeNames: ['QueueArn'] });
  return (answer['Attributes'] as { readonly QueueArn: string }).QueueArn;
}

/** A queue of its own at a running server, and with `maxReceiveCount` one for its dead letters. */
export async function queueHarness(endpoint: string, { fifo, maxReceiveCount }: QueueKind): Promise<BrokerHarness> {
  const name = `q-${randomUUID()}${fifo ? '.fifo' : ''}`;
  const urls: string[] = [];
  let dead: string | undefined;
  const policy: Record<string, string> = {};
  if (maxReceiveCount !== undefined) {
    dead = await makeQueue(endpoint, `dead-${name}`, {});
    urls.push(dead);
    policy['RedrivePolicy'] = JSON.stringify({ deadLetterTargetArn: await arnOf(endpoint, dead), maxReceiveCount });
  }
  const queueUrl = await makeQueue(endpoint, name, policy);
  urls.push(queueUrl);
  const opened: SqsBroker[] = [];
  return {
    async open() {
      // Short polls, so that a close at the end of a case has little to wait for.
      const driver = sqsBroker({ ...CONNECTION, endpoint, queueUrl, longPoll: '1s' });
      opened.push(driver);
      await driver.open(never());
      return patient(driver);
    },
    async deadLetters() {
      if (dead === undefined) return [];
      return (await readAll(endpoint, dead)).map(({ body, attributes }) => {
        const { leaseholdreason: reason, leaseholddescription: description } = attributes;
        return {
          body,
          attributes,
          ...(reason !== undefined && { reason }),
          ...(description !== undefined && { description }),
        };
      });
    },
    async dispose() {
      await Promise.all(opened.map((driver) => driver.close()));
      for (const url of urls) await sqsRequest(endpoint, 'DeleteQueue', { QueueUrl: url });
    },
  };
}

/** The driver, of which the cases ask no shorter lease than they can wait for. */
function patient(driver: SqsBroker): SqsBroker {
  const { capabilities } = driver;
  const leaseMs = { ...capabilities.leaseMs, min: SHORTEST_LEASE_MS };
  return { ...driver, capabilities: { ...capabilities, leaseMs } };
}

/** Everything that is visible in a queue, given back. */
async function readAll(endpoint: string, queueUrl: string): Promise<readonly Delivery[]> {
  const broker = sqsBroker({ ...CONNECTION, endpoint, queueUrl, settings: {} });
  const found: Delivery[] = [];
  try {
    for (;;) {
      const got = await broker.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never());
      if (got.length === 0) return found;
      found.push(...got);
    }
  } finally {
    for (const { handle } of found) await broker.release([handle as never], 0, never());
    await broker.close();
  }
}

/** A table of its own at a running server. */
async function tableHarness<Driver extends { close(): Promise<void> }>(
  endpoint: string,
  make: (connection: { readonly endpoint: string; readonly table: string } & typeof CONNECTION) => Promise<Driver>,
): Promise<CaseHarness<Driver>> {
  const connection = { ...CONNECTION, endpoint, table: `t-${randomUUID()}` };
  await createTable(connection);
  const opened: Driver[] = [];
  return {
    async open() {
      const driver = await make(connection);
      opened.push(driver);
      return driver;
    },
    async dispose() {
      await Promise.all(opened.map((driver) => driver.close()));
    },
  };
}

/** A table for the cases of ledgers. */
export function ledgerHarness(endpoint: string): Promise<CaseHarness<LedgerDriver>> {
  return tableHarness<LedgerDriver>(endpoint, async (connection) => {
    const driver = dynamoDbLedger(connection);
    await driver.open(never());
    return driver;
  });
}

/** A table for the cases of guards. */
export async function guardHarness(endpoint: string): Promise<GuardHarness> {
  const table = await tableHarness<GuardStore>(endpoint, async (connection) => dynamoDbGuard(connection));
  // The guard knows the service's clock as the ledger does.
  const { clockErrorMs } = dynamoDbLedger({ ...CONNECTION, endpoint, table: 'none' }).capabilities;
  return { ...table, shortestHoldMs: SHORTEST_HOLD_MS, clockErrorMs };
}

/** A queue at one server and a table at the same or another. */
export async function pairHarness(sqs: string, dynamoDb: string, kind: QueueKind): Promise<PairHarness> {
  const [queue, table] = [await queueHarness(sqs, kind), await ledgerHarness(dynamoDb)];
  return {
    clock: systemClock(),
    open: async () => ({ broker: await queue.open(), ledger: await table.open() }),
    deadLetters: () => queue.deadLetters(),
    async dispose() {
      await Promise.all([queue.dispose(), table.dispose()]);
    },
  };
}
