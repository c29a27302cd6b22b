import { setTimeout as realSleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { sleep, virtualClock } from '@leasehold/core';
import { defineTask, PermanentError, type TaskDefinition } from '@leasehold/worker';
import { receiverDouble, runTask, type CallPoint, type RunTaskOptions } from '@leasehold/worker/testing';
import { bare, charging, looking, type Charge } from './charging.ts';

const POINTS = ['claim', 'intent', 'commit', 'verify', 'settle'] as const;
const FAULTS: readonly (readonly [string, (point: CallPoint) => RunTaskOptions<Charge, { paid: string }>])[] = [
  ['crash after', (crashAfter) => ({ crashAfter })],
  ['lose the answer of', (loseAnswerOf) => ({ loseAnswerOf })],
  ['pause after', (after) => ({ pauseFor: { after } })],
  ['pause before', (before) => ({ pauseFor: { before } })],
];
const TASKS: readonly (readonly [string, () => TaskDefinition<Charge, { paid: string }>])[] = [
  ['a guarded effect', () => charging('guarded')],
  ['a guarded effect with a look', looking],
  ['an idempotent effect', () => charging('idempotent')],
];

test.each(TASKS.flatMap(([task, make]) => FAULTS.map(([fault, options]) => [task, fault, make, options] as const)))(
  '%s: %s any step, and it is settled with one charge',
  async (_task, _fault, make, options) => {
    for (const point of POINTS) {
      const pay = receiverDouble();
      const run = await runTask(make(), { amount: 12 }, { fetch: pay.fetch, ...options(point) });
      expect(run, point).toMatchObject({ outcome: 'settled', result: { paid: 'made-1' }, settles: 1, violations: [] });
      expect(run.receipt, point).toMatchObject({
        externalSystem: 'pay',
        externalId: 'made-1',
        token: run.record?.fencingToken,
      });
      expect(pay.made, point).toHaveLength(1);
      expect(
        run.calls.filter(({ struck }) => struck),
        point,
      ).toHaveLength(1);
    }
  },
);

test('without anything going wrong one worker does it all, in no time', async () => {
  const pay = receiverDouble();
  const run = await runTask(charging(), { amount: 12 }, { fetch: pay.fetch });
  expect(run.outcome).toBe('settled');
  expect(run.tookMs).toBeLessThan(1_000);
  expect(run.calls.filter(({ step }) => step).map(({ step, worker }) => `${worker} ${step}`)).toEqual(
    POINTS.map((step) => `first ${step}`),
  );
  expect(run.events.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['task_claimed', 'effect_intended', 'effect_verified', 'task_settled']),
  );
  expect(run.effects).toMatchObject([
    { name: 'charge', receiver: 'guarded', readBack: 'function', key: 'charge-1:charge' },
  ]);
});

test('a bare request is made twice by a takeover, and the double counts it', async () => {
  const pay = receiverDouble();
  const run = await runTask(bare, { amount: 12 }, { fetch: pay.fetch, crashAfter: 6 });
  expect(run.calls[3]?.what).toBe('POST https://pay.example/charges');
  expect(run.outcome).toBe('settled');
  expect(pay.made).toHaveLength(1);
  const cut = receiverDouble();
  await runTask(bare, { amount: 12 }, { fetch: cut.fetch, crashAfter: 4 });
  expect(cut.made).toHaveLength(2);
});

test('a worker that comes back after its lease has its result rejected, and its call refused by a guarded receiver', async () => {
  const pay = receiverDouble();
  const late = await runTask(charging(), { amount: 12 }, { fetch: pay.fetch, pauseFor: { after: 'verify' } });
  expect(late.rejected).toEqual([{ worker: 'first', token: 1, result: { paid: 'made-1' } }]);
  expect(late.receipt?.token).toBe(2);
  const stale = receiverDouble();
  await runTask(charging(), { amount: 12 }, { fetch: stale.fetch, pauseFor: { before: 'commit' } });
  expect(stale.requests.filter(({ refusal }) => refusal).map(({ method, refusal }) => [method, refusal])).toEqual([
    ['POST', 'stale-token'],
    ['GET', 'stale-token'],
  ]);
});

test('a task whose attempts are used up is closed by a look, wherever that is', async () => {
  const pay = receiverDouble();
  const task = looking('https://pay.example/ask');
  const run = await runTask(task, { amount: 12 }, { fetch: pay.fetch, crashAfter: 'commit', attempts: 1 });
  expect(run).toMatchObject({
    outcome: 'dead-lettered',
    record: { effects: { charge: { status: 'verified', externalId: expect.any(String) as string } } },
  });
  expect(pay.made).toHaveLength(1);
});

