import { expect, test } from 'vitest';
import { systemClock } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { brokerCases, guardCases, ledgerCases, pairCases, runCases } from '@leasehold/contract';
import { brokerHarness, guardHarness, ledgerHarness, pairHarness } from '@leasehold/contract/mutants';

type Register = (name: string, run: () => Promise<void>) => void;

/** Where the store's clock cannot be moved the cases wait: all at once here, so that it takes as long as the longest. */
async function failures(register: (test: Register) => void, atLeast: number): Promise<readonly string[]> {
  const runs: Promise<string | undefined>[] = [];
  register((name, run) =>
    runs.push(
      run().then(
        () => undefined,
        (error: unknown) => `${name}: ${String(error)}`,
      ),
    ),
  );
  expect(runs.length).toBeGreaterThan(atLeast);
  return (await Promise.all(runs)).filter((failure) => failure !== undefined);
}

const clock = systemClock();
const broker = memoryBroker().capabilities;
const ledger = memoryLedger().capabilities;

test('every case passes in real time too, on the shortest lease', async () => {
  const register = (start: Register): void => {
    runCases(brokerCases, () => brokerHarness({}, undefined, clock), { test: start, capabilities: broker });
    runCases(ledgerCases, () => ledgerHarness({}, undefined, clock), { test: start, capabilities: ledger });
    runCases(guardCases, () => guardHarness(undefined, clock), { test: start, capabilities: undefined });
  };
  expect(await failures(register, 80)).toEqual([]);
});

test('every pair case passes in real time too', async () => {
  const register = (start: Register): void => {
    runCases(pairCases, () => pairHarness({}, {}, clock), { test: start, capabilities: { broker, ledger } });
  };
  expect(await failures(register, 25)).toEqual([]);
}, 60_000);
