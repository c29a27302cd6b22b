import type { StoredResponse } from '@leasehold/core';
import type { Doubt, DoubtAnswer, GuardHandler, GuardContext, GuardOptions } from '@leasehold/guard';
import { expect, test } from 'vitest';
import { call, HOLD, latch, lookup, receiver, seen, settled, type Receiver } from './receiver.ts';

const look = { scope: 'task-1', fence: 1, key: 'k' };

/** A receiver whose first run threw, so that its key is in doubt; later runs answer `second`. */
async function doubtful(resolve?: GuardOptions['resolve'], options: Partial<GuardOptions> = {}): Promise<Receiver> {
  let first = true;
  const handler: GuardHandler<GuardContext> = () => {
    if (!first) return new Response('second');
    first = false;
    throw new Error('crashed');
  };
  const made = receiver({ ...options, ...(resolve ? { resolve } : {}) }, handler);
  await expect(made.handle(call())).rejects.toThrow('crashed');
  await made.clock.advance(HOLD);
  return made;
}

const found: StoredResponse = {
  status: 201,
  headers: { 'set-cookie': 'a=1', etag: 'e' },
  body: new TextEncoder().encode('found'),
};

test.for([
  ['a stored response', () => found],
  ['a Response', async () => new Response('found', { status: 201, headers: { etag: 'e', 'set-cookie': 'a=1' } })],
] as const)('a doubt that the receiver resolves with %s is done, for requests and looks alike', async ([, resolve]) => {
  const { handle, runs } = await doubtful(resolve);
  const answer = await handle(call({ token: 2 }));
  expect(Object.fromEntries(answer.headers)).toMatchObject({ etag: 'e', 'idempotent-replayed': 'true' });
  expect(answer.headers.has('set-cookie')).toBe(false);
  expect(await seen(answer)).toMatchObject({ status: 201, body: 'found' });
  expect(await seen(await handle(lookup({ ...look, fence: 2 })))).toMatchObject({
    json: { state: 'done', response: { status: 201, body: 'found' } },
  });
  expect(runs).toHaveLength(1);
});

test('a doubt that the receiver resolves as absent lets the request run', async () => {
  const doubts: Doubt<Request>[] = [];
  const { handle, runs } = await doubtful((doubt) => (doubts.push(doubt), 'absent'));
  expect(await seen(await handle(call({ token: 3 })))).toMatchObject({ status: 200, body: 'second', replayed: false });
  expect(runs).toHaveLength(2);
  expect(doubts).toMatchObject([{ scope: 'task-1', key: 'k', token: 3, request: expect.any(Request) as Request }]);
});

test('the same key with another body stays refused while it is in doubt', async () => {
  const { handle } = await doubtful(() => 'absent');
  expect(await seen(await handle(call({ body: 'other' })))).toMatchObject({ status: 422 });
});

test.for<[string, () => DoubtAnswer | Promise<DoubtAnswer>]>([
  ['says unknown', () => 'unknown'],
  ['throws', () => Promise.reject(new Error('database down'))],
  ['answers 500', () => new Response('', { status: 500 })],
  ['answers 429 as data', () => ({ status: 429, headers: {}, body: new Uint8Array(0) })],
  ['answers nonsense', () => undefined as unknown as DoubtAnswer],
])('a hook that %s leaves the key in doubt', async ([, resolve]) => {
  const { handle, runs } = await doubtful(resolve);
  expect(await seen(await handle(call()))).toMatchObject({ status: 409, problem: 'in-doubt' });
  expect(await seen(await handle(lookup(look)))).toMatchObject({ json: { state: 'in-doubt' } });
  expect(runs).toHaveLength(1);
});

test('a look resolves a doubt first: absent is said only once the key is free', async () => {
  const { handle, store } = await doubtful(() => 'absent');
  expect(await seen(await handle(lookup({ ...look, fence: 4 })))).toMatchObject({
    status: 200,
    json: { state: 'absent' },
  });
  expect(store.state.keys).toEqual([]);
  expect(await seen(await handle(call({ token: 3 })))).toMatchObject({ problem: 'stale-token', json: { highest: 4 } });
});

