// SQS and DynamoDB in a process of their own, in memory. Started by a run; stopped now and then, and never killed.
import { startDynamoDb, startSqs } from '@leasehold/emulators';
import { startOptions, tellParent, type ServersStart } from './child.ts';

/** Further than any run gets: the ledger counts attempts, and the audit wants every dead letter to have been sent by it. */
const MAX_RECEIVES = 1_000;

async function main(): Promise<void> {
  const { sqsPort, dynamoDbPort, queue } = startOptions() as ServersStart;
  const [sqs] = await Promise.all([startSqs({ port: sqsPort }), startDynamoDb({ port: dynamoDbPort })]);
  const dead = await sqs.createQueue(`${queue}-dead`);
  await sqs.createQueue(queue, { deadLetter: { queueUrl: dead.url, maxReceiveCount: MAX_RECEIVES } });
  tellParent({ kind: 'ready' });
}

void main();
