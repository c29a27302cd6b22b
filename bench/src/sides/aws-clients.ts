import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { Endpoint, Side, SideOptions } from '../side.ts';

/** What both clients are given, on every side: sockets enough, nothing else. */
const SOCKETS = 256;

interface ClientSettings extends Endpoint {
  readonly requestHandler: { readonly httpAgent: { readonly maxSockets: number } };
}

const settings = (place: Endpoint): ClientSettings => ({
  ...place,
  requestHandler: { httpAgent: { maxSockets: SOCKETS } },
});

export function sqsClient({ servers }: SideOptions): SQSClient {
  if (!servers) throw new Error('this side needs servers');
  return new SQSClient(settings(servers.sqs));
}

export function dynamoDbClient({ servers }: SideOptions): DynamoDBClient {
  if (!servers) throw new Error('this side needs servers');
  return new DynamoDBClient(settings(servers.dynamodb));
}

/** A side whose tasks come from an SQS queue: filled by a client of its own, which is closed with it. */
export function onQueue(side: Omit<Side, 'fill'>, options: SideOptions): Side {
  const { queueUrl = '' } = options;
  const producer = sqsClient(options);
  let filled = 0;
  return {
    ...side,
    async fill(count) {
      await fillQueue(producer, queueUrl, filled, count);
      filled += count;
    },
    async close() {
      producer.destroy();
      await side.close();
    },
  };
}

const AT_ONCE = 8;

/** Fills a queue with `count` messages like those that our own producer sends: a CloudEvent under 300 bytes. */
export async function fillQueue(client: SQSClient, queueUrl: string, first: number, count: number): Promise<void> {
  let next = first;
  const send = async (): Promise<void> => {
    while (next < first + count) {
      const from = next;
      next = Math.min(from + 10, first + count);
      const { Failed } = await client.send(
        new SendMessageBatchCommand({
          QueueUrl: queueUrl,
          Entries: Array.from({ length: next - from }, (_, index) => ({
            Id: String(index),
            MessageBody: messageOf(from + index),
          })),
        }),
      );
      if (Failed && Failed.length > 0) throw new Error('not all messages were sent');
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, send));
}

function messageOf(number: number): string {
  const id = `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
  return JSON.stringify({
    specversion: '1.0',
    id,
    type: 'bench',
    source: 'leasehold',
    datacontenttype: 'application/json',
    data: { n: number },
    idempotencykey: id,
  });
}
