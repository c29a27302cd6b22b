import { expect, test } from 'vitest';
import { call, latch, lookup, receiver, seen, settled, HOLD } from './receiver.ts';

const look = { scope: 'task-1', fence: 1, key: 'k' };

test('a look tells absent, in progress, done and in doubt, always with status 200', async () => {
  const gates = [latch<Response>(), latch<Response>()];
  let run = 0;
  const { handle, clock, runs } = receiver({}, () => (gates[run++] as (typeof gates)[0]).promise);
  const state = async (key: string): Promise<unknown> => {
    const answer = await seen(await handle(lookup({ ...look, key })));
    expect(answer.status).toBe(200);
    return answer.json;
  };
  expect(await state('k')).toEqual({ state: 'absent' });
  const first = handle(call());
  await settled();
  expect(await state('k')).toEqual({ state: 'in-progress' });
  gates[0]?.open(Response.json({ id: 'T7' }, { status: 201 }));
  await first;
  expect(await state('k')).toEqual({
    state: 'done',
    response: {
      status: 201,
      headers: { 'content-type': 'application/json' },
      body: '{"id":"T7"}',
      bodyEncoding: 'utf8',
    },
  });
  const second = handle(call({ key: 'b' }));
  await settled();
  gates[1]?.open(new Response('', { status: 500 }));
  await second;
  await clock.advance(HOLD);
  expect(await state('b')).toEqual({ state: 'in-doubt' });
  expect(runs).toHaveLength(2);
});

test('I3: a look seals the scope: the older owner’s request is refused after the answer absent', async () => {
  const { handle, runs } = receiver();
  expect((await seen(await handle(lookup({ ...look, fence: 2 })))).json).toEqual({ state: 'absent' });
  expect(await seen(await handle(call({ token: 1 })))).toMatchObject({
    status: 409,
    problem: 'stale-token',
    json: { highest: 2 },
  });
  expect(runs).toEqual([]);
  expect((await handle(call({ token: 2 }))).status).toBe(201);
});

test('a look with a lower token is stale, and says the highest', async () => {
  const { handle } = receiver();
  await handle(call({ token: 8 }));
  const answer = await seen(await handle(lookup({ ...look, fence: 7 })));
  expect([answer.status, answer.json]).toEqual([200, { state: 'stale', highest: 8 }]);
});

test('a look without a scope means the key’s own scope', async () => {
  const { handle } = receiver();
  await handle(call({ scope: undefined, key: 'alone' }));
  expect((await seen(await handle(lookup({ fence: 1, key: 'alone' })))).json).toMatchObject({ state: 'done' });
});

test('text keeps its byte order mark', async () => {
  const { handle } = receiver({}, () => new Response('\ufeffa'));
  await handle(call());
  expect((await seen(await handle(lookup(look)))).json).toMatchObject({
    response: { body: '\ufeffa', bodyEncoding: 'utf8' },
  });
});

test('bytes that are no UTF-8 text are looked up as base64', async () => {
  const bytes = Uint8Array.of(0xff, 0, 1);
  const { handle } = receiver({}, () => new Response(bytes));
  await handle(call());
  expect((await seen(await handle(lookup(look)))).json).toMatchObject({
    response: { body: '/wAB', bodyEncoding: 'base64' },
  });
});

test('a caller looks into its own namespace only', async () => {
  const { handle } = receiver({ identity: (request) => new URL(request.url).searchParams.get('as') ?? '' });
  await handle(call({ path: '/cases?as=ann' }));
  const as = async (user: string): Promise<unknown> =>
    (await seen(await handle(lookup(look, `/.well-known/leasehold/look?as=${user}`)))).json['state'];
  expect([await as('ann'), await as('bob')]).toEqual(['done', 'absent']);
});

test('the look endpoint answers on the path it is given, or nowhere', async () => {
  const moved = receiver({ lookPath: '/look' });
  expect((await moved.handle(lookup(look, '/look'))).status).toBe(200);
  expect((await moved.handle(lookup(look))).status).toBe(400);
  const off = receiver({ lookPath: false });
  expect((await off.handle(lookup(look))).status).toBe(400);
});

test('a store that is down makes a look a 503, also while observing', async () => {
  for (const mode of ['enforce', 'observe'] as const) {
    const { handle } = receiver({ mode }, undefined, (store) => ({
      ...store,
      look: () => Promise.reject(new Error('down')),
    }));
    const answer = await handle(lookup(look));
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
  }
});

test('a guard that only observes does not promise that what is absent stays absent', async () => {
  const { handle } = receiver({ mode: 'observe' });
  expect((await seen(await handle(lookup({ ...look, fence: 2 })))).json).toEqual({ state: 'in-doubt' });
  await handle(call({ token: 3 }));
  expect((await seen(await handle(lookup({ ...look, fence: 3 })))).json).toMatchObject({ state: 'done' });
});
