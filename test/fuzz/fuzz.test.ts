import { expect, test } from 'vitest';
import { seeded } from './mutate.ts';
import { fuzzOnce, TARGETS } from './targets.ts';

const INPUTS = 3_000;

test.each(Object.entries(TARGETS))(
  'bad input to %s is refused by name and harms nothing else',
  async (name, { run, share }) => {
    const failed: string[] = [];
    for (let seed = 1; seed <= Math.ceil(INPUTS * share); seed++) {
      await fuzzOnce(run, seeded(seed)).catch((error: unknown) =>
        failed.push(`${name}, seed ${seed}: ${String(error)}`),
      );
    }
    expect(failed).toEqual([]);
  },
);

test('a target that lets a stranger error through is found out', async () => {
  const broken = (): never => {
    throw new TypeError('cannot read properties of undefined');
  };
  await expect(fuzzOnce(broken, seeded(1))).rejects.toThrow(TypeError);
});
