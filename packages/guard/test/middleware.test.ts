import { NothingHappened } from '@leasehold/guard';
import { Readable } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FRAMEWORKS, type Handle, type Reply } from './frameworks.ts';
import { problem, send, serveGuarded, TICKET, until } from './middleware-client.ts';
import { eventsOfTest, HOLD, latch } from './receiver.ts';

describe.each(FRAMEWORKS)('$name', (framework) => {
  test.for<[string, () => Reply]>([
    ['JSON', () => ({ body: { id: 'T1', title: 'drücker' } })],
    ['text', () => ({ status: 200, body: 'gemacht: ✓', headers: { etag: '"1"', location: '/tickets/1' } })],
    ['bytes', () => ({ body: Buffer.from([0, 255, 128, 10]), headers: { 'content-type': 'image/x' } })],
    [
      'a stream',
      () => ({
        body: Readable.from([Buffer.from('eins '), Buffer.from('zwei')]),
        headers: { 'content-type': 'text/plain' },
      }),
    ],
    ['nothing', () => ({ status: 204 })],
    ['an empty text', () => ({ status: 200, body: '' })],
    ['a redirection', () => ({ status: 303, headers: { location: '/tickets/1' }, body: 'see there' })],
    ['a refusal', () => ({ status: 409, body: { reason: 'sold out' } })],
  ])('a reply of %s is replayed byte for byte, with its status and its headers, and runs once', async ([, reply]) => {
    const { url, runs } = await serveGuarded(framework, reply);
    const first = await send(url);
    const replay = await send(url, { token: 2 });
    expect(runs).toHaveLength(1);
    expect([replay.status, replay.body]).toEqual([first.status, first.body]);
    for (const name of ['content-type', 'etag', 'location'])
      expect([name, replay.headers.get(name)]).toEqual([name, first.headers.get(name)]);
    expect([first, replay].map(({ headers }) => headers.get('idempotent-replayed'))).toEqual([null, 'true']);
  });

  test('the handler is given its body parsed as ever, and its context beside the request', async () => {
    const { url, runs } = await serveGuarded(framework);
    await send(url, { token: 7 });
    expect(runs).toMatchObject([{ body: TICKET, context: { scope: 'task-1', token: 7, key: 'k', held: true } }]);
  });

  test('a body that comes in pieces, without its length, is hashed whole and still parsed', async () => {
    const { url, runs } = await serveGuarded(framework);
    const text = JSON.stringify({ title: 'x'.repeat(60_000) });
    const pieces = async (body: string): Promise<number> => {
      const chunks = Readable.toWeb(Readable.from(body.match(/.{1,7000}/gs) ?? [], { objectMode: false }));
      const headers = { 'content-type': 'application/json', 'idempotency-key': 'k', 'x-execution-fence': '1' };
      const init = { method: 'POST', headers, body: chunks as ReadableStream, duplex: 'half' as const };
      return (await fetch(`${url}/tickets`, init)).status;
    };
    expect([await pieces(text), await pieces(text), await pieces(text.replace(/x"/, 'y"'))]).toEqual([201, 201, 422]);
    expect(runs).toMatchObject([{ body: JSON.parse(text) as unknown }]);
  });

  test('what must not run does not: stale tokens, reused keys, malformed fields, bodies that are too long', async () => {
    const { url, runs } = await serveGuarded(framework, undefined, { maxBodyBytes: 100 });
    await send(url, { token: 5 });
    const stale = await send(url, { token: 4, key: 'other' });
    expect([stale.status, problem(stale), stale.json['highest']]).toEqual([409, 'stale-token', 5]);
    for (const more of [{ json: { title: 'another' } }, { path: '/tickets?urgent' }, { method: 'PUT' }]) {
      const reused = await send(url, { token: 5, ...more });
      expect([reused.status, problem(reused)]).toEqual([422, 'key-reused']);
    }
    const missing = await send(url, { token: 5, key: undefined });
    expect([missing.status, problem(missing), missing.json['field']]).toEqual([
      400,
      'missing-field',
      'Idempotency-Key',
    ]);
    const long = await send(url, { token: 5, key: 'long', json: { title: 'x'.repeat(100) } });
    expect([long.status, problem(long), long.headers.get('content-type')]).toEqual([
      413,
      'body-too-large',
      'application/problem+json',
    ]);
    expect(runs).toHaveLength(1);
  });

  test('of many requests with one key at once one runs', async () => {
    const gate = latch<Reply>();
    const { url, runs } = await serveGuarded(framework, () => gate.promise);
    const all = Array.from({ length: 10 }, () => send(url));
    const refused = await Promise.race(all);
    expect([refused.status, problem(refused), refused.headers.get('retry-after')]).toEqual([409, 'in-progress', '2']);
    gate.open({ body: 'done' });
    const first = (await Promise.all(all)).filter(
      ({ headers, status }) => status === 201 && !headers.has('idempotent-replayed'),
    );
    expect(first).toHaveLength(1);
    expect(runs).toHaveLength(1);
  });

  test.for<[string, Handle, number]>([
    ['answers 503', () => ({ status: 503, body: 'busy' }), 503],
    ['answers 429', () => ({ status: 429 }), 429],
    ['throws', () => Promise.reject(new Error('broken')), 500],
  ])('a handler that %s answers so, its reply is not stored, and its key is in doubt', async ([, handle, status]) => {
    let broken = true;
    const { url, clock, runs } = await serveGuarded(
      framework,
      (incoming) => (broken ? handle(incoming) : { body: 'second' }),
      {
        resolve: () => (broken ? 'unknown' : 'absent'),
      },
    );
    expect((await send(url)).status).toBe(status);
    await clock.advance(HOLD);
    expect(problem(await send(url))).toBe('in-doubt');
    broken = false;
    expect(await send(url)).toMatchObject({ status: 201, body: 'second' });
    expect(runs).toHaveLength(2);
  });

  test('a handler that throws NothingHappened frees its key and answers as a guarded one does', async () => {
    let first = true;
    const { url, store } = await serveGuarded(framework, () => {
      if (!first) return { body: 'second' };
      first = false;
      throw new NothingHappened();
    });
    const answer = await send(url);
    expect([answer.status, problem(answer), answer.headers.get('retry-after')]).toEqual([503, 'nothing-happened', '5']);
    expect(store.state.keys).toEqual([]);
    expect(await send(url)).toMatchObject({ status: 201, body: 'second' });
  });

  test('a handler that says nothing happened and then fails frees its key, and its own reply is sent', async () => {
    const { url, store } = await serveGuarded(framework, ({ context }) => {
      context.nothingHappened();
      return { status: 503, body: 'try later' };
    });
    expect(await send(url)).toMatchObject({ status: 503, body: 'try later' });
    expect(store.state.keys).toEqual([]);
  });

  test('a reply is told only once it is stored', async () => {
    const gate = latch();
    let finishing = false;
    const { url } = await serveGuarded(
      framework,
      () => ({ body: 'done' }),
      {},
      (store) => ({
        ...store,
        async finish(...args) {
          finishing = true;
          await gate.promise;
          return store.finish(...args);
        },
      }),
    );
    let told = false;
    const first = send(url).finally(() => (told = true));
    await until(() => finishing);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(told).toBe(false);
    gate.open();
    expect(await first).toMatchObject({ status: 201, body: 'done' });
  });

  test('a reply that could not be stored is not told: nothing of it, neither body nor headers, reaches the caller', async () => {
    const { url, clock } = await serveGuarded(
      framework,
      () => ({ body: 'secret', headers: { etag: '"1"', 'content-type': 'text/x', 'set-cookie': 'a=1' } }),
      {},
      (store) => ({ ...store, finish: () => Promise.reject(new Error('down')) }),
    );
    const ticking = setInterval(() => void clock.advance(100), 5);
    onTestFinished(() => clearInterval(ticking));
    const answer = await send(url);
    expect([answer.status, problem(answer), answer.headers.get('content-type')]).toEqual([
      503,
      'outcome-unknown',
      'application/problem+json',
    ]);
    expect([answer.headers.get('etag'), answer.headers.get('set-cookie')]).toEqual([null, null]);
    expect(answer.headers.get('x-request-id')).toMatch(/^\d+$/);
    expect(answer.body).not.toContain('secret');
  });

  test('only what the handler says is stored: not the headers of the application around it, nor cookies', async () => {
    const { url, store } = await serveGuarded(framework, () => ({
      body: 'done',
      headers: { 'set-cookie': 'session=1', 'x-ticket': '1' },
    }));
    const first = await send(url);
    const replay = await send(url);
    expect([first, replay].map(({ headers }) => headers.get('x-ticket'))).toEqual(['1', '1']);
    expect([first, replay].map(({ headers }) => headers.get('set-cookie'))).toEqual(['session=1', null]);
    expect(replay.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
    expect(Object.keys(store.state.keys[0]?.response?.headers ?? {})).not.toContain('x-request-id');
  });

  test('the look endpoint is there, and says in JSON what is known', async () => {
    const { url } = await serveGuarded(framework);
    const look = (ask: unknown, contentType = 'application/json'): Promise<globalThis.Response> =>
      fetch(`${url}/.well-known/leasehold/look`, {
        method: 'POST',
        headers: { 'content-type': contentType },
        body: typeof ask === 'string' ? ask : JSON.stringify(ask),
      });
    const ask = { scope: 'task-1', fence: 3, key: 'k' };
    expect(await (await look(ask)).json()).toEqual({ state: 'absent' });
    expect(problem(await send(url, { token: 2 }))).toBe('stale-token');
    await send(url, { token: 3 });
    const found = await (await look(ask, 'text/plain')).json();
    expect(found).toMatchObject({
      state: 'done',
      response: { status: 201, body: '{"id":"T1"}', bodyEncoding: 'utf8' },
    });
    const malformed = await look('{');
    expect([malformed.status, malformed.headers.get('content-type')]).toEqual([400, 'application/problem+json']);
  });

  test('callers that authentication tells apart share no keys', async () => {
    const { url, runs } = await serveGuarded(framework, undefined, {
      identity: ({ headers }) => headers.authorization ?? 'nobody',
    });
    const as = (user: string): Promise<globalThis.Response> =>
      fetch(`${url}/tickets`, {
        method: 'POST',
        headers: { authorization: user, 'idempotency-key': 'k', 'x-execution-fence': '1' },
      });
    expect([
      (await as('ann')).status,
      (await as('ann')).headers.get('idempotent-replayed'),
      (await as('bob')).status,
    ]).toEqual([201, 'true', 201]);
    expect(runs).toHaveLength(2);
  });

  test('a hook that throws is the application’s error, and nothing runs', async () => {
    const { url, runs } = await serveGuarded(framework, undefined, { identity: () => '' });
    expect((await send(url)).status).toBe(500);
    expect(runs).toEqual([]);
  });

  test('observing, every request runs and its own reply is sent; the events say what enforcing would have answered', async () => {
    const events = eventsOfTest();
    let count = 0;
    const { url } = await serveGuarded(framework, () => ({ body: `run ${++count}` }), { mode: 'observe' });
    expect([await send(url), await send(url), await send(url, { key: undefined })].map(({ body }) => body)).toEqual([
      'run 1',
      'run 2',
      'run 3',
    ]);
    expect(events.filter(({ name }) => name === 'guard_observed').map((event) => event.problem)).toEqual([
      'replay',
      'missing-field',
    ]);
  });

  test('where nothing is required a request without a key is not touched', async () => {
    const { url, store } = await serveGuarded(
      framework,
      () => ({ status: 200, body: Readable.from([Buffer.from('as ever')]) }),
      {
        require: 'none',
      },
    );
    expect(await send(url, { key: undefined, token: undefined, scope: undefined })).toMatchObject({
      status: 200,
      body: 'as ever',
    });
    expect(store.state.keys).toEqual([]);
  });
});
