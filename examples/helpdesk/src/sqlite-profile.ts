import { join } from 'node:path';
import { sqliteBroker, sqliteLedger, type SqliteBroker } from '@leasehold/sqlite';
import { isWritable } from './database.ts';
import { buried, type Ground, type GroundAsk, type QueueSight, type SqlitePlace, type Stores } from './place.ts';

/** The name of the database in its folder. */
export const DATABASE = 'demo.sqlite';

const QUEUE = 'helpdesk';

/** Queue, ledger, the service's guard and its tables in one file. */
export async function prepareSqlite({ folder, stopping }: GroundAsk): Promise<Ground> {
  const file = join(folder, DATABASE);
  const place: SqlitePlace = { profile: 'sqlite', file, queue: QUEUE };
  const driver = sqliteBroker({ file, queue: QUEUE });
  await driver.open(stopping.signal);
  return {
    place,
    stores: { driver, ledger: sqliteLedger({ file }) },
    serviceFile: file,
    look: () => look(driver),
    isFree: () => isWritable(file),
    // The folder's owner removes the file, or keeps it.
    remove: () => Promise.resolve(),
  };
}

/** Queue and ledger of the file. */
export function openSqlite({ file, queue }: SqlitePlace): Promise<Stores> {
  return Promise.resolve({ driver: sqliteBroker({ file, queue }), ledger: sqliteLedger({ file }) });
}

async function look(driver: SqliteBroker): Promise<QueueSight> {
  const { visible, delayed, blocked, inFlight } = await driver.depth();
  let page = await driver.deadLetters({ limit: 1_000 });
  const deadLetters = [...page.letters];
  while (page.cursor !== undefined) {
    page = await driver.deadLetters({ limit: 1_000, cursor: page.cursor });
    deadLetters.push(...page.letters);
  }
  return { waiting: visible + delayed + blocked, held: inFlight, deadLetters: deadLetters.map(buried) };
}
