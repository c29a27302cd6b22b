import { join } from 'node:path';
import { createLeaseBroker } from '@leasehold/core';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import type { Side, SideOptions } from '../side.ts';
import { leaseholdSide } from './leasehold.ts';

/** Broker and ledger in one file. */
export async function openSqliteOurs({ directory, concurrency }: SideOptions): Promise<Side> {
  const file = join(directory, 'leasehold.db');
  const broker = createLeaseBroker({ driver: sqliteBroker({ file }), ledger: sqliteLedger({ file }) });
  return leaseholdSide(broker, concurrency);
}