test('of many that meet a doubt at once one asks the hook, and one runs', async () => {
  const gate = latch<DoubtAnswer>();
  let asked = 0;
  const { handle, runs } = await doubtful(() => (asked++, gate.promise));
  const all = Array.from({ length: 20 }, () => handle(call()));
  const looked = handle(lookup(look));
  await settled();
  gate.open('absent');
  const statuses = await Promise.all(all.map(async (answer) => (await answer).status));
  expect(statuses.filter((status) => status !== 200 && status !== 409)).toEqual([]);
  expect(statuses).toContain(200);
  await looked;
  expect([asked, runs.length]).toEqual([1, 2]);
});

test('I4: an absent that comes late, however late, cannot free a key that has run since', async () => {
  // Two processes on one store. The hook of the first hangs on old evidence while the second frees the key and runs it, and it crashes again.
  const slow = latch<DoubtAnswer>();
  const told: DoubtAnswer[] = [];
  const one = await doubtful(async () => {
    const said = told.length === 0 ? await slow.promise : 'unknown';
    told.push(said);
    return said;
  });
  const two = receiver(
    { resolve: () => 'absent' },
    () => Promise.reject(new Error('crashed again')),
    undefined,
    one.clock,
    one.store,
  );
  await one.clock.advance(HOLD);
  const stuck = one.handle(call());
  await settled();
  await expect(two.handle(call())).rejects.toThrow('crashed again');
  await one.clock.advance(HOLD - 1);
  one.clock.block(1);
  slow.open('absent');
  expect(await seen(await stuck)).toMatchObject({ problem: 'in-doubt' });
  expect(one.store.state.keys.map((key) => key.state)).toEqual(['in-doubt']);
  // It was asked about the new doubt, which is another question.
  expect(told).toEqual(['absent', 'unknown']);
  expect([one.runs.length, two.runs.length]).toEqual([1, 1]);
});

test('what a hook said counts however long it took, since it settles the very doubt it was asked about', async () => {
  let block: () => void = () => undefined;
  const { handle, clock, runs } = await doubtful(() => {
    block();
    return 'absent';
  });
  block = () => clock.block(5 * HOLD);
  expect(await seen(await handle(call()))).toMatchObject({ status: 200, body: 'second' });
  expect(runs).toHaveLength(2);
});

test('a hook that never answers is told to stop, and does not hang the request or the key', async () => {
  let told: AbortSignal | undefined;
  let calls = 0;
  const { handle, clock } = await doubtful((doubt) => {
    told = doubt.signal;
    return calls++ === 0 ? new Promise<DoubtAnswer>(() => undefined) : 'absent';
  });
  const stuck = handle(call());
  await settled();
  await clock.advance(HOLD);
  expect(await seen(await stuck)).toMatchObject({ problem: 'in-doubt' });
  expect(told?.aborted).toBe(true);
  expect(await seen(await handle(call()))).toMatchObject({ body: 'second' });
  expect(clock.pending).toBe(0);
});

test('I4: the hook is not asked while the handler is still alive in this process, hold or no hold', async () => {
  const gate = latch();
  let asked = 0;
  const { handle, clock, runs } = receiver(
    { resolve: () => (asked++, 'absent') },
    () => gate.promise.then(() => new Response('done')),
    (store) => ({ ...store, extend: () => Promise.reject(new Error('down')) }),
  );
  const first = handle(call());
  await settled();
  await clock.advance(2 * HOLD);
  expect(await seen(await handle(call({ token: 2 })))).toMatchObject({ problem: 'in-progress' });
  expect(await seen(await handle(lookup({ ...look, fence: 2 })))).toMatchObject({ json: { state: 'in-progress' } });
  gate.open();
  expect(await seen(await first)).toMatchObject({ status: 200, body: 'done' });
  expect([asked, runs.length]).toEqual([0, 1]);
});

test('a doubt that cannot be written down as resolved is a 503', async () => {
  const made = receiver(
    { resolve: () => 'absent' },
    () => Promise.reject(new Error('crashed')),
    (store) => ({
      ...store,
      resolve: () => Promise.reject(new Error('down')),
    }),
  );
  await expect(made.handle(call())).rejects.toThrow('crashed');
  await made.clock.advance(HOLD);
  expect(await seen(await made.handle(call()))).toMatchObject({ status: 503, problem: 'store-unavailable' });
  expect(await seen(await made.handle(lookup(look)))).toMatchObject({ status: 503 });
  expect(made.runs).toHaveLength(1);
});
