import { DeleteMessageBatchCommand, ReceiveMessageCommand, type Message, type SQSClient } from '@aws-sdk/client-sqs';
import { measured, type Side, type SideOptions } from '../side.ts';
import { fillQueue, sqsClient } from './aws-clients.ts';

/**
 * The loop one writes by hand: receive ten, work on them, delete them in one call; as many such loops in parallel as make up the concurrency.
 * `work` is what is done for a message between the receive and the delete.
 */
export function rawLoops(client: SQSClient, options: SideOptions, work: (message: Message) => Promise<void>): Side {
  const queueUrl = options.queueUrl ?? '';
  let filled = 0;
  const loop = async (state: { left: number }): Promise<void> => {
    while (state.left > 0) {
      const { Messages = [] } = await client.send(
        new ReceiveMessageCommand({
          QueueUrl: queueUrl,
          MaxNumberOfMessages: 10,
          WaitTimeSeconds: 1,
          VisibilityTimeout: 90,
        }),
      );
      if (Messages.length === 0) continue;
      await Promise.all(Messages.map(work));
      const { Failed } = await client.send(
        new DeleteMessageBatchCommand({
          QueueUrl: queueUrl,
          Entries: Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle })),
        }),
      );
      if (Failed && Failed.length > 0) throw new Error('a message was not deleted');
      state.left -= Messages.length;
    }
  };
  return {
    async fill(count) {
      await fillQueue(client, queueUrl, filled, count);
      filled += count;
    },
    async run(count) {
      const state = { left: count };
      const loops: Promise<void>[] = [];
      const result = await measured(count, async () => {
        for (let started = 0; started < options.concurrency; started += 10) loops.push(loop(state));
        // The last polls find an empty queue and wait: that is not counted.
        while (state.left > 0)
          await Promise.race([Promise.all(loops), new Promise((resolve) => setTimeout(resolve, 1))]);
      });
      await Promise.all(loops);
      return result;
    },
    async close() {
      client.destroy();
    },
  };
}

/** The raw loop with an empty handler. */
export async function openSqsRaw(options: SideOptions): Promise<Side> {
  const handler = async (_payload: unknown): Promise<void> => undefined;
  return rawLoops(sqsClient(options), options, async ({ Body = '' }) => handler(JSON.parse(Body)));
}
