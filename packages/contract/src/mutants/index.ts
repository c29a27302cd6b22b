import { brokerCases, guardCases, ledgerCases, pairCases } from '../index.ts';
import { brokerMutants } from './broker-mutants.ts';
import { guardMutants } from './guard-mutants.ts';
import { ledgerMutants } from './ledger-mutants.ts';
import { pairBrokerMutants } from './pair-broker-mutants.ts';
import { pairLedgerMutants } from './pair-ledger-mutants.ts';
import type { PairMutant } from './pair-mutant.ts';
import { judge, type Verdict } from './mutant.ts';

export { judge, type Mutant, type Verdict } from './mutant.ts';
export {
  brokerHarness,
  guardHarness,
  ledgerHarness,
  pairHarness,
  PAIRS,
  QUEUES,
  type Around,
  type AroundPair,
  type PairOptions,
} from './memory-harness.ts';
export { brokerMutants } from './broker-mutants.ts';
export { guardMutants } from './guard-mutants.ts';
export { ledgerMutants } from './ledger-mutants.ts';

/** Pairs of drivers with one thing wrong each, found out at the level of the protocol. */
export const pairMutants: readonly PairMutant[] = [...pairLedgerMutants, ...pairBrokerMutants];

/** Runs the suite against every broken driver, one after the other: the suite's test of itself. */
export async function* judgeMutants(): AsyncGenerator<
  Verdict & { readonly kind: 'broker' | 'ledger' | 'guard' | 'pair' }
> {
  for (const mutant of brokerMutants) yield { kind: 'broker', ...(await judge(brokerCases, mutant)) };
  for (const mutant of ledgerMutants) yield { kind: 'ledger', ...(await judge(ledgerCases, mutant)) };
  for (const mutant of guardMutants) yield { kind: 'guard', ...(await judge(guardCases, mutant)) };
  for (const mutant of pairMutants) yield { kind: 'pair', ...(await judge(pairCases, mutant)) };
}
