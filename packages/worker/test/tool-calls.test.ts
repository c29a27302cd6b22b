import { expect, test } from 'vitest';
import { defineTask } from '@leasehold/worker';
import { World } from './harness.ts';

const never = (): Promise<never> => new Promise<never>(() => undefined);

test.each(['askHuman', 'handOff'] as const)(
  '%s does not give a task away while a tool call that was given up goes on',
  async (end) => {
    const world = new World();
    const a = world.host('a');
    const { worker } = a.work([
      defineTask({
        type: 'task',
        lease: '30s',
        limits: { tool: '20s' },
        run: (_input, ctx) => ctx.call('book', {}, never).catch(() => ctx[end]('The tool is silent. Try again?')),
      }),
    ]);
    const id = await world.enqueue({ type: 'task' });
    await world.until(() => worker.stats.claimed === 1);
    await world.until(() => worker.stats.running === 0, 60_000);
    expect(worker.stats.outcomes).toMatchObject({ leaked: 1, 'waiting-human': 0, 'handed-off': 0 });
    expect(world.record(id)?.state).toBe('running');
  },
);

test('no timer of a tool call outlives its attempt: the handler that was left behind goes on with an error', async () => {
  const world = new World();
  const a = world.host('a');
  const errors: unknown[] = [];
  const task = defineTask({
    type: 'task',
    lease: '30s',
    run: (_input, ctx) => ctx.call('ask', { timeout: '6h' }, never).catch((error: unknown) => void errors.push(error)),
  });
  const run = a.work([task], { drain: '1s' });
  await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.running === 1);
  void run.worker.stop();
  await world.until(() => run.report !== undefined);
  await world.clock.advance(60_000);
  expect(a.process.pending).toBe(0);
  expect(errors).toMatchObject([{ reason: 'draining' }]);
  // The call itself goes on.
  expect(run.report).toEqual({ outcome: 'forced', leaked: 1 });
  expect(run.worker.stats.leaked).toBe(1);
});

test('a tool call whose time is over between an abort and the end of its grace is told so', async () => {
  const world = new World();
  const a = world.host('a');
  const errors: unknown[] = [];
  const task = defineTask({
    type: 'task',
    lease: '30s',
    run: (_input, ctx) => ctx.call('ask', { timeout: '3s' }, never).catch((error: unknown) => void errors.push(error)),
  });
  const run = a.work([task], { drain: '1s' });
  await world.enqueue({ type: 'task' });
  await world.until(() => run.worker.stats.running === 1);
  void run.worker.stop();
  await world.until(() => errors.length > 0);
  expect(errors).toMatchObject([{ code: 'tool-timeout' }]);
  await world.until(() => run.report !== undefined);
  expect(a.process.pending).toBe(0);
});

test('the late result of a handler whose tool call never ends is told', async () => {
  const world = new World();
  const a = world.host('a');
  const { worker } = a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      async run(_input, ctx) {
        await ctx.call('model', { timeout: '60s' }, never).catch(() => undefined);
        return 'late';
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.record(id)?.state === 'running');
  await world.clock.advance(1_000);
  await world.during(world.client.cancel(id));
  await world.until(() => worker.stats.outcomes.leaked === 1);
  await world.clock.advance(120_000);
  expect(world.named('result_rejected')).toHaveLength(1);
});
