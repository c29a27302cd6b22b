import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import {
  defineTask,
  isTaskAborted,
  PermanentError,
  RetryableError,
  type InputSchema,
  type TaskContext,
} from '@leasehold/worker';
import { World } from './harness.ts';
import { make } from './making.ts';

test.each(['still running', 'Heartbeat...', 'PROCESSING', 'working on it', '', ' - '])(
  'a reason that says nothing (%j) is warned about, and refused where the type is strict',
  async (reason) => {
    const world = new World();
    const a = world.host('a');
    const refused: unknown[] = [];
    const run = (ctx: TaskContext): void => {
      try {
        ctx.progress(reason);
      } catch (error) {
        refused.push(error);
      }
      ctx.stage('external_call', 'chunk 3 of 12');
    };
    a.work([
      defineTask({ type: 'loose', run: (_input, ctx) => run(ctx) }),
      defineTask({ type: 'strict', strict: true, run: (_input, ctx) => run(ctx) }),
    ]);
    await world.enqueue({ type: 'loose' });
    await world.until(() => world.quiet);
    expect(refused).toEqual([]);
    expect(world.named('vague_reason')).toMatchObject([{ taskType: 'loose', stage: 'preflight' }]);
    await world.enqueue({ type: 'strict' });
    await world.until(() => world.quiet);
    expect(refused).toMatchObject([
      { code: 'bad-option', field: 'reason', message: expect.stringContaining('say what is done, such as') as string },
    ]);
    expect(world.named('vague_reason')).toHaveLength(1);
    await world.end();
  },
);

