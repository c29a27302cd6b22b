import { GetItemCommand, PutItemCommand, CreateTableCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { kinds } from '@leasehold/emulators';
import { describe, expect, test } from 'vitest';
import { dynamoDbClient, dynamoDbGround, refusal, sqsGround, until } from './started.ts';

const ground = sqsGround();
const { time } = ground;
const tables = dynamoDbGround();
let names = 0;

async function queueWith(...bodies: string[]): Promise<Awaited<ReturnType<typeof ground.queue>>> {
  const queue = await ground.queue(`kinds-${++names}`, { visibilitySeconds: 30 });
  if (bodies.length > 0) await queue.sendAll(bodies);
  return queue;
}

async function handlesOf(queue: Awaited<ReturnType<typeof queueWith>>): Promise<string[]> {
  return (await queue.receive()).map(({ ReceiptHandle }) => ReceiptHandle ?? '');
}

/** What is left once every lease has lapsed. */
async function leftIn(queue: Awaited<ReturnType<typeof queueWith>>): Promise<string[]> {
  time.now += 30_000;
  return (await queue.bodies()).sort();
}

describe('refused before it is applied', () => {
  test.each([
    ['throttled', 'RequestThrottled', 403],
    ['unavailable', 'ServiceUnavailable', 503],
    ['expired', 'ExpiredTokenException', 403],
    ['denied', 'AccessDeniedException', 403],
    ['not-found', 'QueueDoesNotExist', 400],
    ['invalid', 'InvalidParameterValue', 400],
  ] as const)('SQS: %s is %s', async (failure, name, status) => {
    const queue = await queueWith();
    const planned = ground.server.faults.on('SendMessage', kinds.failBefore(failure), { times: 2 });
    for (let call = 0; call < 2; call++) {
      const error = await refusal(queue.send('a'));
      expect(error.name).toBe(name);
      expect(error).toMatchObject({ $metadata: { httpStatusCode: status } });
    }
    await queue.send('b');
    expect(planned.hits).toBe(2);
    expect(await queue.bodies()).toEqual(['b']);
  });

  test.each([
    ['throttled', 'ProvisionedThroughputExceededException', 400],
    ['unavailable', 'InternalServerError', 500],
    ['expired', 'ExpiredTokenException', 400],
    ['denied', 'AccessDeniedException', 400],
    ['not-found', 'ResourceNotFoundException', 400],
    ['invalid', 'ValidationException', 400],
  ] as const)('DynamoDB: %s is %s', async (failure, name, status) => {
    const { server } = tables;
    const planned = server.faults.on('GetItem', kinds.failBefore(failure));
    const error = await refusal(
      dynamoDbClient(server).send(new GetItemCommand({ TableName: 'nothing', Key: { id: { S: 'a' } } })),
    );
    expect(error.name).toBe(name);
    expect(error).toMatchObject({ $metadata: { httpStatusCode: status } });
    expect(planned.hits).toBe(1);
  });

  test('an error of any other name', async () => {
    const queue = await queueWith();
    ground.server.faults.on(
      'SendMessage',
      kinds.failBefore({ type: 'KmsThrottled', message: 'slow down', status: 418 }),
    );
    const error = await refusal(queue.send('a'));
    expect(error).toMatchObject({ name: 'KmsThrottled', message: 'slow down', $metadata: { httpStatusCode: 418 } });
  });
});

test('applied, and the answer lost: the client sees a broken connection', async () => {
  const queue = await queueWith('a');
  const [handle = ''] = await handlesOf(queue);
  const lost = ground.server.faults.on('DeleteMessageBatch', kinds.dropAnswer());
  expect((await refusal(queue.removeAll([handle]))).code).toBe('ECONNRESET');
  expect(lost.hits).toBe(1);
  expect(ground.server.faults.log.at(-1)).toMatchObject({ operation: 'DeleteMessageBatch', status: 'none' });
  expect(await leftIn(queue)).toEqual([]);
});

test('a conditional write that is applied without an answer is refused when it is repeated', async () => {
  const { server } = tables;
  const client = dynamoDbClient(server);
  await client.send(
    new CreateTableCommand({
      TableName: 'records',
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  const put = new PutItemCommand({
    TableName: 'records',
    Item: { id: { S: 'a' }, version: { N: '1' } },
    ConditionExpression: 'attribute_not_exists(id)',
  });
  server.faults.on('PutItem', kinds.dropAnswer());
  expect((await refusal(client.send(put))).code).toBe('ECONNRESET');
  expect((await refusal(client.send(put))).name).toBe('ConditionalCheckFailedException');

  // Applied late, after its client has given up: the newer write is refused.
  const update = (from: number, to: number): UpdateItemCommand =>
    new UpdateItemCommand({
      TableName: 'records',
      Key: { id: { S: 'a' } },
      UpdateExpression: 'SET version = :to',
      ConditionExpression: 'version = :from',
      ExpressionAttributeValues: { ':from': { N: String(from) }, ':to': { N: String(to) } },
    });
  server.faults.on('UpdateItem', kinds.applyLater(5_000));
  expect((await refusal(client.send(update(1, 2)))).code).toBe('ECONNRESET');
  const read = async (): Promise<string | undefined> => {
    const get = new GetItemCommand({ TableName: 'records', Key: { id: { S: 'a' } }, ConsistentRead: true });
    return (await client.send(get)).Item?.['version']?.N;
  };
  expect(await read()).toBe('1');
  tables.time.now += 5_000;
  await server.settle();
  expect(await read()).toBe('2');
  expect((await refusal(client.send(update(1, 3)))).name).toBe('ConditionalCheckFailedException');
});

test('an answer that comes late: applied at once', async () => {
  const { server } = ground;
  const queue = await queueWith();
  server.faults.on('SendMessage', kinds.delayAnswer(2_000));
  let answered = false;
  const sending = queue.send('a').then(() => (answered = true));
  await until(() => server.faults.calls('SendMessage') === 1);
  await server.settle();
  expect(await queue.bodies()).toEqual(['a']);
  time.now += 1_999;
  await server.settle();
  expect(answered).toBe(false);
  time.now += 1;
  await server.settle();
  await sending;
});

test('a request that takes long: applied late, and not at all when its client gives up before', async () => {
  const { server } = ground;
  const queue = await queueWith();
  const slow = server.faults.on('SendMessage', kinds.delayCall(2_000), { times: 2 });
  const sending = queue.send('a');
  await until(() => slow.hits === 1);
  await server.settle();
  expect(await queue.bodies()).toEqual([]);
  time.now += 2_000;
  await server.settle();
  await sending;
  expect(await queue.bodies()).toEqual(['a']);

  const given = new AbortController();
  const abandoned = queue.send('b', {}, given.signal);
  await until(() => slow.hits === 2);
  given.abort();
  expect((await refusal(abandoned)).name).toBe('AbortError');
  await until(() => server.faults.log.at(-1)?.status === 'none');
  time.now += 2_000;
  await server.settle();
  expect(await queue.bodies()).toEqual([]);
});

test('a request that is applied after its client has given up', async () => {
  const { server } = ground;
  const queue = await queueWith();
  const late = server.faults.on('SendMessage', kinds.applyLater(3_000, 'on-abort'));
  const given = new AbortController();
  const sending = queue.send('a', {}, given.signal);
  await until(() => late.hits === 1);
  given.abort();
  expect((await refusal(sending)).name).toBe('AbortError');
  await server.settle();
  expect(await queue.bodies()).toEqual([]);
  time.now += 3_000;
  await server.settle();
  expect(await queue.bodies()).toEqual(['a']);
});

test('a poll that hangs: nothing is taken, nothing answered, until its client gives up', async () => {
  const { server } = ground;
  const queue = await queueWith('a');
  const hung = server.faults.on('ReceiveMessage', kinds.hang());
  const given = new AbortController();
  const poll = queue.receive(20, 10, undefined, given.signal);
  await until(() => hung.hits === 1);
  time.now += 3_600_000;
  // Held by the fault: it waits, and nothing is left to settle.
  await server.settle();
  expect(server.waiting).toBe(1);
  given.abort();
  expect((await refusal(poll)).name).toBe('AbortError');
  await until(() => server.waiting === 0);
  expect(await queue.bodies()).toEqual(['a']);
});

test('entries that fail inside a 200 are not applied, the others are', async () => {
  const { faults } = ground.server;
  const queue = await queueWith('a', 'b', 'c');
  const handles = await handlesOf(queue);
  faults.on(
    'DeleteMessageBatch',
    kinds.failEntries({ code: 'InternalError' }, (index) => index < 2),
  );
  expect(await queue.removeAll(handles)).toEqual(['InternalError', 'InternalError', 'ok']);
  faults.on('ChangeMessageVisibilityBatch', kinds.failEntries('ReceiptHandleIsInvalid'));
  expect(await queue.extendAll(handles.slice(0, 2), 600)).toEqual(['ReceiptHandleIsInvalid', 'ReceiptHandleIsInvalid']);
  // The failed extends did not prolong anything.
  expect(await leftIn(queue)).toEqual(['a', 'b']);
});

test('entries of a batch of messages that fail are not sent', async () => {
  const { faults } = ground.server;
  const queue = await queueWith();
  faults.on(
    'SendMessageBatch',
    kinds.failEntries({ code: 'Bad', senderFault: true }, (_, entry) => entry['MessageBody'] === 'b'),
  );
  await queue.sendAll(['a', 'b', 'c']);
  expect((await queue.bodies()).sort()).toEqual(['a', 'c']);
});

test('a 200 without the list of successes is applied all the same', async () => {
  const queue = await queueWith('a', 'b');
  ground.server.faults.on('DeleteMessageBatch', kinds.unconfirmedEntries());
  expect(await queue.removeAll(await handlesOf(queue))).toEqual(['none', 'none']);
  expect(await leftIn(queue)).toEqual([]);
});

test('an OK that has no effect, and an error of a handle that is good', async () => {
  const { faults } = ground.server;
  const queue = await queueWith('a', 'b');
  const [a = '', b = ''] = await handlesOf(queue);
  for (const operation of ['DeleteMessage', 'DeleteMessageBatch', 'ChangeMessageVisibility']) {
    faults.on(operation, kinds.pretend('done'));
  }
  await queue.remove(a);
  expect(await queue.removeAll([a, b])).toEqual(['ok', 'ok']);
  await queue.extend(a, 600);
  faults.on('DeleteMessage', kinds.pretend('gone'));
  faults.on('DeleteMessageBatch', kinds.pretend('gone'));
  faults.on('ChangeMessageVisibility', kinds.pretend({ type: 'MessageNotInflight', message: 'not in flight' }));
  expect(await refusal(queue.remove(a))).toMatchObject({
    name: 'InvalidParameterValue',
    message: expect.stringContaining('The receipt handle has expired') as string,
  });
  expect(await queue.removeAll([a, b])).toEqual(['InvalidParameterValue', 'InvalidParameterValue']);
  expect(await refusal(queue.extend(a, 600))).toMatchObject({ name: 'MessageNotInflight', message: 'not in flight' });
  expect(await leftIn(queue)).toEqual(['a', 'b']);
});

test('a message is delivered twice, the second time under a new handle', async () => {
  const { faults } = ground.server;
  const queue = await queueWith('a');
  faults.on('ReceiveMessage', kinds.duplicateDelivery());
  const [first] = await queue.receive();
  const [second] = await queue.receive();
  expect(second?.MessageId).toBe(first?.MessageId);
  expect(second?.ReceiptHandle).not.toBe(first?.ReceiptHandle);
  expect(second?.Attributes?.['ApproximateReceiveCount']).toBe('2');
  // The first handle is stale: its delete is answered OK and deletes nothing.
  await queue.remove(first?.ReceiptHandle ?? '');
  expect(await leftIn(queue)).toEqual(['a']);
});
