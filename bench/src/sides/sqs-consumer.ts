import type { Message, SQSClient } from '@aws-sdk/client-sqs';
import { Consumer, type ConsumerOptions } from 'sqs-consumer';
import { measured, until, type Side, type SideOptions } from '../side.ts';
import { fillQueue, sqsClient } from './aws-clients.ts';

/** One Consumer with batches of ten, on the same client and with the same wait as every other side. */
export function consumerSide(
  client: SQSClient,
  { queueUrl = '' }: SideOptions,
  handlers: (done: (count: number) => void) => Pick<ConsumerOptions, 'handleMessage' | 'handleMessageBatch'>,
): Side {
  let filled = 0;
  return {
    async fill(count) {
      await fillQueue(client, queueUrl, filled, count);
      filled += count;
    },
    async run(count) {
      let handled = 0;
      let acknowledged = 0;
      let failure: Error | undefined;
      const consumer = Consumer.create({
        queueUrl,
        sqs: client,
        batchSize: 10,
        waitTimeSeconds: 1,
        visibilityTimeout: 90,
        ...handlers((more) => (handled += more)),
      });
      // Told once the message is deleted.
      consumer.on('message_processed', () => acknowledged++);
      consumer.on('error', (error) => (failure = error));
      consumer.on('processing_error', (error) => (failure = error));
      const result = await measured(count, async () => {
        consumer.start();
        await until(() => acknowledged >= count || failure !== undefined, 1);
      });
      const stopped = new Promise<void>((resolve) => consumer.once('stopped', () => resolve()));
      consumer.stop();
      await stopped;
      if (failure) throw failure;
      if (handled !== count) throw new Error(`${handled} of ${count} messages were handled`);
      return result;
    },
    async close() {
      client.destroy();
    },
  };
}

const handler = async (_payload: unknown): Promise<void> => undefined;

/** The handler gets one message at a time; each is deleted by a call of its own, as sqs-consumer does then. */
export async function openConsumerEach(options: SideOptions): Promise<Side> {
  return consumerSide(sqsClient(options), options, (done) => ({
    async handleMessage(message: Message) {
      await handler(JSON.parse(message.Body ?? ''));
      done(1);
      return message;
    },
  }));
}

/** The handler gets the batch; it is deleted by one call. */
export async function openConsumerBatch(options: SideOptions): Promise<Side> {
  return consumerSide(sqsClient(options), options, (done) => ({
    async handleMessageBatch(messages: Message[]) {
      await Promise.all(messages.map(({ Body = '' }) => handler(JSON.parse(Body))));
      done(messages.length);
      return messages;
    },
  }));
}
