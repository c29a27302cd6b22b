export { memoryBroker, type MemoryBroker, type MemoryBrokerOptions } from './memory-broker.ts';
export { memoryQueue, type MemoryDeadLetter, type MemoryMessage, type MemoryQueue } from './memory-queue.ts';
export {
  memoryLedger,
  memoryTable,
  type MemoryLedger,
  type MemoryLedgerOptions,
  type MemoryTable,
} from './memory-ledger.ts';
export {
  memoryGuard,
  memoryGuardState,
  type MemoryGuard,
  type MemoryGuardKey,
  type MemoryGuardOptions,
  type MemoryGuardState,
} from './memory-guard.ts';
