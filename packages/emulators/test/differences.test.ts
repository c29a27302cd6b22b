// What the README says the servers behind the proxy do otherwise than AWS. A newer server that does it right fails here: mend the README.
import {
  CreateTableCommand,
  DescribeTimeToLiveCommand,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  TransactGetItemsCommand,
  UpdateTimeToLiveCommand,
  type DynamoDBClient,
} from '@aws-sdk/client-dynamodb';
import {
  ListDeadLetterSourceQueuesCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  StartMessageMoveTaskCommand,
} from '@aws-sdk/client-sqs';
import { beforeAll, describe, expect, test } from 'vitest';
import { dynamoDbClient, dynamoDbGround, refusal, sqsGround } from './started.ts';

describe('SQS', () => {
  const ground = sqsGround();

  test('what is missing: moving dead letters, and listing the queues of a dead-letter queue', async () => {
    const queue = await ground.queue('missing');
    for (const work of [
      queue.client.send(new ListDeadLetterSourceQueuesCommand({ QueueUrl: queue.url })),
      queue.client.send(new StartMessageMoveTaskCommand({ SourceArn: 'arn:aws:sqs:us-east-1:000000000000:missing' })),
    ]) {
      expect((await refusal(work)).name).toBe('InvalidAction');
    }
  });

  test('what is not kept: the trace header, and the group of a message on a standard queue', async () => {
    const queue = await ground.queue('not-kept');
    await queue.client.send(
      new SendMessageCommand({
        QueueUrl: queue.url,
        MessageBody: 'a',
        MessageGroupId: 'tenant',
        MessageSystemAttributes: {
          AWSTraceHeader: { DataType: 'String', StringValue: 'Root=1-5759e988-bd862e3fe1be46a9' },
        },
      }),
    );
    const [message] = await queue.receive();
    expect(Object.keys(message?.Attributes ?? {}).sort()).toEqual([
      'ApproximateFirstReceiveTimestamp',
      'ApproximateReceiveCount',
      'SenderId',
      'SentTimestamp',
    ]);
  });

  test('what is not refused: eleven attributes, a delay beyond 900 seconds, an empty body in a batch', async () => {
    const queue = await ground.queue('accepted');
    const names = Array.from({ length: 11 }, (_, index) => `name${index}`);
    const attributes = Object.fromEntries(names.map((name) => [name, { DataType: 'String', StringValue: 'x' }]));
    await queue.client.send(
      new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'a', MessageAttributes: attributes }),
    );
    await queue.send('b', { DelaySeconds: 100_000 });
    const { Successful } = await queue.client.send(
      new SendMessageBatchCommand({ QueueUrl: queue.url, Entries: [{ Id: 'empty', MessageBody: '' }] }),
    );
    expect(Successful?.length).toBe(1);
  });

  test('messages never grow too old', async () => {
    const queue = await ground.queue('retention', { attributes: { MessageRetentionPeriod: '60' } });
    await queue.send('a');
    ground.time.now += 3_600_000;
    expect(await queue.bodies()).toEqual(['a']);
  });
});

describe('DynamoDB', () => {
  const ground = dynamoDbGround();
  let client: DynamoDBClient;

  beforeAll(async () => {
    const setup = dynamoDbClient(ground.server);
    await setup.send(
      new CreateTableCommand({
        TableName: 'items',
        KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
        AttributeDefinitions: [
          { AttributeName: 'id', AttributeType: 'S' },
          { AttributeName: 'kind', AttributeType: 'S' },
        ],
        GlobalSecondaryIndexes: [
          {
            IndexName: 'by-kind',
            KeySchema: [{ AttributeName: 'kind', KeyType: 'HASH' }],
            Projection: { ProjectionType: 'ALL' },
          },
        ],
        BillingMode: 'PAY_PER_REQUEST',
      }),
    );
  });

  test('what is missing: transactions, and setting a time to live', async () => {
    client = dynamoDbClient(ground.server);
    for (const work of [
      client.send(
        new TransactGetItemsCommand({ TransactItems: [{ Get: { TableName: 'items', Key: { id: { S: 'a' } } } }] }),
      ),
      client.send(
        new UpdateTimeToLiveCommand({
          TableName: 'items',
          TimeToLiveSpecification: { AttributeName: 'expires', Enabled: true },
        }),
      ),
    ]) {
      expect((await refusal(work)).name).toBe('UnknownOperationException');
    }
    const { TimeToLiveDescription } = await client.send(new DescribeTimeToLiveCommand({ TableName: 'items' }));
    expect(TimeToLiveDescription?.TimeToLiveStatus).toBe('DISABLED');
  });

  test('a refused condition never brings the item, and an index is as current as its table', async () => {
    client = dynamoDbClient(ground.server);
    const put = new PutItemCommand({
      TableName: 'items',
      Item: { id: { S: 'a' }, kind: { S: 'k' } },
      ConditionExpression: 'attribute_not_exists(id)',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    });
    await client.send(put);
    const error = await refusal(client.send(put));
    expect(error.name).toBe('ConditionalCheckFailedException');
    expect('Item' in error && error.Item).toBeFalsy();
    const query = new QueryCommand({
      TableName: 'items',
      IndexName: 'by-kind',
      KeyConditionExpression: 'kind = :k',
      ExpressionAttributeValues: { ':k': { S: 'k' } },
    });
    expect((await client.send(query)).Count).toBe(1);
  });

  test('what is as in AWS: reserved words, the largest item, numbers of 38 digits', async () => {
    client = dynamoDbClient(ground.server);
    const put = (item: Record<string, { S: string } | { N: string }>, condition?: string): Promise<unknown> =>
      client.send(
        new PutItemCommand({
          TableName: 'items',
          Item: { id: { S: 'b' }, ...item },
          ...(condition === undefined ? {} : { ConditionExpression: condition }),
        }),
      );
    expect((await refusal(put({}, 'attribute_not_exists(ttl)'))).message).toContain('reserved keyword');
    expect((await refusal(put({ text: { S: 'x'.repeat(400 * 1024) } }))).message).toContain('Item size');
    expect((await refusal(put({ n: { N: '1'.repeat(39) } }))).name).toBe('ValidationException');
    await put({ n: { N: '1'.repeat(38) } });
    const get = new GetItemCommand({ TableName: 'items', Key: { id: { S: 'b' } }, ConsistentRead: true });
    expect((await client.send(get)).Item?.['n']?.N).toBe('1'.repeat(38));
  });
});
