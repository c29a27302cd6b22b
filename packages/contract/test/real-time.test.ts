import { expect, test } from 'vitest';
import { systemClock } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { brokerCases, guardCases, ledgerCases, runCases } from '@leasehold/contract';
import { brokerHarness, guardHarness, ledgerHarness } from '@leasehold/contract/mutants';

// Where the store's clock cannot be moved the cases wait: all at once here, so that it takes as long as the longest.
test('every case passes in real time too, on the shortest lease', async () => {
  const clock = systemClock();
  const runs: Promise<string | undefined>[] = [];
  const start = (name: string, run: () => Promise<void>): void => {
    runs.push(
      run().then(
        () => undefined,
        (error: unknown) => `${name}: ${String(error)}`,
      ),
    );
  };
  const options = { test: start };
  runCases(brokerCases, () => brokerHarness({}, undefined, clock), {
    ...options,
    capabilities: memoryBroker().capabilities,
  });
  runCases(ledgerCases, () => ledgerHarness({}, undefined, clock), {
    ...options,
    capabilities: memoryLedger().capabilities,
  });
  runCases(guardCases, () => guardHarness(undefined, clock), { ...options, capabilities: undefined });
  expect(runs.length).toBeGreaterThan(80);
  expect((await Promise.all(runs)).filter((failure) => failure !== undefined)).toEqual([]);
});