test('a pause within the lease changes nothing', async () => {
  const pay = receiverDouble();
  const run = await runTask(charging(), { amount: 12 }, { fetch: pay.fetch, pauseFor: { after: 'intent', ms: '10s' } });
  expect(run).toMatchObject({ outcome: 'settled', rejected: [], receipt: { token: 1 } });
  expect(run.calls.some(({ worker, step }) => worker === 'second' && step !== undefined)).toBe(false);
});

test('without a takeover a crash leaves the task where it was, and a paused worker ends it alone', async () => {
  const pay = receiverDouble();
  const crashed = await runTask(
    charging(),
    { amount: 12 },
    { fetch: pay.fetch, crashAfter: 'commit', takeover: false },
  );
  expect(crashed).toMatchObject({ outcome: 'unfinished', result: undefined, receipt: undefined });
  expect(crashed.record).toMatchObject({ state: 'running', effects: { charge: { status: 'intended' } } });
  const paused = await runTask(
    charging(),
    { amount: 12 },
    { fetch: receiverDouble().fetch, pauseFor: { after: 'claim' }, takeover: false },
  );
  expect(paused).toMatchObject({ outcome: 'settled', receipt: { token: 2 } });
});

test('the second worker can run another version of the task', async () => {
  const successor = defineTask({ type: 'charge', run: (_input: Charge) => ({ paid: 'by the new version' }) });
  const run = await runTask(bare, { amount: 12 }, { fetch: receiverDouble().fetch, crashAfter: 'claim', successor });
  expect(run.result).toEqual({ paid: 'by the new version' });
});

const twoEffects = defineTask({
  type: 'two',
  async run(_input: object, ctx) {
    const made: unknown[] = [];
    for (const name of ['first', 'second']) {
      const effect = await ctx.effect(name, {
        system: 'crm',
        commit: () => Promise.reject(new Error('the double is asked instead')),
        readBack: 'provider-replays-key',
        receipt: ({ id }: { id: string }) => ({ externalId: id, status: 'made' }),
      });
      made.push(effect.id);
    }
    ctx.next('child', { of: 'two' });
    return made;
  },
});

test('a step is named with its effect, effects have receivers of their own, and follow-ups are told', async () => {
  const effects = { first: receiverDouble(), second: receiverDouble() };
  const run = await runTask(twoEffects, {}, { effects, crashAfter: 'commit:second' });
  expect(run.calls.find(({ struck }) => struck)).toMatchObject({
    what: 'commit second',
    struck: 'crash',
    ended: 'never',
  });
  expect(run).toMatchObject({ outcome: 'settled', result: ['made-1', 'made-1'] });
  expect(run.followUps).toMatchObject([{ type: 'child', input: { of: 'two' } }]);
  for (const { made } of Object.values(effects)) expect(made).toHaveLength(1);
  // Its answer is all there is to read back.
  const verified = await runTask(
    twoEffects,
    {},
    { effects: { first: receiverDouble(), second: receiverDouble() }, crashAfter: 'verify:second' },
  );
  expect(verified.calls.find(({ struck }) => struck)?.what).toBe('commit second');
});

test('a point that is never reached is an error that lists what was', async () => {
  const plain = defineTask({ type: 'plain', run: (_input: object) => 'done' });
  await expect(runTask(plain, {}, { crashAfter: 'intent' })).rejects.toMatchObject({
    code: 'bad-option',
    field: 'crashAfter',
    message: expect.stringContaining('3 ledger: claim; 4 ledger: settle') as string,
  });
});

test.each<[string, object]>([
  ['crashAfter', { crashAfter: 'lunch' }],
  ['crashAfter', { crashAfter: 0 }],
  ['loseAnswerOf', { loseAnswerOf: 'settle:charge' }],
  ['pauseFor', { pauseFor: { ms: 5 } }],
  ['pauseFor.after', { pauseFor: { after: 'commit:' } }],
  ['pauseFor.ms', { pauseFor: { after: 'commit', ms: '5' } }],
  ['attempts', { attempts: 0 }],
  ['timeoutMs', { timeoutMs: -1 }],
  ['clock', { clock: { wall: () => 0 } }],
])('the option %s is refused as %o', async (field, options) => {
  await expect(runTask(bare, { amount: 1 }, options)).rejects.toMatchObject({ code: 'bad-option', field });
});

test('while the handler waits for something real, virtual time stands still', async () => {
  const task = defineTask({
    type: 'real',
    run: async (_input: object, ctx) => {
      await realSleep(30);
      await ctx.call('wait', { timeout: '5ms' }, () => realSleep(30));
      return 'done';
    },
  });
  const run = await runTask(task, {});
  expect(run).toMatchObject({ outcome: 'settled', result: 'done' });
  expect(run.tookMs).toBeLessThan(1_000);
});

