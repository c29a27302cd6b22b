import { LeaseholdError, virtualClock, type GuardStore } from '@leasehold/core';
import { applyLater, faultPlan, faultyGuard } from '@leasehold/core/testing';
import { expect, test } from 'vitest';
import { faulty, type FaultName } from './faulty-store.ts';
import { call, HOLD, lookup, receiver, seen, settled } from './receiver.ts';

test('a permission that arrives after the whole hold has passed is given back, and nothing runs', async () => {
  const { handle, clock, runs, store } = receiver({}, undefined, (inner) => ({
    ...inner,
    async begin(...args) {
      const verdict = await inner.begin(...args);
      clock.block(HOLD);
      return verdict;
    },
  }));
  expect(await seen(await handle(call()))).toMatchObject({ status: 503, problem: 'store-unavailable' });
  expect([runs, store.state.keys]).toEqual([[], []]);
});

test.for<[string, FaultName[]]>([
  ['refused', ['refused']],
  ['lost', ['lost']],
  ['hung', ['hung']],
  ['lost, then refused', ['lost', 'refused']],
  ['lost twice', ['lost', 'lost']],
])('a begin that is %s is sent again and recognised: the handler runs once, under that hold', async ([, begin]) => {
  const { handle, clock, runs, contexts, names } = receiver({}, undefined, (store) => faulty(store, { begin }));
  const first = handle(call());
  await clock.advance(5_100);
  expect(await seen(await first)).toMatchObject({ status: 201, body: 'created' });
  expect([runs.length, contexts[0]?.held]).toEqual([1, true]);
  expect(names()).toEqual([...begin.map(() => 'guard_store_failed'), 'guard_admitted', 'guard_stored']);
  expect(await seen(await handle(call()))).toMatchObject({ replayed: true });
  expect(clock.pending).toBe(0);
});

test.for<[string, FaultName[]]>([
  ['refused', ['refused', 'refused', 'refused']],
  ['lost', ['lost', 'lost', 'lost']],
  // What hangs is sent twice: the caller does not wait for longer than two calls.
  ['hung', ['hung', 'hung']],
])(
  'a store that is down before the handler starts (%s) means 503 with Retry-After, and nothing runs or is left behind',
  async ([, begin]) => {
    const { handle, clock, store, runs, events } = receiver({}, undefined, (inner) => faulty(inner, { begin }));
    const first = handle(call());
    await clock.advance(10_000);
    const answer = await first;
    expect(answer.headers.get('retry-after')).toBe('5');
    expect(await seen(answer)).toMatchObject({ status: 503, problem: 'store-unavailable' });
    expect([runs, store.state.keys]).toEqual([[], []]);
    const failed = { name: 'guard_store_failed', operation: 'begin' };
    expect(events).toMatchObject([...begin.map(() => failed), { name: 'guard_refused' }]);
    expect((await handle(call({ key: 'other' }))).status).toBe(201);
    expect(clock.pending).toBe(0);
  },
);

test('a hold that was taken while the store fell silent is given up once it speaks again, and the key is free', async () => {
  const finish: FaultName[] = ['refused', 'hung', 'refused', 'lost', 'refused'];
  const { handle, clock, store, runs } = receiver({}, undefined, (inner) =>
    faulty(inner, { begin: ['lost', 'lost', 'lost'], finish }),
  );
  const first = handle(call());
  await clock.advance(300);
  expect((await first).status).toBe(503);
  expect(store.state.keys).toMatchObject([{ state: 'in-progress' }]);
  await clock.advance(2 * HOLD);
  expect(store.state.keys).toEqual([]);
  expect((await handle(call())).status).toBe(201);
  expect(runs).toHaveLength(1);
  expect(clock.pending).toBe(0);
});

test('a guard that finds its own hold in doubt, having stood still, puts nothing to the hook: nothing ran', async () => {
  let asked = 0;
  let begins = 0;
  const { handle, clock, store, runs } = receiver({ resolve: () => (asked++, 'unknown') }, undefined, (inner) => ({
    ...inner,
    async begin(...args) {
      if (++begins === 2) clock.block(HOLD);
      const verdict = await inner.begin(...args);
      if (begins === 1) throw new Error('cut off');
      return verdict;
    },
  }));
  const first = handle(call());
  await clock.advance(50);
  expect(await seen(await first)).toMatchObject({ status: 503, problem: 'store-unavailable' });
  await settled();
  expect([asked, runs, store.state.keys]).toEqual([0, [], []]);
});

test('a begin that reaches the store after all was given up takes nothing', async () => {
  const faults = faultPlan<GuardStore>();
  for (const nth of [1, 2, 3]) faults.on('begin', applyLater(2_000), { nth });
  const clock = virtualClock();
  const { handle, store, runs } = receiver({}, undefined, (inner) => faultyGuard(inner, faults, clock), clock);
  const first = handle(call());
  await clock.advance(1_000);
  expect((await first).status).toBe(503);
  await clock.advance(2_000);
  expect(store.state.keys).toEqual([]);
  expect((await handle(call())).status).toBe(201);
  expect(runs).toHaveLength(1);
});

test('a fence that was raised while a begin was sent again refuses it, and its hold does not stand in the newer owner’s way', async () => {
  const { handle, clock, runs } = receiver({}, undefined, (store) => faulty(store, { begin: ['lost'] }));
  const first = handle(call({ token: 1 }));
  await settled();
  const looked = await handle(lookup({ scope: 'task-1', fence: 2, key: 'k' }));
  expect((await seen(looked)).json).toEqual({ state: 'in-progress' });
  await clock.advance(50);
  expect(await seen(await first)).toMatchObject({ problem: 'stale-token' });
  await settled();
  expect((await handle(call({ token: 2 }))).status).toBe(201);
  expect(runs).toHaveLength(1);
});

test('a store that was set up wrongly says so, unless the guard only observes', async () => {
  const wrong = new LeaseholdError('bad-option', 'file is the database of another application', { field: 'file' });
  const broken = (store: GuardStore): GuardStore => ({ ...store, begin: () => Promise.reject(wrong) });
  const enforcing = receiver({}, undefined, broken);
  await expect(enforcing.handle(call())).rejects.toBe(wrong);
  expect(enforcing.runs).toEqual([]);
  const observing = receiver({ mode: 'observe' }, undefined, broken);
  expect((await observing.handle(call())).status).toBe(201);
  expect(observing.events[0]).toMatchObject({ name: 'guard_store_failed', errorCode: 'bad-option' });
});
