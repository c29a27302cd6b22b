import { isLeaseholdError } from '@leasehold/core';
import { guard, NothingHappened, type FencedContext } from '@leasehold/guard';
import { memoryGuard } from '@leasehold/core/memory';
import { expect, expectTypeOf, test } from 'vitest';
import { call, HOLD, latch, receiver, seen, settled } from './receiver.ts';

test('a first request runs and a second one with its key gets the same status, headers and body, marked as a replay', async () => {
  const { handle, runs, names } = receiver();
  const first = await handle(call());
  expect(first.headers.get('location')).toBe('/cases/7');
  expect(await seen(first)).toMatchObject({ status: 201, replayed: false, body: 'created' });
  const second = await handle(call({ token: 2 }));
  expect(second.headers.get('location')).toBe('/cases/7');
  expect(await seen(second)).toMatchObject({ status: 201, replayed: true, body: 'created' });
  expect(runs).toEqual(['open a case']);
  expect(names()).toEqual(['guard_admitted', 'guard_stored', 'guard_replayed']);
});

test('a lower token than the highest seen is refused with that token, whatever its key', async () => {
  const { handle, runs } = receiver();
  await handle(call({ token: 7 }));
  for (const key of ['k', 'other']) {
    const answer = await handle(call({ token: 6, key }));
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(await seen(answer)).toMatchObject({
      status: 409,
      problem: 'stale-token',
      json: { highest: 7, status: 409 },
    });
  }
  expect(runs).toHaveLength(1);
});

test('the same key with another method, path, query or body is refused', async () => {
  const { handle, runs } = receiver();
  await handle(call());
  for (const other of [
    { method: 'PUT' },
    { path: '/tickets' },
    { path: '/cases?dry=1' },
    { body: 'open a cas' },
    { body: '' },
  ]) {
    expect(await seen(await handle(call(other)))).toMatchObject({ status: 422, problem: 'key-reused' });
  }
  expect(runs).toHaveLength(1);
});

test('of a hundred requests with one key at once one runs; the others are told it is in progress, then get its response', async () => {
  const gate = latch();
  const { handle, runs } = receiver({}, async () => {
    await gate.promise;
    return new Response('done');
  });
  const all = Array.from({ length: 100 }, () => handle(call()));
  const others = await Promise.all(all.slice(1));
  for (const answer of others) {
    expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect(await seen(answer)).toMatchObject({ status: 409, problem: 'in-progress' });
  }
  gate.open();
  expect((await (all[0] as Promise<Response>)).status).toBe(200);
  expect(await seen(await handle(call()))).toMatchObject({ replayed: true, body: 'done' });
  expect(runs).toHaveLength(1);
});

test.for([
  ['answers 503', () => new Response('try later', { status: 503 })],
  ['answers 429', () => new Response('slow down', { status: 429 })],
  ['answers an error response', () => Response.error()],
  ['throws', () => Promise.reject(new Error('broken'))],
  [
    'returns a body it has read from itself',
    async () => {
      const response = new Response('read');
      const reader = response.body?.getReader();
      await reader?.read();
      reader?.releaseLock();
      return response;
    },
  ],
  [
    'gives a body that breaks off',
    () => new Response(new ReadableStream({ pull: (stream) => stream.error(new Error('cut')) })),
  ],
] as const)(
  'a handler that %s leaves its key in doubt: nothing is stored, and it is never run again',
  async ([, handler]) => {
    const { handle, runs, clock, store, names } = receiver({}, handler);
    await handle(call()).catch(() => undefined);
    expect(store.state.keys.map((key) => key.state)).toEqual(['in-progress']);
    expect(await seen(await handle(call()))).toMatchObject({ problem: 'in-progress' });
    await clock.advance(HOLD);
    expect(await seen(await handle(call()))).toMatchObject({ status: 409, problem: 'in-doubt' });
    await clock.advance(100 * 86_400_000);
    expect(await seen(await handle(call({ token: 9 })))).toMatchObject({ status: 409, problem: 'in-doubt' });
    expect(runs).toHaveLength(1);
    expect(names()).toContain('guard_left_in_doubt');
  },
);

test('what the handler throws comes out of the guard, for the framework to log', async () => {
  const error = new Error('broken');
  const { handle } = receiver({}, () => Promise.reject(error));
  await expect(handle(call())).rejects.toBe(error);
});

test.for([
  ['throws NothingHappened', () => Promise.reject(new NothingHappened()), 503],
  [
    'marks and answers 503',
    (_: Request, context: { nothingHappened(): void }) => (
      context.nothingHappened(),
      new Response('', { status: 503 })
    ),
    503,
  ],
  [
    'marks and answers 400',
    (_: Request, context: { nothingHappened(): void }) => (
      context.nothingHappened(),
      new Response('', { status: 400 })
    ),
    400,
  ],
] as const)('a handler that %s frees its key', async ([, handler, status]) => {
  let tries = 0;
  const { handle, names } = receiver({}, (request, context) =>
    tries++ === 0 ? handler(request, context) : new Response('done'),
  );
  expect((await handle(call())).status).toBe(status);
  expect(await seen(await handle(call({ body: 'corrected' })))).toMatchObject({ status: 200, replayed: false });
  expect(names()).toContain('guard_freed');
});

