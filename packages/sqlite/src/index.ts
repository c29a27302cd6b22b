export { systemBootClock, type BootClock } from './boot-clock.ts';
export { sqliteBroker, type SqliteBroker, type SqliteBrokerOptions } from './broker.ts';
export type { DeadLetterPage, QueueDepth, SqliteDeadLetter } from './dead-letters.ts';
export type { SqliteFileOptions } from './file-options.ts';
export {
  sqliteGuard,
  type SqliteGuard,
  type SqliteGuardOptions,
  type TransactAsk,
  type TransactionDatabase,
  type TransactVerdict,
} from './guard.ts';
export type { CorruptRecord } from './ledger-list.ts';
export { sqliteLedger, type SqliteLedger, type SqliteLedgerOptions } from './ledger.ts';
