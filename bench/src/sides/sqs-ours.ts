import { createLeaseBroker } from '@leasehold/core';
import { memoryLedger } from '@leasehold/core/memory';
import { sqsBroker } from '@leasehold/sqs';
import type { Side, SideOptions } from '../side.ts';
import { onQueue } from './aws-clients.ts';
import { leaseholdSide } from './leasehold.ts';

/** SQS with a ledger in memory. */
export async function openSqsOurs(options: SideOptions): Promise<Side> {
  const { queueUrl = '', servers, concurrency } = options;
  const driver = sqsBroker({ queueUrl, ...servers?.sqs });
  return onQueue(leaseholdSide(createLeaseBroker({ driver, ledger: memoryLedger() }), concurrency), options);
}
