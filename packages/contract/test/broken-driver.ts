import { setTimeout as realSleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { runCases, type CaseHarness, type ConformanceCase } from '@leasehold/contract';

/** A driver with one thing wrong, and the cases that have to notice. */
export interface Broken<Harness> {
  readonly wrong: string;
  readonly make: () => Harness;
  /** How the names of cases that must fail begin; others may fail as well. */
  readonly fails: readonly string[];
}

/** The names of the cases that fail on this harness. A case that does not end fails. */
async function failing<Harness extends CaseHarness<object>, Capabilities>(
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  make: () => Harness,
  capabilities: Capabilities,
): Promise<readonly string[]> {
  const failed: string[] = [];
  const runs: [name: string, run: () => Promise<void>][] = [];
  runCases(cases, make, { test: (name, run) => runs.push([name, run]), capabilities });
  await Promise.all(
    runs.map(async ([name, run]) => {
      const stop = new AbortController();
      const tooLong = realSleep(5_000, undefined, { signal: stop.signal }).then(
        () => failed.push(name),
        () => undefined,
      );
      await Promise.race([run().catch(() => failed.push(name)), tooLong]);
      stop.abort();
    }),
  );
  return failed;
}

/** Every broken driver is found out by the cases it names, and every case finds out at least one of them. */
export function findsOut<Harness extends CaseHarness<object>, Capabilities>(
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  broken: readonly (Broken<Harness> & { readonly capabilities: Capabilities })[],
): void {
  const foundOut = new Set<string>();
  for (const { wrong, make, fails, capabilities } of broken) {
    test(`the suite finds out a driver that ${wrong}`, async () => {
      const failed = await failing(cases, make, capabilities);
      for (const name of failed) foundOut.add(name);
      expect(fails.filter((start) => !failed.some((name) => name.startsWith(start)))).toEqual([]);
      expect(failed.length).toBeGreaterThan(0);
    });
  }
  test('no case is one that cannot fail', () => {
    expect(cases.map(({ name }) => name).filter((name) => !foundOut.has(name))).toEqual([]);
  });
}
