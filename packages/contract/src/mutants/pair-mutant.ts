import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import type { PairCapabilities, PairHarness } from '../conformance-case.ts';
import type { Mutant } from './mutant.ts';
import type { PairOptions } from './memory-harness.ts';

/** A pair of drivers with one thing wrong. */
export type PairMutant = Mutant<PairHarness, PairCapabilities>;

/** What a pair in memory declares. */
export function declared({ queue, table }: PairOptions): PairCapabilities {
  return { broker: memoryBroker(queue).capabilities, ledger: memoryLedger(table).capabilities };
}
