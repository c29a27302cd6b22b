import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOLD } from './receiver.ts';
import { World, type Behaviour, type Operation } from './world.ts';

const at = fc.integer({ min: 0, max: 1 });
const step = fc.constantFrom(0, 0, 0, 0, 1, -1);
const key = fc.constantFrom('k', 'k', '__proto__');
const handler = fc.constantFrom<Behaviour>(
  'answers',
  'throws before',
  'throws after',
  'fails after',
  'nothing',
  'acts, then waits',
  'waits, then acts',
);
const body = fc.constantFrom('a', 'a', 'a', 'b');
const method = fc.constantFrom('begin' as const, 'extend' as const, 'finish' as const, 'resolve' as const);
const ms = fc.constantFrom(1, HOLD / 3, HOLD - 1, HOLD, 2 * HOLD);
const does = <Name extends string>(...names: Name[]): fc.Arbitrary<Name> => fc.constantFrom(...names);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: does('request'), at, step, key, body, handler }) },
  { weight: 3, arbitrary: fc.record({ do: does('look'), at, step, key }) },
  { weight: 4, arbitrary: fc.record({ do: does('pass'), ms }) },
  { weight: 2, arbitrary: fc.record({ do: does('release') }) },
  { weight: 3, arbitrary: fc.record({ do: does('crash', 'freeze', 'thaw'), at }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: does('fault'), at, method, applied: fc.boolean(), times: fc.constantFrom(1, 1, 3) }),
  },
);

test('I4: whatever is sent, crashes, freezes or is cut off, no key runs twice unless freed or absent, no lower token runs, no told outcome changes', async () => {
  const tally = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 60, size: 'max' }), async (operations) => {
      const world = new World();
      for (const next of operations) await world.apply(next);
      await world.end();
      for (const [what, count] of world.tally) tally.set(what, (tally.get(what) ?? 0) + count);
      expect(world.violations).toEqual([]);
    }),
    { numRuns: 250 },
  );
  // The sequences do reach the states they are about.
  const answers = ['replayed', 'stale-token', 'key-reused', 'in-progress', 'nothing-happened', 'store-unavailable'];
  const states = [...answers, 'resolved absent', 'looked done', 'looked absent', 'looked in-progress'];
  expect(states.filter((state) => !tally.has(state))).toEqual([]);
});
