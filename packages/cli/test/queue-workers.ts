import { createLeaseBroker, leaseTiming, type AdoptOptions, type Lease, type LeaseBroker } from '@leasehold/core';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';

/** What work on a database has at hand. */
export interface WorkerParts {
  readonly broker: LeaseBroker;
  /** Enqueues a task and takes it. */
  claim(taskId: string): Promise<Lease>;
  next(): ReturnType<typeof acquire>;
}

/** Works on a queue of a database as workers would, then lets go of it. */
export async function workOn(
  file: string,
  work: (parts: WorkerParts) => Promise<void>,
  queue = 'default',
): Promise<void> {
  const broker = createLeaseBroker({
    driver: sqliteBroker({ file, queue, maxDeliveries: 1 }),
    ledger: sqliteLedger({ file }),
  });
  try {
    await work({
      broker,
      next: () => acquire(broker),
      async claim(taskId) {
        await broker.enqueue([{ type: 'charge', input: { amount: 7 }, taskId }]);
        const got = await acquire(broker);
        if (got?.kind !== 'lease') throw new Error(`no lease but ${got?.kind}`);
        return got;
      },
    });
  } finally {
    await broker.close();
  }
}

/** The next delivery of a queue, if there is one. */
async function acquire(broker: LeaseBroker) {
  const policy: AdoptOptions['policy'] = () => ({
    timing: leaseTiming('10m'),
    attempts: 5,
    retentionMs: broker.retentionMs,
  });
  const [got] = await broker.acquire({ owner: 'desk/1#a', policy, max: 1, leaseMs: 600_000, waitMs: 1_000 });
  return got;
}
