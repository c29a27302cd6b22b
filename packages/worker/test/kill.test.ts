import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isTerminal } from '@leasehold/core';
import { World } from './harness.ts';
import { FATES, paths, type Path } from './paths.ts';
import type { FatePoint } from '../src/testing/process.ts';

/** Longer than any lease and than the patience of any call. */
const LONG = 40_000;

/** Runs one path with one fate at its `at`-th call; a second worker ends what the first began. False when the path had fewer calls. */
async function live(path: Path, point: FatePoint): Promise<boolean> {
  const world = new World();
  const first = world.host('first');
  first.process.plan(point);
  first.work(path.tasks(world, first));
  const taskId = await world.enqueue({ type: 'task' });
  path.outside?.(world, taskId);
  await world.until(() => first.process.struck || world.quiet);
  if (!first.process.struck) return false;
  const second = world.host('second');
  second.work(path.tasks(world, second));
  await ends(world, path, taskId);
  return true;
}

/** Waits for the end of everything and checks that it is the right one. */
async function ends(world: World, path: Path, taskId: string): Promise<void> {
  await world.until(() => world.quiet && world.record(taskId) !== undefined, 1_200_000);
  // Whatever is still on its way arrives.
  await world.clock.advance(2 * LONG);
  expect(world.quiet).toBe(true);
  path.ends?.(world, taskId);
  const times = (key: string): number => world.receiver.made.filter((made) => made.key === key).length;
  for (const { key } of world.receiver.made) expect(times(key)).toBe(1);
  for (const record of world.table.records.filter(({ taskType }) => taskType !== 'leasehold.serial')) {
    expect(isTerminal(record.state)).toBe(true);
    expect(world.invariants.settles.get(record.taskId) ?? 0).toBe(record.state === 'settled' ? 1 : 0);
    for (const { key, status, externalId } of Object.values(record.effects)) {
      expect(status).toMatch(/^(verified|absent|in_doubt)$/);
      if (status !== 'in_doubt') expect(times(key)).toBe(status === 'verified' ? 1 : 0);
      if (record.state === 'settled') expect(world.receiver.made.find((made) => made.key === key)?.id).toBe(externalId);
    }
    const dead = world.queue.deadLetters.filter(({ attributes }) => attributes['leaseholdtaskid'] === record.taskId);
    expect(dead).toHaveLength(record.state === 'dead_lettered' ? 1 : 0);
  }
  await world.end();
}

test.each(paths.flatMap((path) => (path.fates ?? FATES).map((fate) => [path.name, fate, path] as const)))(
  '%s: %s at any call, another worker ends it, nothing happens twice, nothing is lost',
  async (_name, fate, path) => {
    let at = 1;
    for (; ; at++) {
      try {
        if (!(await live(path, { at, fate, forMs: LONG }))) break;
      } catch (error) {
        throw new Error(`at call ${at}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
      }
    }
    expect(at - 1).toBeGreaterThanOrEqual(path.calls);
  },
);

const anyPoint = fc.record({
  at: fc.integer({ min: 1, max: 16 }),
  fate: fc.constantFrom(...FATES),
  forMs: fc.constantFrom(800, 4_000, 12_000, LONG),
});

test('three workers at once, any fates at any calls of two of them: nothing happens twice, nothing is lost', async () => {
  const able = paths.filter((path) => path.fates === undefined);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...able), anyPoint, anyPoint, async (path, one, other) => {
      const world = new World();
      for (const [name, point] of [
        ['first', one],
        ['second', other],
        ['third', undefined],
      ] as const) {
        const host = world.host(name);
        if (point) host.process.plan(point);
        host.work(path.tasks(world, host));
      }
      const taskId = await world.enqueue({ type: 'task' });
      path.outside?.(world, taskId);
      await ends(world, path, taskId);
    }),
    { numRuns: 300 },
  );
});
