import { execFile } from 'node:child_process';
import { createServer, connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CreateTableCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { faultProxy, kinds, startDynamoDb, startSqs } from '@leasehold/emulators';
import { expect, test } from 'vitest';
import { QueueCalls } from './sqs-calls.ts';
import { closing, dynamoDbClient, HandTime, refusal, sqsClient, until } from './started.ts';

const run = promisify(execFile);

test('closing leaves no thread, socket or timer, also with a parked poll, a hung call and a client that says nothing', async () => {
  const program = fileURLToPath(new URL('./closing-process.ts', import.meta.url));
  const args = ['--disable-warning=ExperimentalWarning', '--conditions=@leasehold/source', program];
  // It ends by itself, or is ended, which is a failure.
  const { stdout } = await run(process.execPath, args, { timeout: 100_000, killSignal: 'SIGKILL' });
  const { before, during, after } = JSON.parse(stdout) as Record<string, string[]>;
  expect(during).toContain('TCPServerWrap');
  expect(during).toContain('MessagePort');
  expect(after).toEqual(before);
});

test('two servers at once know nothing of each other', async () => {
  const times = [new HandTime(), new HandTime()];
  const queues = await Promise.all(
    times.map(async (time, index) => {
      const server = closing(await startSqs({ time }));
      const { url } = await server.createQueue('jobs', { visibilitySeconds: 10 });
      const queue = new QueueCalls(sqsClient(server), url);
      await queue.send(`of ${index}`);
      return queue;
    }),
  );
  for (const queue of queues) await queue.one();
  const [first] = times;
  if (first) first.now += 10_000;
  expect(await Promise.all(queues.map(async (queue) => queue.bodies()))).toEqual([['of 0'], []]);
});

test('a port that is taken, or none, is refused by name with what to do', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  closing({ close: () => taken.close() });
  const address = taken.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  for (const start of [startSqs, startDynamoDb]) {
    const error = await refusal(start({ port }));
    expect(error).toMatchObject({
      name: 'EmulatorError',
      message: `port: 127.0.0.1:${port} is in use; pass another port, or 0 for a free one.`,
      field: 'port',
      remedy: 'pass another port, or 0 for a free one',
    });
  }
  expect(String(await refusal(startSqs({ port: 1.5 })))).toContain('port: 1.5 is no port');
});

test('a server that has died says so instead of hanging', async () => {
  const server = closing(await startDynamoDb());
  const half = connect(Number(new URL(server.faults.target).port), '127.0.0.1');
  half.on('error', () => undefined);
  await until(() => !half.connecting);
  // This server dies of a client that leaves in the middle of a request.
  half.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of it', () => half.resetAndDestroy());
  let failed: Error | undefined;
  while (!failed)
    failed = await server.settle().then(
      () => undefined,
      (error: unknown) => error as Error,
    );
  expect(failed.message).toMatch(/^server: the dynamodb server failed: .*; start another one\.$/);
  const answer = await fetch(server.endpoint, { method: 'POST' });
  expect(answer.status).toBe(502);

  await server.close();
  const closed = closing(await startDynamoDb());
  await closed.close();
  expect((await refusal(closed.settle())).message).toBe('server: the dynamodb server has ended; start another one.');
});

test('100 clients at once: every message is delivered once, every conditional write counts once', async () => {
  const sqs = closing(await startSqs());
  const dynamoDb = closing(await startDynamoDb());
  const { url } = await sqs.createQueue('jobs', { visibilitySeconds: 600 });
  const clients = Array.from({ length: 100 }, () => new QueueCalls(sqsClient(sqs), url));
  await Promise.all(clients.map(async (queue, index) => queue.send(`m${index}`)));
  const taken = await Promise.all(
    clients.map(async (queue) => {
      const [message] = await queue.receive(0, 1);
      await queue.remove(message?.ReceiptHandle ?? '');
      return message?.Body;
    }),
  );
  expect(new Set(taken).size).toBe(100);
  expect(await clients[0]?.bodies()).toEqual([]);
  expect(sqs.faults.calls()).toBe(301);

  const writers = Array.from({ length: 100 }, () => dynamoDbClient(dynamoDb));
  const [first] = writers;
  await first?.send(
    new CreateTableCommand({
      TableName: 'counters',
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  const claims = await Promise.allSettled(
    writers.map(async (client) =>
      client.send(
        new UpdateItemCommand({
          TableName: 'counters',
          Key: { id: { S: 'a' } },
          UpdateExpression: 'SET #v = :one',
          ConditionExpression: 'attribute_not_exists(#v)',
          ExpressionAttributeNames: { '#v': 'value' },
          ExpressionAttributeValues: { ':one': { N: '1' } },
        }),
      ),
    ),
  );
  expect(claims.filter(({ status }) => status === 'fulfilled').length).toBe(1);
});

test('a fault for an operation that there is not is refused with the one that was meant', async () => {
  const sqs = closing(await startSqs());
  const dynamodb = closing(await startDynamoDb());
  const fault = kinds.hang();
  expect(() => sqs.faults.on('Receivemessage', fault)).toThrow(
    "operation: the service has no 'Receivemessage', so the fault would never be met; write 'ReceiveMessage'.",
  );
  expect(() => dynamodb.faults.on('ReceiveMessage', fault)).toThrow(/write '\*' for any, or one of .*GetItem/);
  sqs.faults.on('*', fault).cancel();
  const other = await faultProxy(sqs.endpoint, { operationOf: () => 'anything' });
  other.on('anything', fault).cancel();
  await other.close();
});
