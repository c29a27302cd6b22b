import { describe, expect, test } from 'vitest';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { faultPlan, faultyBroker, faultyGuard, faultyLedger } from '@leasehold/core/testing';
import { brokerCases, guardCases, ledgerCases, runCases } from '@leasehold/contract';
import { brokerHarness, guardHarness, ledgerHarness, QUEUES } from '@leasehold/contract/mutants';

const CLOCK_ERRORS = [0, 750];

for (const [name, options] of Object.entries(QUEUES)) {
  const { capabilities } = memoryBroker(options);
  describe(`memoryBroker: ${name}`, () => {
    runCases(brokerCases, () => brokerHarness(options), { test, capabilities });
  });
  describe(`memoryBroker: ${name}, behind a wrapper without faults`, () => {
    runCases(brokerCases, () => brokerHarness(options, (inner, clock) => faultyBroker(inner, faultPlan(), clock)), {
      test,
      capabilities,
    });
  });
}

for (const clockErrorMs of CLOCK_ERRORS) {
  const { capabilities } = memoryLedger({ clockErrorMs });
  describe(`memoryLedger: clock error ${clockErrorMs} ms`, () => {
    runCases(ledgerCases, () => ledgerHarness({ clockErrorMs }), { test, capabilities });
  });
  describe(`memoryLedger: clock error ${clockErrorMs} ms, behind a wrapper without faults`, () => {
    const around = () => ledgerHarness({ clockErrorMs }, (inner, clock) => faultyLedger(inner, faultPlan(), clock));
    runCases(ledgerCases, around, { test, capabilities });
  });
}

describe('memoryGuard', () => {
  runCases(guardCases, () => guardHarness(), { test, capabilities: undefined });
});

describe('memoryGuard, behind a wrapper without faults', () => {
  const around = () => guardHarness((inner, clock) => faultyGuard(inner, faultPlan(), clock));
  runCases(guardCases, around, { test, capabilities: undefined });
});

test('every case applies to one of the queues at least, and names are unique', () => {
  const applying = Object.values(QUEUES).flatMap((options) =>
    runCases(brokerCases, () => brokerHarness(options), {
      test: () => undefined,
      capabilities: memoryBroker(options).capabilities,
    }),
  );
  expect(brokerCases.map(({ name }) => name).filter((name) => !applying.includes(name))).toEqual([]);
  for (const cases of [brokerCases, ledgerCases, guardCases]) {
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
  }
});

test('a suite that was told other capabilities than the driver declares fails', async () => {
  const runs: (() => Promise<void>)[] = [];
  const { capabilities } = memoryBroker({ ordering: true });
  const register = (_name: string, run: () => Promise<void>) => runs.push(run);
  runCases(brokerCases, () => brokerHarness({}), { test: register, capabilities });
  await expect(runs[0]?.()).rejects.toThrow(/of a group one message at a time/);
});
