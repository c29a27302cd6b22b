import assert from 'node:assert/strict';
import type { CaseHarness, ConformanceCase, PairDrivers } from './conformance-case.ts';

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
 * One test more checks that the driver's own capabilities would choose the same ones.
 *
 * @returns the names registered, so that a suite can pin how many there are.
 *
 * @example
 * describe('my broker', () => {
 *   runCases(brokerCases, () => myHarness(), { test, capabilities: MY_CAPABILITIES });
 * });
 */
export function runCases<Harness extends CaseHarness<object>, Capabilities>(
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  makeHarness: () => Harness | Promise<Harness>,
  options: RunOptions<Capabilities>,
): readonly string[] {
  const { test, capabilities } = options;
  const chosenBy = (declared: Capabilities) => cases.filter(({ needs }) => needs?.(declared) ?? true);
  const chosen: ConformanceCase<Harness, Capabilities> = {
    name: 'the driver declares the capabilities that chose these cases',
    async run(harness) {
      const own = chosenBy((declaredBy(await harness.open()) as Capabilities | undefined) ?? capabilities).map(
        ({ name }) => name,
      );
      assert.deepEqual(
        own,
        applying.slice(1).map(({ name }) => name),
      );
    },
  };
  const applying = [chosen, ...chosenBy(capabilities)];
  for (const { name, run } of applying) {
    test(name, async () => {
      const harness = await makeHarness();
      try {
        await run(harness);
      } finally {
        await harness.dispose();
      }
    });
  }
  return applying.map(({ name }) => name);
}

/** What a driver, or each driver of a pair, says of itself. */
function declaredBy(opened: object): unknown {
  if ('broker' in opened && 'ledger' in opened) {
    const { broker, ledger } = opened as PairDrivers;
    return { broker: broker.capabilities, ledger: ledger.capabilities };
  }
  return 'capabilities' in opened ? opened.capabilities : undefined;
}
