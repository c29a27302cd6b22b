import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, afterEach, beforeAll } from 'vitest';
import {
  startDynamoDb,
  startSqs,
  type Emulator,
  type EmulatorOptions,
  type QueueOptions,
  type SqsEmulator,
} from '@leasehold/emulators';
import { QueueCalls } from './sqs-calls.ts';

/** Servers that the tests of one file share; each test has queues and tables of its own. */
export interface Ground<Server extends Emulator> {
  readonly time: HandTime;
  readonly server: Server;
}

function ground<Server extends Emulator>(start: (options: EmulatorOptions) => Promise<Server>): Ground<Server> {
  const time = new HandTime();
  let server: Server | undefined;
  beforeAll(async () => {
    server = await start({ time });
  });
  afterEach(() => server?.faults.reset());
  afterAll(async () => server?.close());
  return {
    time,
    get server() {
      if (!server) throw new Error('not started');
      return server;
    },
  };
}

/** An SQS server at hand-moved time. */
export function sqsGround(): Ground<SqsEmulator> & {
  readonly queue: (name: string, options?: QueueOptions) => Promise<QueueCalls>;
} {
  const shared = ground(startSqs);
  return Object.assign(shared, {
    async queue(name: string, options?: QueueOptions) {
      const { url } = await shared.server.createQueue(name, options);
      return new QueueCalls(sqsClient(shared.server), url);
    },
  });
}

/** A DynamoDB server at hand-moved time. */
export function dynamoDbGround(): Ground<Emulator> {
  return ground(startDynamoDb);
}

const open: { close(): unknown }[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map(async (each) => each.close()));
});

/** Closed after the test. */
export function closing<Closable extends { close(): unknown }>(each: Closable): Closable {
  open.push(each);
  return each;
}

/** Time that a test moves. */
export class HandTime {
  now = 1_700_000_000_000;

  wall(): number {
    return this.now;
  }
}

export function sqsClient({ endpoint, region, credentials }: Emulator): SQSClient {
  const client = new SQSClient({ endpoint, region, credentials, maxAttempts: 1 });
  closing({ close: () => client.destroy() });
  return client;
}

export function dynamoDbClient({ endpoint, region, credentials }: Emulator): DynamoDBClient {
  const client = new DynamoDBClient({ endpoint, region, credentials, maxAttempts: 1 });
  closing({ close: () => client.destroy() });
  return client;
}

/** The error that a call ends with. */
export async function refusal(work: Promise<unknown>): Promise<Error & { readonly code?: string }> {
  try {
    await work;
  } catch (error) {
    return error as Error;
  }
  throw new Error('the call succeeded');
}

/** Turns of the event loop until it holds. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise<void>((resolve) => setImmediate(resolve));
}
