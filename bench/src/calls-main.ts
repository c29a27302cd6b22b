import { createLeaseBroker } from '@leasehold/core';
import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { sqsBroker } from '@leasehold/sqs';
import { createWorker, defineTask } from '@leasehold/worker';
import { answerParent } from './child-answers.ts';
import { until, type SideOptions } from './side.ts';
import { dynamoDbClient, fillQueue, sqsClient } from './sides/aws-clients.ts';

/** Calls by the name of their operation. */
export type CallsResult = Readonly<Record<string, number>>;

interface Counted {
  readonly middlewareStack: {
    add(
      middleware: (
        next: (args: never) => Promise<never>,
        context: { readonly commandName?: string },
      ) => (args: never) => Promise<never>,
      options: { readonly step: 'initialize'; readonly name: string },
    ): void;
  };
}

/** Works `tasks` off, from the first claim to the last acknowledgement, and counts what the clients sent meanwhile. */
async function count(options: SideOptions, tasks: number, effect: boolean): Promise<CallsResult> {
  const { queueUrl = '', table = '', concurrency, servers } = options;
  await createTable({ table, ...servers?.dynamodb });
  const producer = sqsClient(options);
  await fillQueue(producer, queueUrl, 0, tasks);
  producer.destroy();
  const counted: Record<string, number> = {};
  const watched = <Client extends object>(client: Client): Client => {
    (client as unknown as Counted).middlewareStack.add(
      (next, { commandName = '?' }) =>
        (args) => {
          counted[commandName] = (counted[commandName] ?? 0) + 1;
          return next(args);
        },
      { step: 'initialize', name: 'count' },
    );
    return client;
  };
  const clients = { sqs: watched(sqsClient(options)), dynamodb: watched(dynamoDbClient(options)) };
  const driver = sqsBroker({ queueUrl, client: clients.sqs });
  const ledger = dynamoDbLedger({ table, client: clients.dynamodb });
  const broker = createLeaseBroker({ driver, ledger });
  const made = new Set<string>();
  const task = defineTask({
    type: 'bench',
    async run(_input, ctx) {
      if (!effect) return;
      await ctx.effect('make', {
        system: 'outside',
        receiver: 'idempotent',
        commit: ({ idempotencyKey }) => void made.add(idempotencyKey),
        readBack: ({ idempotencyKey }) => (made.has(idempotencyKey) ? { id: idempotencyKey } : undefined),
        receipt: (found) => ({ externalId: found.id, status: 'made' }),
      });
    },
  });
  const worker = createWorker({ broker, tasks: [task], concurrency, signals: false, poll: '1s' });
  const running = worker.run();
  await until(() => worker.stats.outcomes.settled >= tasks, 2);
  await broker.drain();
  // The poll that waits at the empty queue is not of these tasks.
  const result = { ...counted };
  await worker.stop();
  await running;
  await broker.close();
  clients.sqs.destroy();
  clients.dynamodb.destroy();
  return result;
}

answerParent({ count });
