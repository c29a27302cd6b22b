import { describe, expect, test } from 'vitest';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { faultPlan, faultyBroker, faultyLedger } from '@leasehold/core/testing';
import { pairCases, runCases, type PairCapabilities } from '@leasehold/contract';
import { PAIRS, pairHarness, type AroundPair, type PairOptions } from '@leasehold/contract/mutants';

const declared = ({ queue, table }: PairOptions): PairCapabilities => ({
  broker: memoryBroker(queue).capabilities,
  ledger: memoryLedger(table).capabilities,
});
const WITHOUT_FAULTS: AroundPair = {
  broker: (inner, clock) => faultyBroker(inner, faultPlan(), clock),
  ledger: (inner, clock) => faultyLedger(inner, faultPlan(), clock),
};
const applying = new Set<string>();

for (const [name, options] of Object.entries(PAIRS)) {
  const capabilities = declared(options);
  describe(`memory pair: ${name}`, () => {
    for (const applies of runCases(pairCases, () => pairHarness(options), { test, capabilities }))
      applying.add(applies);
  });
  describe(`memory pair: ${name}, behind wrappers without faults`, () => {
    runCases(pairCases, () => pairHarness(options, WITHOUT_FAULTS), { test, capabilities });
  });
}

test('every pair case applies to one of the pairs at least, and names are unique', () => {
  expect(pairCases.map(({ name }) => name).filter((name) => !applying.has(name))).toEqual([]);
  expect(new Set(pairCases.map(({ name }) => name)).size).toBe(pairCases.length);
});
