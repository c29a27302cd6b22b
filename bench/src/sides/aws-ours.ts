import { createLeaseBroker } from '@leasehold/core';
import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { sqsBroker } from '@leasehold/sqs';
import type { Side, SideOptions } from '../side.ts';
import { fillQueue, sqsClient } from './aws-clients.ts';
import { leaseholdSide } from './leasehold.ts';

/** SQS with a ledger on DynamoDB. */
export async function openAwsOurs(options: SideOptions): Promise<Side> {
  const { queueUrl = '', table = '', servers, concurrency } = options;
  await createTable({ table, ...servers?.dynamodb });
  const ledger = dynamoDbLedger({ table, ...servers?.dynamodb });
  const driver = sqsBroker({ queueUrl, ...servers?.sqs });
  const side = leaseholdSide(createLeaseBroker({ driver, ledger }), concurrency);
  const producer = sqsClient(options);
  let filled = 0;
  return {
    ...side,
    async fill(count) {
      await fillQueue(producer, queueUrl, filled, count);
      filled += count;
    },
    async close() {
      producer.destroy();
      await side.close();
    },
  };
}
