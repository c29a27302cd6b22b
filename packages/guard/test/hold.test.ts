import { sleep } from '@leasehold/core';
import { expect, test } from 'vitest';
import { faulty, type FaultName } from './faulty-store.ts';
import { call, HOLD, latch, receiver, seen, settled } from './receiver.ts';

test('a handler that runs much longer than the hold keeps it, and leaves no timer behind', async () => {
  const gate = latch();
  const { handle, clock, contexts } = receiver({}, () => gate.promise.then(() => new Response('done')));
  const first = handle(call());
  await clock.advance(20 * HOLD + 1);
  expect(await seen(await handle(call()))).toMatchObject({ problem: 'in-progress' });
  expect(contexts[0]).toMatchObject({ held: true, signal: { aborted: false } });
  gate.open();
  expect((await first).status).toBe(200);
  expect(clock.pending).toBe(0);
});

test('the hold is extended every third of it, and two extensions in a row may fail', async () => {
  const gate = latch();
  let extended = 0;
  const { handle, clock, contexts } = receiver(
    {},
    () => gate.promise.then(() => new Response('done')),
    (store) => ({
      ...store,
      extend: (...args) => (
        ++extended,
        extended === 2 || extended === 3 ? Promise.reject(new Error('down')) : store.extend(...args)
      ),
    }),
  );
  const first = handle(call());
  await settled();
  await clock.advance(HOLD / 3 - 1);
  expect(extended).toBe(0);
  await clock.advance(1);
  expect(extended).toBe(1);
  await clock.advance(HOLD);
  expect(contexts[0]?.held).toBe(true);
  gate.open();
  expect((await first).status).toBe(200);
});

test.for<[string, FaultName[]]>([
  ['is refused or hangs', ['refused', 'hung', 'refused', 'hung', 'refused', 'hung', 'refused', 'hung']],
  ['hangs', ['hung', 'hung', 'hung', 'hung', 'hung']],
])(
  'a hold whose every extension %s is over on time: the handler is told, and nothing runs meanwhile',
  async ([, extend]) => {
    const gate = latch();
    const { handle, clock, contexts, events, runs } = receiver(
      {},
      () => gate.promise.then(() => new Response('done')),
      (store) => faulty(store, { extend }),
    );
    const first = handle(call());
    await settled();
    await clock.advance(HOLD - 1);
    expect(contexts[0]).toMatchObject({ held: true, signal: { aborted: false } });
    await clock.advance(1);
    expect(contexts[0]).toMatchObject({ held: false, signal: { aborted: true, reason: { code: 'ownership' } } });
    expect(events.at(-1)).toMatchObject({ name: 'guard_hold_lost', cause: 'unanswered' });
    expect(await seen(await handle(call()))).toMatchObject({ problem: 'in-progress' });
    gate.open();
    expect(await seen(await first)).toMatchObject({ status: 200, body: 'done' });
    expect(await seen(await handle(call()))).toMatchObject({ replayed: true, body: 'done' });
    expect(runs).toHaveLength(1);
    expect(clock.pending).toBe(0);
  },
);

test('a hold that the store says is over is over at once', async () => {
  const gate = latch();
  const { handle, clock, contexts, events } = receiver(
    {},
    () => gate.promise.then(() => new Response('done')),
    (store) => ({ ...store, extend: async () => false }),
  );
  const first = handle(call());
  await clock.advance(HOLD / 3);
  expect(contexts[0]).toMatchObject({ held: false, signal: { aborted: true } });
  expect(events.at(-1)).toMatchObject({ name: 'guard_hold_lost', cause: 'refused' });
  gate.open();
  await first;
  expect(clock.pending).toBe(0);
});

test('an extension counts from before it was sent, however late its answer came', async () => {
  const gate = latch();
  let extended = 0;
  const { handle, clock, contexts } = receiver(
    {},
    () => gate.promise.then(() => new Response('done')),
    (store) => ({
      ...store,
      async extend(...args) {
        if (extended++ > 0) throw new Error('down');
        const answer = await store.extend(...args);
        await sleep(clock, 4_000);
        return answer;
      },
    }),
  );
  const first = handle(call());
  await settled();
  await clock.advance(HOLD / 3 + HOLD - 1);
  expect(contexts[0]?.held).toBe(true);
  await clock.advance(1);
  expect(contexts[0]).toMatchObject({ held: false, signal: { aborted: true } });
  gate.open();
  await first;
});

test('a blocked process knows at once that its hold is over, before any timer fires', async () => {
  const gate = latch();
  const { handle, clock, contexts } = receiver({}, () => gate.promise.then(() => new Response('done')));
  void handle(call());
  await settled();
  clock.block(HOLD);
  expect(contexts[0]?.held).toBe(false);
  gate.open();
});

test('a finish that is not answered is repeated, and the caller is told once it is stored', async () => {
  for (const faults of [['lost'], ['refused'], ['refused', 'lost'], ['hung', 'lost']] as const) {
    const { handle, clock, runs } = receiver({}, undefined, (store) => faulty(store, { finish: [...faults] }));
    const first = handle(call());
    await clock.advance(11_000);
    expect(await seen(await first)).toMatchObject({ status: 201, body: 'created' });
    expect(await seen(await handle(call()))).toMatchObject({ replayed: true });
    expect(runs).toHaveLength(1);
  }
});

test('a success that could not be recorded is not told: the caller gets 503 and, repeating, the truth', async () => {
  for (const [faults, later] of [
    [['lost', 'refused', 'refused'], { status: 201, replayed: true }],
    [['refused', 'refused', 'refused'], { status: 409, problem: 'in-doubt' }],
  ] as const) {
    const { handle, clock, runs, names } = receiver({}, undefined, (store) => faulty(store, { finish: [...faults] }));
    const first = handle(call());
    await clock.advance(1_000);
    expect(await seen(await first)).toMatchObject({ status: 503, problem: 'outcome-unknown' });
    expect(names()).toContain('guard_outcome_unknown');
    await clock.advance(HOLD);
    expect(await seen(await handle(call()))).toMatchObject(later);
    expect(runs).toHaveLength(1);
  }
});

test('a freed key whose answer was lost is freed all the same', async () => {
  const { handle, clock, runs, names } = receiver(
    {},
    (_, context) => {
      context.nothingHappened();
      return new Response('', { status: 503 });
    },
    (store) => faulty(store, { finish: ['refused', 'lost'] }),
  );
  const first = handle(call());
  await clock.advance(1_000);
  await first;
  expect(names()).toEqual(['guard_admitted', 'guard_store_failed', 'guard_store_failed', 'guard_freed']);
  await handle(call());
  expect(runs).toHaveLength(2);
});
