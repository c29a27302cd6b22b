// SQS and DynamoDB in a process of their own, as the real ones are elsewhere. Started by the demo.
import { startDynamoDb, startSqs } from '@leasehold/emulators';
import { tellParent } from './child-messages.ts';

async function main(): Promise<void> {
  const [sqs, dynamodb] = await Promise.all([startSqs(), startDynamoDb()]);
  const stop = (): void => {
    void Promise.all([sqs.close(), dynamodb.close()]).then(() => process.exit(0));
  };
  process.on('SIGTERM', stop);
  // Ctrl-C reaches the whole group; the demo says when the servers have to end.
  process.on('SIGINT', () => undefined);
  process.on('disconnect', () => process.exit(0));
  const { region, credentials } = sqs;
  await tellParent({ kind: 'serving', sqs: sqs.endpoint, dynamodb: dynamodb.endpoint, region, credentials });
}

void main();
