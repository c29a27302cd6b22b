import type { BrokerDriver, GuardStore, LedgerDriver } from '@leasehold/core';
import { sqliteBroker, sqliteGuard, sqliteLedger, type SqliteGuard } from '@leasehold/sqlite';

/** How to reach broker, ledger and guard store: plain data, for a child process to build its drivers from. */
export type Connection = LocalConnection;

export interface LocalConnection {
  readonly profile: 'local';
  readonly file: string;
  readonly queue: string;
  /** The receiver's own file: its rows, and the guard's memory beside them. */
  readonly receiverFile: string;
}

/** The drivers of one process. */
export interface Drivers {
  broker(): BrokerDriver;
  ledger(): LedgerDriver;
  /** `transactional` where effect and key can be committed together, `plain` where not. */
  guard(): { readonly transactional: SqliteGuard } | { readonly plain: GuardStore };
}

/** Builds a process's drivers. */
export function driversOf(connection: Connection): Drivers {
  const { file, queue, receiverFile } = connection;
  return {
    broker: () => sqliteBroker({ file, queue }),
    ledger: () => sqliteLedger({ file }),
    guard: () => ({ transactional: sqliteGuard({ file: receiverFile, embed: true }) }),
  };
}
