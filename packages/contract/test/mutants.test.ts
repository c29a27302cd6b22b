import { expect, test } from 'vitest';
import {
  brokerCases,
  guardCases,
  ledgerCases,
  pairCases,
  type CaseHarness,
  type ConformanceCase,
} from '@leasehold/contract';
import {
  brokerMutants,
  guardMutants,
  judge,
  ledgerMutants,
  pairMutants,
  type Mutant,
} from '@leasehold/contract/mutants';

/** Every broken driver is found out by the cases it names, and every case finds out at least one of them. */
function findsOut<Harness extends CaseHarness<object>, Capabilities>(
  kind: string,
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  mutants: readonly Mutant<Harness, Capabilities>[],
): void {
  const foundOut = new Set<string>();
  for (const mutant of mutants) {
    test(`the suite finds out a ${kind} driver that ${mutant.wrong}`, async () => {
      const { failed, missed } = await judge(cases, mutant);
      for (const name of failed) foundOut.add(name);
      expect(missed).toEqual([]);
    });
  }
  test(`no ${kind} case is one that cannot fail`, () => {
    expect(cases.map(({ name }) => name).filter((name) => !foundOut.has(name))).toEqual([]);
  });
}

findsOut('broker', brokerCases, brokerMutants);
findsOut('ledger', ledgerCases, ledgerMutants);
findsOut('guard', guardCases, guardMutants);
findsOut('pair', pairCases, pairMutants);

test.each([
  /stale token accepted/,
  /lapsed lease renewed/,
  /token reused/,
  /settled twice/,
  /busy delivery run/,
  /own lost write is not recognised/,
  /late write of an older owner applied/,
  /ignores the delay/,
  /swallows a batch entry failure/,
  /drops an unknown field/,
])('a pair of drivers with this fault is among those that are judged: %s', (fault) => {
  expect(pairMutants.map(({ wrong }) => wrong)).toContainEqual(expect.stringMatching(fault));
});