test('a handler that marks and then throws frees its key', async () => {
  const { handle, store } = receiver({}, (_, context) => {
    context.nothingHappened();
    throw new Error('validation');
  });
  await expect(handle(call())).rejects.toThrow('validation');
  expect(store.state.keys).toEqual([]);
});

test('a 2xx answer is stored even if the handler says nothing happened: a told success never runs again', async () => {
  const { handle, runs } = receiver({}, (_, context) => {
    context.nothingHappened();
    return new Response('done');
  });
  await handle(call());
  expect(await seen(await handle(call()))).toMatchObject({ status: 200, replayed: true });
  expect(runs).toHaveLength(1);
});

test('a 4xx answer is the outcome of its key', async () => {
  const { handle, runs } = receiver({}, () => new Response('no such customer', { status: 404 }));
  await handle(call());
  expect(await seen(await handle(call()))).toMatchObject({ status: 404, replayed: true, body: 'no such customer' });
  expect(runs).toHaveLength(1);
});

test('a request body over the limit is refused and not run', async () => {
  const { handle, runs } = receiver({ maxBodyBytes: 10 });
  expect((await handle(call({ body: '0123456789' }))).status).toBe(201);
  expect(await seen(await handle(call({ body: '0123456789!', key: 'b' })))).toMatchObject({
    status: 413,
    problem: 'body-too-large',
  });
  expect(runs).toHaveLength(1);
});

test('a caller that hangs up neither stops the handler nor frees the key', async () => {
  const caller = new AbortController();
  const gate = latch();
  const { handle, runs, contexts } = receiver({}, async (request, context) => {
    expect(request.signal.aborted).toBe(false);
    await gate.promise;
    expect([request.signal.aborted, context.signal.aborted]).toEqual([false, false]);
    return new Response('done');
  });
  const first = handle(call({ signal: caller.signal }));
  await settled();
  caller.abort();
  expect(await seen(await handle(call()))).toMatchObject({ problem: 'in-progress' });
  gate.open();
  await first;
  expect(await seen(await handle(call()))).toMatchObject({ replayed: true, body: 'done' });
  expect([runs.length, contexts[0]?.held]).toEqual([1, true]);
});

test('the handler gets the request as it came, and the claim beside it', async () => {
  const { handle, contexts } = receiver({}, async (request) => {
    return Response.json({
      method: request.method,
      url: request.url,
      type: request.headers.get('content-type'),
      body: await request.text(),
    });
  });
  const answer = await handle(call({ method: 'PATCH', path: '/a?b=c', body: 'text 中' }));
  expect(await answer.json()).toEqual({
    method: 'PATCH',
    url: 'http://receiver.test/a?b=c',
    type: 'text/plain;charset=UTF-8',
    body: 'text 中',
  });
  expect(contexts[0]).toMatchObject({ scope: 'task-1', token: 1, key: 'k', held: true });
  expect((await handle(call({ method: 'GET', key: 'g' }))).status).toBe(200);
});

test('without a scope header the key is the scope, so tokens of two keys say nothing about each other', async () => {
  const { handle, store, contexts } = receiver();
  await handle(call({ scope: undefined, token: 5 }));
  expect((await handle(call({ scope: undefined, token: 4, key: 'other' }))).status).toBe(201);
  expect((await handle(call({ scope: undefined, token: 4 }))).status).toBe(409);
  expect([store.state.highest('k'), store.state.highest('other'), contexts[0]?.scope]).toEqual([5, 4, 'k']);
});

test('a quoted key and a bare one are the same key', async () => {
  const { handle, runs, contexts } = receiver();
  await handle(call({ key: '"k-1"' }));
  expect(await seen(await handle(call({ key: 'k-1' })))).toMatchObject({ replayed: true });
  await handle(call({ key: String.raw`"a, \"b\" \\ c"` }));
  expect(contexts.map((context) => context.key)).toEqual(['k-1', 'a, "b" \\ c']);
  expect(runs).toHaveLength(2);
});

test('callers of different identity share neither keys nor tokens, and the identity is not stored in the clear', async () => {
  const { handle, runs, store, events } = receiver({ identity: (request) => request.headers.get('x-user') ?? '' });
  const as = (user: string, token: number): Request => {
    const request = call({ token });
    request.headers.set('x-user', user);
    return request;
  };
  expect((await handle(as('ann', 9))).status).toBe(201);
  expect((await handle(as('bob', 1))).status).toBe(201);
  expect(await seen(await handle(as('ann', 9)))).toMatchObject({ replayed: true });
  expect(runs).toHaveLength(2);
  expect(JSON.stringify([store.state.keys, events])).not.toMatch(/ann|bob/);
  await expect(handle(as('', 1))).rejects.toSatisfy((error) => isLeaseholdError(error) && error.field === 'identity');
  expect(runs).toHaveLength(2);
});

