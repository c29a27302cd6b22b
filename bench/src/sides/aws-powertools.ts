import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { CreateTableCommand, waitUntilTableExists, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Message } from '@aws-sdk/client-sqs';
import type { Side, SideOptions } from '../side.ts';
import { dynamoDbClient, sqsClient } from './aws-clients.ts';
import { consumerSide } from './sqs-consumer.ts';

interface Event {
  readonly id: string;
  readonly data: { readonly n: number };
}

/** A table with the one key `id`, as its documentation asks for. */
async function createPlainTable(client: DynamoDBClient, table: string): Promise<void> {
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

/** One Consumer whose handler is made idempotent by the event's id, over a DynamoDB table, as the documentation of both says. */
export async function openAwsPowertools(options: SideOptions): Promise<Side> {
  const { table = '' } = options;
  const dynamodb = dynamoDbClient(options);
  await createPlainTable(dynamodb, table);
  const config = new IdempotencyConfig({ eventKeyJmesPath: 'id', throwOnNoIdempotencyKey: true });
  // Where it runs is not Lambda; without a remaining time it would warn at every call.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 90_000 } as Parameters<
    IdempotencyConfig['registerLambdaContext']
  >[0]);
  const handle = makeIdempotent(async (event: Event) => ({ n: event.data.n }), {
    persistenceStore: new DynamoDBPersistenceLayer({ tableName: table, awsSdkV3Client: dynamodb }),
    config,
  });
  const side = consumerSide(sqsClient(options), options, (done) => ({
    async handleMessage(message: Message) {
      await handle(JSON.parse(message.Body ?? '') as Event);
      done(1);
      return message;
    },
  }));
  return {
    ...side,
    async close() {
      dynamodb.destroy();
      await side.close();
    },
  };
}
