import { join } from 'node:path';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import { isWritable } from '../../examples/helpdesk/src/database.ts';
import { readAll } from './dead-letters.ts';
import type { Connection } from './drivers.ts';
import type { Profile } from './profiles.ts';

/** One SQLite file, shared by all processes. */
export const local: Profile = {
  leaseMs: 4_000,
  clockErrorMs: 20,
  brokerDelayMs: 1_000,
  links: { worker: [], receiver: [], producer: [] },
  hasServers: false,
  async open(directory) {
    const [file, receiverFile] = [join(directory, 'leasehold.db'), join(directory, 'receiver.db')];
    const connection: Connection = { profile: 'local', file, queue: 'chaos', receiverFile };
    const broker = sqliteBroker({ file, queue: connection.queue });
    const ledger = sqliteLedger({ file });
    await broker.open(AbortSignal.timeout(10_000));
    return {
      ports: {},
      connection: () => connection,
      mayStop: () => isWritable(file),
      ledger,
      async left() {
        const { visible, inFlight, delayed, blocked } = await broker.depth();
        return visible + inFlight + delayed + blocked;
      },
      deadLetters: () => readAll((cursor) => broker.deadLetters({ ...(cursor !== undefined && { cursor }) })),
      async close() {
        await broker.close();
        await ledger.close();
      },
    };
  },
};
