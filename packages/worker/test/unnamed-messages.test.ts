import { expect, test } from 'vitest';
import { plainJson } from '@leasehold/core';
import { memoryBroker } from '@leasehold/core/memory';
import { defineTask } from '@leasehold/worker';
import { World } from './harness.ts';
import { make } from './making.ts';

/** One order of a foreign producer, which sent it twice since the answer was lost; its messages name no task. */
async function sentTwice(world: World): Promise<void> {
  const foreign = memoryBroker({ queue: world.queue, clock: world.clock });
  const message = { body: new TextEncoder().encode('{"order":1}'), attributes: {} };
  await foreign.send([message, message], new AbortController().signal);
}

test.each([
  ['fails', () => Promise.reject(new Error('the model was down'))],
  ['hands off', (ctx: { handOff(reason: string): unknown }) => ctx.handOff('more to come')],
  ['asks a person', (ctx: { askHuman(question: string): unknown }) => ctx.askHuman('May it run?')],
] as const)(
  'a type that does not take message ids for an identity refuses its effects after an attempt that %s, as before it',
  async (_, first) => {
    const world = new World({
      codec: plainJson({ type: 'task' }),
      broker: { releaseDelayMs: 0, sendDelayMs: 900_000 },
    });
    const a = world.host('a');
    a.work([
      defineTask({
        type: 'task',
        lease: '9s',
        async run(_input, ctx) {
          if (ctx.attempt === 1) await first(ctx);
          return (await make(world, a, ctx, 'create', 'guarded look')).id;
        },
      }),
    ]);
    await sentTwice(world);
    for (let round = 0; round < 10; round++) {
      await world.clock.advance(60_000);
      for (const { taskId, state } of world.table.records)
        if (state === 'waiting_human')
          await world.during(world.client.answer(taskId, { approve: true, reason: 'yes' }));
    }
    expect(world.table.records.map(({ state }) => state)).toEqual(['dead_lettered', 'dead_lettered']);
    expect(world.receiver.made).toEqual([]);
    await world.end();
  },
);
