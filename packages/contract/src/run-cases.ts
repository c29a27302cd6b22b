import type { ConformanceCase } from './conformance-case.ts';

/** How to register cases. */
export interface RunOptions<Capabilities> {
  /** `test` of vitest, of `node:test`, or anything that takes a name and an async function. */
  readonly test: (name: string, run: () => Promise<void>) => unknown;
  /** What the driver under test declares; only this decides which cases apply. `undefined` for guard stores, which declare nothing. */
  readonly capabilities: Capabilities;
}

/**
 * Registers every case that applies as one test, each with a harness of its own, disposed of whether the case passed or failed.
 * A case that does not apply is not registered at all; where leaving something out is itself a promise, another case tests that.
 *
 * @returns the names registered, so that a suite can pin how many there are.
 *
 * @example
 * describe('my broker', () => {
 *   runCases(brokerCases, () => myHarness(), { test, capabilities: MY_CAPABILITIES });
 * });
 */
export function runCases<Harness extends { dispose(): Promise<void> }, Capabilities>(
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  makeHarness: () => Harness | Promise<Harness>,
  options: RunOptions<Capabilities>,
): readonly string[] {
  const applying = cases.filter((one) => one.needs?.(options.capabilities) ?? true);
  for (const one of applying) {
    options.test(one.name, async () => {
      const harness = await makeHarness();
      try {
        await one.run(harness);
      } finally {
        await harness.dispose();
      }
    });
  }
  return applying.map((one) => one.name);
}
