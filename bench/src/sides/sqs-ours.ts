import { createLeaseBroker } from '@leasehold/core';
import { memoryLedger } from '@leasehold/core/memory';
import { sqsBroker } from '@leasehold/sqs';
import type { Side, SideOptions } from '../side.ts';
import { fillQueue, sqsClient } from './aws-clients.ts';
import { leaseholdSide } from './leasehold.ts';

/** SQS with a ledger in memory. */
export async function openSqsOurs(options: SideOptions): Promise<Side> {
  const { queueUrl = '', servers, concurrency } = options;
  const driver = sqsBroker({ queueUrl, ...servers?.sqs });
  const side = leaseholdSide(createLeaseBroker({ driver, ledger: memoryLedger() }), concurrency);
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
