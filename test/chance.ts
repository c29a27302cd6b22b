/**
 * Chance in tests (jitter, property tests) is drawn from a seed, so that a test that fails fails again. `LEASEHOLD_SEED` (a number, or `random`)
 * gives other chances than those of every day; a test that fails then says which seed it had.
 */
import { randomInt } from 'node:crypto';
import fc from 'fast-check';
import { beforeEach, onTestFailed } from 'vitest';
import { Seeded } from './simulation/seeded.ts';

const FIXED = 1;

const given = process.env['LEASEHOLD_SEED'] ?? String(FIXED);
const seed = given === 'random' ? randomInt(2 ** 32) : Number(given);
if (!Number.isSafeInteger(seed) || seed < 0) {
  throw new Error(
    `LEASEHOLD_SEED is “${given}”; it is “random”, or a whole number from 0 on, such as the one a failed test printed.`,
  );
}

/** Every test has a seed of its own, so that one that is run alone draws what it drew among others. */
function own(name: string): number {
  let hash = seed;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

let chance = new Seeded(seed);
Math.random = () => chance.next();

beforeEach(({ task }) => {
  chance = new Seeded(own(task.name));
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: own(task.name) | 0 });
  if (seed !== FIXED) onTestFailed(() => void process.stderr.write(`LEASEHOLD_SEED=${seed} failed: ${task.name}\n`));
});
