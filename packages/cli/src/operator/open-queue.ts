import { createLeaseBroker, type LeaseBroker, type OperatorParts } from '@leasehold/core';
import { sqliteBroker, type SqliteBroker } from '@leasehold/sqlite';
import { queueName } from './queue-name.ts';
import { withLedger, type OpenLedger } from '../open-ledger.ts';

/** A ledger and its queue. */
export interface OpenQueue extends OpenLedger {
  readonly driver: SqliteBroker;
  readonly broker: LeaseBroker;
  /** For sweep and redrive. */
  readonly parts: OperatorParts;
}

/** Opens the database of `--db` and the queue of `--queue` for the time of `work`. */
export async function withQueue<Result>(
  options: { readonly db?: string; readonly queue?: string },
  work: (open: OpenQueue) => Promise<Result>,
): Promise<Result> {
  return withLedger(options.db, async (open) => {
    const driver = sqliteBroker({ file: open.file, queue: queueName(open.file, options.queue) });
    const broker = createLeaseBroker({ driver, ledger: open.ledger });
    try {
      return await work({ ...open, driver, broker, parts: { ledger: open.ledger, driver, broker } });
    } finally {
      await broker.drain();
      await driver.close();
    }
  });
}
