// Closes servers in the middle of everything, says what was left over, and ends by itself.
import { connect, createServer } from 'node:net';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { kinds, startDynamoDb, startSqs, tcpProxy, type Emulator } from '@leasehold/emulators';
import { QueueCalls } from './sqs-calls.ts';

/** Threads, sockets and timers of this process. */
const resources = (): string[] => process.getActiveResourcesInfo().filter((name) => name !== 'PipeWrap');
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise<void>((resolve) => setImmediate(resolve));
};
const clientOf = ({ endpoint, region, credentials }: Emulator): SQSClient =>
  new SQSClient({ endpoint, region, credentials, maxAttempts: 1 });

const before = resources();
const time = { wall: () => 1_700_000_000_000 };
const servers = [await startSqs({ time }), await startSqs()];
const dynamoDb = await startDynamoDb({ time });
const clients: { destroy(): void }[] = [];
const calls: Promise<unknown>[] = [];
for (const server of servers) {
  const client = clientOf(server);
  const queue = new QueueCalls(client, (await server.createQueue('jobs')).url);
  server.faults.on('SendMessage', kinds.hang());
  server.faults.on('DeleteMessage', kinds.delayAnswer(3_600_000));
  server.faults.on('ChangeMessageVisibility', kinds.applyLater(3_600_000, 'on-abort'));
  calls.push(queue.receive(20), queue.send('a'), queue.remove('handle'), queue.extend('handle', 1));
  clients.push(client);
  await until(() => server.waiting === 4);
}
const tables = new DynamoDBClient({ ...dynamoDb, maxAttempts: 1 });
clients.push(tables);
await tables.send(new ListTablesCommand({}));
const silent = connect(Number(new URL(dynamoDb.endpoint).port), '127.0.0.1');
silent.on('error', () => undefined);
await until(() => !silent.connecting);
silent.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of it');
// Nobody waits for the other half.
for (const server of [...servers, dynamoDb]) await server.settle();

// Bytes on their way through a slow network.
const slow = await tcpProxy(Number(new URL(dynamoDb.endpoint).port));
slow.delay(3_600_000);
const late = connect(slow.port, '127.0.0.1');
late.on('error', () => undefined);
late.write('GET / HTTP/1.1\r\n');
await until(() => slow.connections === 1);
for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => setImmediate(resolve));

// A port that is taken leaves nothing behind either.
const taken = createServer();
await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
const address = taken.address();
const port = typeof address === 'object' && address ? address.port : 0;
const refused = await startDynamoDb({ port }).then(
  () => 'started',
  () => 'refused',
);
taken.close();

const during = resources();
const ended = Promise.allSettled(calls);
await Promise.all([...servers, ...servers, dynamoDb, slow].map(async (server) => server.close()));
const outcomes = (await ended).map(({ status }) => status);
for (const client of clients) client.destroy();
silent.destroy();
late.destroy();
if (refused !== 'refused' || outcomes.some((status) => status !== 'rejected')) throw new Error(outcomes.join(' '));
for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
process.stdout.write(JSON.stringify({ before, during, after: resources() }));
