import { expect, test } from 'vitest';
import { plainJson } from '@leasehold/core';
import { defineTask } from '@leasehold/worker';
import { World } from './harness.ts';

test.each([
  ['a type that its queue cannot name', 'child'],
  ['a type that cannot travel in a header', 'zurückzahlen'],
  ['a type of no length', ''],
])('a follow-up of %s is refused where it is asked for, and not when its parent has settled', async (_, type) => {
  const world = new World({ broker: { maxDeliveries: 20 }, codec: plainJson({ type: 'task' }) });
  const a = world.host('a');
  const refused: unknown[] = [];
  a.work([
    defineTask({
      type: 'task',
      lease: '30s',
      run(_input, ctx) {
        try {
          ctx.next(type, 1);
        } catch (error) {
          refused.push(error);
        }
        return 'done';
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task', input: { order: 1 } });
  await world.until(() => world.quiet);
  expect(refused).toEqual([expect.objectContaining({ code: 'bad-task' })]);
  expect(world.record(id)).toMatchObject({ state: 'settled' });
  expect(world.record(id)?.next).toBeUndefined();
  expect(world.queue.deadLetters).toEqual([]);
  await world.end();
});