test('the record keeps the last eight claims of progress, with stage, reason and time', async () => {
  const world = new World();
  const a = world.host('a');
  a.work([
    defineTask({
      type: 'task',
      lease: '9s',
      async run(_input, ctx) {
        for (let chunk = 1; chunk <= 12; chunk++) {
          if (chunk % 2 === 1) ctx.stage('external_call', `chunk ${chunk}`);
          else ctx.progress(`chunk ${chunk}`);
          await sleep(a.clock, 4_000);
        }
        ctx.stage('verify', 'x'.repeat(500));
      },
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  const history = world.record(id)?.history ?? [];
  expect(history.map(({ stage, reason }) => `${stage} ${reason}`)).toEqual([
    ...[6, 7, 8, 9, 10, 11, 12].map((chunk) => `external_call chunk ${chunk}`),
    `verify ${'x'.repeat(120)}`,
  ]);
  expect(history.every(({ at }, index) => at > (history[index - 1]?.at ?? 0))).toBe(true);
  expect(world.record(id)).toMatchObject({ stage: 'settled', renewalReason: 'x'.repeat(120) });
  await world.end();
});

test('an input that does not fit is dead-lettered at once; the error names the place and not the content', async () => {
  const world = new World();
  const a = world.host('a');
  const schema: InputSchema<{ amount: number }> = {
    '~standard': {
      version: 1,
      vendor: 'ours',
      validate(value) {
        const { amount } = value as { amount: unknown };
        if (amount === 'later') return Promise.resolve({ value: { amount: 7 } });
        if (typeof amount === 'number') return { value: { amount: amount * 2 } };
        return {
          issues: [
            { message: `got ${String(amount)}`, path: ['amount'] },
            { message: 'x', path: [{ key: 'items' }, 0] },
            { message: 'whole' },
          ],
        };
      },
    },
  };
  const seen: number[] = [];
  a.work([defineTask({ type: 'task', input: schema, run: (input) => void seen.push(input.amount) })]);
  await world.enqueue({ type: 'task', taskId: 'good', input: { amount: 4 } });
  await world.enqueue({ type: 'task', taskId: 'later', input: { amount: 'later' } });
  await world.enqueue({ type: 'task', taskId: 'bad', input: { amount: 'secret-text' } });
  await world.until(() => world.quiet);
  expect(new Set(seen)).toEqual(new Set([7, 8]));
  expect(world.record('bad')).toMatchObject({
    state: 'dead_lettered',
    attempt: 1,
    lastError: {
      errorClass: 'permanent',
      message: 'The payload does not fit the input of task: amount, items.0, (root).',
    },
  });
  expect(JSON.stringify([world.record('bad'), world.queue.deadLetters[0]?.description, world.events])).not.toContain(
    'secret-text',
  );
  await world.end();
});

test('a validator that throws is an error like any other', async () => {
  const world = new World();
  const a = world.host('a');
  const validate = (): never => {
    throw new Error('the schema service is down');
  };
  a.work([
    defineTask({
      type: 'task',
      input: { '~standard': { version: 1, vendor: 'v', validate } },
      limits: { attempts: 2 },
      run: () => null,
    }),
  ]);
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'dead_lettered', attempt: 2, lastError: { errorClass: 'error' } });
  await world.end();
});

test('errors are retried with growing waits, a permanent one is not, and the attempts end', async () => {
  const world = new World();
  const a = world.host('a');
  const starts: number[] = [];
  a.work([
    defineTask({
      type: 'task',
      limits: { attempts: 4 },
      backoff: { first: '10s', max: '25s', factor: 2 },
      run() {
        starts.push(a.clock.monotonic());
        const nothing: unknown = 'not even an error';
        if (starts.length === 3) throw nothing;
        throw new RetryableError('again');
      },
    }),
    defineTask({
      type: 'permanent',
      run: () => {
        throw new PermanentError('no use');
      },
    }),
  ]);
  await world.enqueue({ type: 'task', taskId: 'task' });
  await world.enqueue({ type: 'permanent', taskId: 'permanent' });
  await world.until(() => world.quiet);
  expect(world.record('permanent')).toMatchObject({
    state: 'dead_lettered',
    attempt: 1,
    lastError: { errorClass: 'permanent', message: 'no use' },
  });
  expect(world.record('task')).toMatchObject({
    state: 'dead_lettered',
    attempt: 4,
    lastError: { errorClass: 'retryable', message: 'again' },
  });
  const gaps = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
  expect(gaps).toHaveLength(3);
  for (const [index, [least, most]] of (
    [
      [5_000, 10_000],
      [10_000, 20_000],
      [12_500, 25_000],
    ] as const
  ).entries()) {
    expect(gaps[index]).toBeGreaterThanOrEqual(least);
    expect(gaps[index]).toBeLessThan(most + 500);
  }
  await world.end();
});

test('nothing of a context can be used after its attempt has ended', async () => {
  const world = new World();
  const a = world.host('a');
  const contexts: TaskContext[] = [];
  a.work([defineTask({ type: 'task', run: (_input, ctx) => void contexts.push(ctx) })]);
  await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  const [ctx] = contexts;
  if (!ctx) throw new Error('did not run');
  expect(() => ctx.progress('chunk 9 of 12')).toThrow(/after the attempt had ended/);
  expect(() => ctx.next('task', {})).toThrow(/after the attempt had ended/);
  await expect(make(world, a, ctx, 'create', 'guarded look')).rejects.toThrow(/after the attempt had ended/);
  await expect(ctx.call('ask', {}, () => 1)).rejects.toThrow(/ended/);
  await expect(ctx.checkpoint(1)).rejects.toThrow(/after the attempt had ended/);
  expect(ctx.ownership).toBe('lost');
  expect(ctx.signal.aborted && isTaskAborted(ctx.signal.reason)).toBe(true);
  expect(world.receiver.made).toEqual([]);
  await world.end();
});

test('what a listener or a sink of the user throws ends neither the process nor the attempt', async () => {
  const world = new World();
  const a = world.host('a');
  const broken = (): never => {
    throw new RangeError('broken');
  };
  const run = a.work(
    [
      defineTask({
        type: 'task',
        limits: { total: '20s' },
        async run(_input, ctx) {
          ctx.onCapNear(broken);
          await sleep(a.clock, 19_500);
          ctx.onCapNear(broken);
          return 'in time';
        },
      }),
      defineTask({
        type: 'late',
        lease: '9s',
        limits: { stage: '20s' },
        run: (_input, ctx) => (ctx.attempt > 1 ? undefined : sleep(a.clock, 60_000)),
      }),
    ],
    { onRejected: broken },
  );
  const id = await world.enqueue({ type: 'task' });
  await world.until(() => world.quiet);
  expect(world.record(id)).toMatchObject({ state: 'settled', attempt: 1 });
  await world.enqueue({ type: 'late' });
  await world.until(() => world.quiet);
  await world.until(() => run.worker.stats.leaked === 0);
  expect(world.named('warning').map(({ reason, errorCode }) => [reason, errorCode])).toEqual([
    ['onCapNear failed', 'RangeError'],
    ['onCapNear failed', 'RangeError'],
    ['onRejected failed', 'RangeError'],
  ]);
  await world.end();
});