test('a key alone is enough where no fence is required, and a fence that is there is still checked', async () => {
  const { handle } = receiver({ require: 'key' });
  expect((await handle(call({ token: undefined, key: 'a' }))).status).toBe(201);
  expect((await handle(call({ token: 3, key: 'b' }))).status).toBe(201);
  expect(await seen(await handle(call({ token: 2, key: 'c' })))).toMatchObject({ problem: 'stale-token' });
  expect((await handle(call({ token: undefined, key: undefined }))).status).toBe(400);
});

test('where nothing is required a request without a key runs unguarded, one with a key is guarded', async () => {
  const { handle, runs, store } = receiver({ require: 'none' });
  const bare = (): Request => call({ token: undefined, key: undefined, scope: undefined });
  await handle(bare());
  await handle(bare());
  expect([runs.length, store.state.keys.length]).toEqual([2, 0]);
  await handle(call());
  expect(await seen(await handle(call()))).toMatchObject({ replayed: true });
  expect(await seen(await handle(call({ key: undefined })))).toMatchObject({
    status: 400,
    json: { field: 'Idempotency-Key' },
  });
});

test('scope, fence and key come from the body where an extract hook says so, and the hash leaves the fence out', async () => {
  const { handle, runs } = receiver({
    extract: (_, body) => {
      const { run, ...content } = body as { run: { task: string; fence: number; key: string }; text: string };
      return { scope: run.task, fence: run.fence, key: run.key, content };
    },
  });
  const send = (fence: unknown, text: string, key = 'k'): Promise<Response> =>
    handle(
      new Request('http://receiver.test/', {
        method: 'POST',
        body: JSON.stringify({ run: { task: 't', fence, key }, text }),
      }),
    );
  expect((await send(1, 'a')).status).toBe(201);
  expect(await seen(await send(2, 'a'))).toMatchObject({ replayed: true });
  expect(await seen(await send(1, 'a'))).toMatchObject({ problem: 'stale-token' });
  expect(await seen(await send('2', 'b'))).toMatchObject({ problem: 'key-reused' });
  expect(runs).toHaveLength(1);
});

test('an extract hook may say in bytes what the hash covers, and without a fence it covers the whole body', async () => {
  const bytes = receiver({
    extract: (_, body) => ({ fence: 1, key: 'k', content: new TextEncoder().encode(String((body as string[])[0])) }),
  });
  await bytes.handle(call({ body: '["a", 1]' }));
  expect(await seen(await bytes.handle(call({ body: '["a", 2]' })))).toMatchObject({ replayed: true });
  expect(await seen(await bytes.handle(call({ body: '["b", 1]' })))).toMatchObject({ problem: 'key-reused' });
  const whole = receiver({ require: 'key', extract: () => ({ key: 'k' }) });
  await whole.handle(call({ body: '["a", 1]' }));
  expect(await seen(await whole.handle(call({ body: '["a", 2]' })))).toMatchObject({ problem: 'key-reused' });
});

test('an extract hook that gives a fence without saying what the hash covers is told so', async () => {
  const { handle, runs } = receiver({ extract: () => ({ fence: 1, key: 'k' }) });
  await expect(handle(call({ body: '{}' }))).rejects.toSatisfy(
    (error) => isLeaseholdError(error) && error.code === 'bad-option',
  );
  expect(runs).toEqual([]);
});

test('a stored response is forgotten after its retention', async () => {
  const { handle, runs, clock } = receiver({ retention: '1h' });
  await handle(call());
  await clock.advance(3_599_999);
  await handle(call());
  expect(runs).toHaveLength(1);
  await clock.advance(1);
  await handle(call());
  expect(runs).toHaveLength(2);
});

test('a handler behind an enforcing guard knows its fence and key by type', () => {
  const store = memoryGuard();
  guard(store, { mode: 'enforce', require: 'fence+key', retention: '30d' }, (_, context) => {
    expectTypeOf(context).toEqualTypeOf<FencedContext>();
    return new Response();
  });
  guard(store, { mode: 'observe', require: 'fence+key', retention: '30d' }, (_, context) => {
    expectTypeOf(context.key).toEqualTypeOf<string | undefined>();
    return new Response();
  });
});

test.for([
  ['mode', { mode: 'on' }],
  ['require', { require: 'fence' }],
  ['retention', { retention: undefined }],
  ['retention', { retention: '30' }],
  ['retention', { retention: '10s' }],
  ['hold', { hold: 30 }],
  ['maxBodyBytes', { maxBodyBytes: -1 }],
  ['maxStoredBytes', { maxStoredBytes: Number.NaN }],
  ['maxHeaderLength', { maxHeaderLength: 0 }],
  ['lookPath', { lookPath: 'look' }],
] as const)('field case 40: a wrong %s is refused when the guard is made (%j)', ([field, wrong]) => {
  const options = { mode: 'enforce', require: 'key', retention: '30d', ...wrong };
  expect(() => guard(memoryGuard(), options as Parameters<typeof guard>[1], () => new Response())).toThrow(
    expect.objectContaining({ code: 'bad-option', field }),
  );
});
