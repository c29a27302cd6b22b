import { setTimeout as realSleep } from 'node:timers/promises';
import type { CaseHarness, ConformanceCase } from '../conformance-case.ts';
import { runCases } from '../run-cases.ts';

/** A driver with one thing wrong, and the cases that have to notice. */
export interface Mutant<Harness, Capabilities> {
  readonly wrong: string;
  /** A harness whose drivers have the fault. */
  readonly make: () => Harness;
  /** How the names of the cases begin that have to fail; others may fail as well. */
  readonly fails: readonly string[];
  readonly capabilities: Capabilities;
}

/** What the suite made of a mutant. */
export interface Verdict {
  readonly wrong: string;
  /** Every case that failed. */
  readonly failed: readonly string[];
  /** Named cases that should have failed and passed. */
  readonly missed: readonly string[];
}

/** A case that takes longer is taken to hang, which counts as failing. */
const TOO_LONG_MS = 5_000;

/** Runs every case that applies against a mutant. */
export async function judge<Harness extends CaseHarness<object>, Capabilities>(
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  mutant: Mutant<Harness, Capabilities>,
): Promise<Verdict> {
  const failed: string[] = [];
  const runs: [name: string, run: () => Promise<void>][] = [];
  runCases(cases, mutant.make, { test: (name, run) => runs.push([name, run]), capabilities: mutant.capabilities });
  await Promise.all(
    runs.map(async ([name, run]) => {
      const stop = new AbortController();
      const tooLong = realSleep(TOO_LONG_MS, undefined, { signal: stop.signal }).then(
        () => failed.push(name),
        () => undefined,
      );
      await Promise.race([run().catch(() => failed.push(name)), tooLong]);
      stop.abort();
    }),
  );
  const missed = mutant.fails.filter((start) => !failed.some((name) => name.startsWith(start)));
  return { wrong: mutant.wrong, failed, missed: failed.length === 0 ? ['any case at all'] : missed };
}
