import { createLeaseBroker } from '@leasehold/core';
import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { sqsBroker } from '@leasehold/sqs';
import type { Side, SideOptions } from '../side.ts';
import { onQueue } from './aws-clients.ts';
import { leaseholdSide } from './leasehold.ts';

/** SQS with a ledger on DynamoDB. */
export async function openAwsOurs(options: SideOptions): Promise<Side> {
  const { queueUrl = '', table = '', servers, concurrency } = options;
  await createTable({ table, ...servers?.dynamodb });
  const ledger = dynamoDbLedger({ table, ...servers?.dynamodb });
  const driver = sqsBroker({ queueUrl, ...servers?.sqs });
  return onQueue(leaseholdSide(createLeaseBroker({ driver, ledger }), concurrency), options);
}
