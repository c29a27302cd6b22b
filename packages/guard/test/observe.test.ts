import { expect, test } from 'vitest';
import { call, HOLD, latch, receiver, seen, settled, type Call } from './receiver.ts';

const cases: readonly (readonly [what: string, call: Call, problem: string])[] = [
  ['a replay', {}, 'replay'],
  ['a stale token', { token: 4 }, 'stale-token'],
  ['a reused key', { body: 'other' }, 'key-reused'],
  ['a missing key', { key: undefined }, 'missing-field'],
  ['a malformed fence', { token: 'x' }, 'malformed-field'],
];

test.for(cases)('observing, %s runs all the same and is reported', async ([, second, problem]) => {
  let run = 0;
  const { handle, runs, events } = receiver({ mode: 'observe' }, () => new Response(`run ${++run}`));
  await handle(call({ token: 5 }));
  const answer = await handle(call({ token: 5, ...second }));
  expect(await seen(answer)).toMatchObject({ status: 200, body: 'run 2', replayed: false });
  expect(runs).toEqual(['open a case', second.body ?? 'open a case']);
  expect(events.at(-1)).toMatchObject({ name: 'guard_observed', problem });
});

test('observing, a request in progress and one in doubt run too', async () => {
  const gate = latch();
  let run = 0;
  const { handle, runs, events, clock } = receiver({ mode: 'observe' }, async () => {
    if (run++ === 0) await gate.promise;
    return new Response('', { status: run === 1 ? 200 : 500 });
  });
  const first = handle(call());
  await settled();
  await handle(call());
  gate.open();
  await first;
  await handle(call({ key: 'b' }));
  await clock.advance(HOLD);
  await handle(call({ key: 'b' }));
  expect(runs).toHaveLength(4);
  expect(events.filter((event) => event.name === 'guard_observed').map((event) => event.problem)).toEqual([
    'in-progress',
    'in-doubt',
  ]);
});

test('observing, a store that is down changes nothing but a second of waiting', async () => {
  const down = (): Promise<never> => Promise.reject(new Error('down'));
  for (const begin of [down, () => new Promise<never>(() => undefined)]) {
    const { handle, clock, names } = receiver({ mode: 'observe' }, undefined, (store) => ({ ...store, begin }));
    const answer = handle(call());
    await clock.advance(1_000);
    expect(await seen(await answer)).toMatchObject({ status: 201, body: 'created' });
    expect(names()).toEqual(['guard_store_failed', 'guard_observed']);
  }
});

test('observing, the handler’s answer is told even when it cannot be recorded, and a lost hold aborts nothing', async () => {
  const gate = latch();
  const { handle, clock, contexts, names } = receiver(
    { mode: 'observe' },
    () => gate.promise.then(() => new Response('done')),
    (store) => ({
      ...store,
      extend: () => Promise.reject(new Error('down')),
      finish: () => Promise.reject(new Error('down')),
    }),
  );
  const answer = handle(call());
  await clock.advance(HOLD);
  expect(contexts[0]).toMatchObject({ held: true, signal: { aborted: false } });
  gate.open();
  await clock.advance(5_000);
  expect(await seen(await answer)).toMatchObject({ status: 200, body: 'done' });
  expect(names()).toEqual(expect.arrayContaining(['guard_hold_lost', 'guard_outcome_unknown']));
});

test('observing, a body over the limit streams through whole', async () => {
  const body = 'x'.repeat(200_000);
  const { handle, runs, events } = receiver({ mode: 'observe', maxBodyBytes: 1_000 });
  expect((await handle(call({ body }))).status).toBe(201);
  expect(runs).toEqual([body]);
  expect(events).toMatchObject([{ name: 'guard_observed', problem: 'body-too-large' }]);
});

test('observing, the handler still sees the caller hang up', async () => {
  const caller = new AbortController();
  const gate = latch();
  const aborted: boolean[] = [];
  const { handle } = receiver({ mode: 'observe' }, async (request) => {
    await gate.promise;
    aborted.push(request.signal.aborted);
    return new Response('done');
  });
  const answer = handle(call({ signal: caller.signal }));
  await settled();
  caller.abort();
  gate.open();
  await answer;
  expect(aborted).toEqual([true]);
});
