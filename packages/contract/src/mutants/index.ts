import { brokerCases, guardCases, ledgerCases, pairCases } from '../index.ts';
import { brokerMutants } from './broker-mutants.ts';
import { guardMutants } from './guard-mutants.ts';
import { ledgerMutants } from './ledger-mutants.ts';
import { pairBrokerMutants } from './pair-broker-mutants.ts';
import { pairLedgerMutants } from './pair-ledger-mutants.ts';
import type { PairMutant } from './pair-mutant.ts';
import type { CaseHarness, ConformanceCase } from '../conformance-case.ts';
import { judge, type Mutant, type Verdict } from './mutant.ts';

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

/**
 * Runs against every broken driver, one after the other, the cases that name its fault: the suite's test of itself. `judge` runs all of
 * its kind.
 */
export async function* judgeMutants(): AsyncGenerator<
  Verdict & { readonly kind: 'broker' | 'ledger' | 'guard' | 'pair' }
> {
  for (const mutant of brokerMutants) yield { kind: 'broker', ...(await judgeByName(brokerCases, mutant)) };
  for (const mutant of ledgerMutants) yield { kind: 'ledger', ...(await judgeByName(ledgerCases, mutant)) };
  for (const mutant of guardMutants) yield { kind: 'guard', ...(await judgeByName(guardCases, mutant)) };
  for (const mutant of pairMutants) yield { kind: 'pair', ...(await judgeByName(pairCases, mutant)) };
}

function judgeByName<Harness extends CaseHarness<object>, Capabilities>(
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  mutant: Mutant<Harness, Capabilities>,
): Promise<Verdict> {
  return judge(
    cases.filter(({ name }) => mutant.fails.some((start) => name.startsWith(start))),
    mutant,
  );
}
