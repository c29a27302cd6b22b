import { createHash } from 'node:crypto';
import { CreateTableCommand, PutItemCommand, UpdateItemCommand, waitUntilTableExists } from '@aws-sdk/client-dynamodb';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Side, SideOptions } from '../side.ts';
import { dynamoDbClient, sqsClient } from './aws-clients.ts';
import { rawLoops } from './sqs-raw.ts';

const LEASE_MS = 90_000;

/** A table with the one key `id`. */
export async function createPlainTable(client: DynamoDBClient, table: string): Promise<void> {
  await client.send(
    new CreateTableCommand({
      TableName: table,
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 30, minDelay: 1, maxDelay: 1 }, { TableName: table });
}

/**
 * The raw loop with the two conditional writes that make a task run once: take it if nobody has, mark it done if it is still ours. There is no
 * renewal, no takeover, no history and no receipt.
 */
export async function openAwsRaw(options: SideOptions): Promise<Side> {
  const { table = '' } = options;
  const dynamodb = dynamoDbClient(options);
  await createPlainTable(dynamodb, table);
  const owner = `raw/${process.pid}`;
  const handler = async (_payload: unknown): Promise<void> => undefined;
  const side = rawLoops(sqsClient(options), options, async ({ Body = '' }) => {
    const event = JSON.parse(Body) as { readonly id: string; readonly data: unknown };
    const now = Date.now();
    await dynamodb.send(
      new PutItemCommand({
        TableName: table,
        Item: {
          id: { S: event.id },
          status: { S: 'running' },
          owner: { S: owner },
          token: { N: '1' },
          expires_at: { N: String(now + LEASE_MS) },
          payload_hash: { S: createHash('sha256').update(JSON.stringify(event.data)).digest('hex') },
          created_at: { N: String(now) },
        },
        ConditionExpression: 'attribute_not_exists(id)',
      }),
    );
    await handler(event.data);
    await dynamodb.send(
      new UpdateItemCommand({
        TableName: table,
        Key: { id: { S: event.id } },
        UpdateExpression: 'SET #status = :done, settled_at = :now, #ttl = :ttl',
        ConditionExpression: '#token = :token AND #owner = :owner AND expires_at > :now',
        ExpressionAttributeNames: { '#status': 'status', '#token': 'token', '#owner': 'owner', '#ttl': 'ttl' },
        ExpressionAttributeValues: {
          ':done': { S: 'done' },
          ':now': { N: String(Date.now()) },
          ':ttl': { N: String(Math.ceil(now / 1_000) + 2_592_000) },
          ':token': { N: '1' },
          ':owner': { S: owner },
        },
      }),
    );
  });
  return {
    ...side,
    async close() {
      dynamodb.destroy();
      await side.close();
    },
  };
}
