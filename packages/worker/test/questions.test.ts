import { expect, test } from 'vitest';
import { MOST_QUESTIONS } from '@leasehold/core';
import { defineTask } from '@leasehold/worker';
import { World } from './harness.ts';

/** A task that asks so many questions, each answered with yes; how it ends. */
async function asked(questions: number) {
  const world = new World();
  const a = world.host('a');
  a.work([
    defineTask({
      type: 'task',
      lease: '30s',
      async run(_input, ctx) {
        for (let step = 1; step <= questions; step++) await ctx.askHuman(`May step ${step} run?`);
        return 'done';
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  let answers = 0;
  for (;;) {
    await world.until(() => !['queued', 'running', undefined].includes(world.record(id)?.state));
    if (world.record(id)?.state !== 'waiting_human') break;
    await world.during(world.client.answer(id, { approve: true, reason: 'yes' }));
    expect(++answers).toBeLessThan(100);
  }
  const record = world.record(id);
  await world.end();
  return { answers, state: record?.state, message: record?.lastError?.message };
}

test('each question is asked once, as many as there are', async () => {
  expect(await asked(9)).toMatchObject({ answers: 9, state: 'settled' });
  expect(await asked(MOST_QUESTIONS)).toMatchObject({ answers: MOST_QUESTIONS, state: 'settled' });
});

test('a task that would ask for ever ends, and says so', async () => {
  expect(await asked(MOST_QUESTIONS + 1)).toEqual({
    answers: MOST_QUESTIONS,
    state: 'dead_lettered',
    message: expect.stringContaining(`asked people ${MOST_QUESTIONS} questions`) as string,
  });
});