const stuck = defineTask({
  type: 'stuck',
  limits: { attempts: 2 },
  run: (_input: object, ctx) =>
    ctx.call(
      'never',
      { timeout: '1m' },
      ({ signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    ),
});

test('a handler that waits forever for something real is an error that says where it is and what to do', async () => {
  await expect(runTask(stuck, {}, { realWaitMs: 20 })).rejects.toMatchObject({
    code: 'timeout',
    field: 'realWaitMs',
    message: expect.stringMatching(/the first worker in ctx\.call\(never\).*hangs: true/) as string,
  });
});

test('a handler that is meant to hang meets its limits in virtual time', async () => {
  const run = await runTask(stuck, {}, { hangs: true });
  expect(run).toMatchObject({
    outcome: 'dead-lettered',
    record: { failures: 1, lastError: { errorClass: 'retryable' } },
  });
  expect(run.thrown.map(({ error }) => (error as Error).name)).toEqual(['ToolTimeout', 'ToolTimeout']);
  expect(run.tookMs).toBeGreaterThanOrEqual(120_000);
});

test('a handler that was given the virtual clock sleeps on it, and its lease is renewed meanwhile', async () => {
  const clock = virtualClock();
  const task = defineTask({
    type: 'slow',
    lease: '9s',
    async run(_input: object, ctx) {
      await sleep(clock, 60_000, ctx.signal);
      return ctx.attempt;
    },
  });
  const run = await runTask(task, {}, { clock });
  expect(run).toMatchObject({ outcome: 'settled', result: 1 });
  expect(run.record?.renewalCount).toBeGreaterThan(10);
  expect(clock.pending).toBe(0);
});

test('what people are asked is answered, once', async () => {
  const questions: string[] = [];
  const task = defineTask({
    type: 'ask',
    run: async (_input: object, ctx) => (await ctx.askHuman('Refund 12 euros?')).reason,
  });
  const answer = (question: string): { approve: boolean; reason: string } => {
    questions.push(question);
    return { approve: questions.length === 1, reason: 'it is little' };
  };
  expect(await runTask(task, {}, { answer })).toMatchObject({ outcome: 'settled', result: 'it is little' });
  expect(questions).toEqual(['Refund 12 euros?']);
  expect(await runTask(task, {}, { answer })).toMatchObject({
    outcome: 'dead-lettered',
    record: { lastError: { errorClass: 'rejected' } },
  });
  expect(await runTask(task, {})).toMatchObject({ outcome: 'waiting-human' });
});

test('attempts and virtual time are bounded as asked; what handlers threw is told', async () => {
  const failing = defineTask({
    type: 'failing',
    backoff: { first: '1m' },
    run: (): string => {
      throw new Error('no luck');
    },
  });
  const twice = await runTask(failing, {}, { attempts: 2 });
  expect(twice.outcome).toBe('dead-lettered');
  expect(twice.thrown.map(({ worker, attempt, error }) => [worker, attempt, (error as Error).message])).toEqual([
    ['first', 1, 'no luck'],
    ['first', 2, 'no luck'],
  ]);
  expect(await runTask(failing, {}, { timeoutMs: 10_000 })).toMatchObject({ outcome: 'unfinished', tookMs: 10_000 });
  const hopeless = defineTask({
    type: 'hopeless',
    run: (): string => {
      throw new PermanentError('never');
    },
  });
  expect(await runTask(hopeless, {})).toMatchObject({ outcome: 'dead-lettered', record: { attempt: 1 } });
});

test('several runs at once see their own calls and events, and the global fetch is as it was', async () => {
  const before = globalThis.fetch;
  const pays = [1, 2, 3].map(() => receiverDouble());
  const runs = await Promise.all(
    pays.map((pay, index) =>
      runTask(
        charging(),
        { amount: index },
        { fetch: pay.fetch, crashAfter: 'commit', idempotencyKey: `run-${index}` },
      ),
    ),
  );
  expect(globalThis.fetch).toBe(before);
  for (const [index, pay] of pays.entries()) {
    expect(pay.made.map(({ sent }) => sent)).toEqual([{ amount: index }]);
    expect(new Set(runs[index]?.events.flatMap(({ taskId }) => taskId ?? []))).toEqual(
      new Set([runs[index]?.record?.taskId]),
    );
  }
});

test('what defineTask did not make is refused by name', async () => {
  const task = { type: 'x', run: () => 1 } as unknown as TaskDefinition<object, number>;
  await expect(runTask(task, {})).rejects.toMatchObject({ code: 'bad-option', field: 'task' });
});

test('a task that hands itself on without end is an error, not a hang', async () => {
  const task = defineTask({
    type: 'circle',
    async run(_input: object, ctx) {
      await ctx.checkpoint({ attempt: ctx.attempt });
      return ctx.handOff();
    },
  });
  await expect(runTask(task, {})).rejects.toMatchObject({
    code: 'timeout',
    message: expect.stringContaining('hand') as string,
  });
});
