import { virtualClock } from '@leasehold/core';
import { memoryGuard, type MemoryGuard } from '@leasehold/core/memory';
import { LOOK_PATH, NothingHappened } from '@leasehold/guard';
import { fastifyGuard, guardContext, type MiddlewareOptions } from '@leasehold/guard/fastify';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { Readable } from 'node:stream';
import { createGunzip, gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { HOLD } from './receiver.ts';

const OPTIONS: MiddlewareOptions<FastifyRequest> = { mode: 'enforce', require: 'key', retention: '30d' };

interface App {
  readonly app: FastifyInstance;
  readonly store: MemoryGuard;
  readonly url: string;
}

/** Listens until the test ends. `routes` go into a guarded context, `around` into the application before it. */
async function serve(
  routes: (guarded: FastifyInstance) => void,
  options: Partial<MiddlewareOptions<FastifyRequest>> = {},
  around: (app: FastifyInstance) => void = () => undefined,
): Promise<App> {
  const store = memoryGuard(options.clock ? { clock: options.clock } : {});
  const app = fastify();
  around(app);
  await app.register(async (guarded) => {
    await guarded.register(fastifyGuard(store, { ...OPTIONS, ...options }));
    routes(guarded);
  });
  onTestFinished(() => app.close());
  return { app, store, url: await app.listen({ port: 0, host: '127.0.0.1' }) };
}

function post(
  url: string,
  body: string | Uint8Array<ArrayBuffer> = '{}',
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', 'idempotency-key': 'k', ...headers },
  });
}

test('a request that Fastify refuses takes no key: the repaired one runs', async () => {
  const schema = { body: { type: 'object', required: ['title'] } };
  const { url, store } = await serve((guarded) => {
    guarded.post('/', { schema }, () => 'done');
  });
  expect([(await post(url, '{')).status, (await post(url, '{}')).status, store.state.keys]).toEqual([400, 400, []]);
  expect((await post(url, '{"title":"x"}')).status).toBe(200);
});

test('authentication that is a hook added earlier comes before the guard', async () => {
  const { url, store } = await serve(
    (guarded) => {
      guarded.post('/', () => 'done');
    },
    {},
    (app) => {
      app.addHook('preHandler', async (request, reply) => {
        if (request.headers.authorization === undefined) return reply.code(401).send({ error: 'who are you?' });
        return undefined;
      });
    },
  );
  expect([(await post(url)).status, store.state.keys]).toEqual([401, []]);
  expect((await post(url, '{}', { authorization: 'ann' })).status).toBe(200);
  const looked = await fetch(`${url}${LOOK_PATH}`, { method: 'POST', body: '{"fence":1,"key":"k"}' });
  expect(looked.status).toBe(401);
});

test.for<[string, (guarded: FastifyInstance) => void]>([
  ['returned', (guarded) => guarded.post('/', () => ({ id: 'T1' }))],
  ['promised', (guarded) => guarded.post('/', async () => ({ id: 'T1' }))],
  [
    'sent later, without a promise',
    (guarded) => guarded.post('/', (_, reply) => void setTimeout(() => void reply.send({ id: 'T1' }), 5)),
  ],
  [
    'sent by an async handler that returns the reply',
    (guarded) => guarded.post('/', async (_, reply) => reply.send({ id: 'T1' })),
  ],
  ['a Response', (guarded) => guarded.post('/', () => Response.json({ id: 'T1' }, { headers: { etag: '"1"' } }))],
  [
    'a web stream',
    (guarded) =>
      guarded.post('/', (_, reply) => reply.type('application/json').send(new Blob(['{"id":"T1"}']).stream())),
  ],
  [
    'a stream',
    (guarded) =>
      guarded.post('/', (_, reply) => reply.type('application/json').send(Readable.from(['{"id":', '"T1"}']))),
  ],
])('a reply that is %s is stored and replayed', async ([, routes]) => {
  const { url, store } = await serve(routes);
  const [first, replay] = [await post(url), await post(url)];
  expect([await first.text(), await replay.text()]).toEqual(['{"id":"T1"}', '{"id":"T1"}']);
  for (const name of ['content-type', 'etag']) expect(replay.headers.get(name)).toBe(first.headers.get(name));
  expect(replay.headers.get('idempotent-replayed')).toBe('true');
  expect(store.state.keys).toHaveLength(1);
});

test('an application’s error handler decides what an error is: 4xx is an outcome, NothingHappened still frees', async () => {
  let runs = 0;
  const { url, store } = await serve(
    (guarded) => {
      guarded.post('/', async () => {
        throw ++runs === 1 ? new NothingHappened() : new Error('sold out');
      });
    },
    {},
    (app) => {
      app.setErrorHandler((_error, _request, reply) => reply.code(410).send({ gone: true }));
    },
  );
  const freed = await post(url);
  expect([freed.status, freed.headers.get('content-type'), store.state.keys]).toEqual([
    503,
    'application/problem+json',
    [],
  ]);
  expect([(await post(url)).status, await (await post(url)).json(), runs]).toEqual([410, { gone: true }, 2]);
});

test('a handler that throws NothingHappened without a promise frees its key too', async () => {
  const { url, store } = await serve((guarded) => {
    guarded.post('/', () => {
      throw new NothingHappened();
    });
  });
  expect([(await post(url)).status, store.state.keys]).toEqual([503, []]);
});

test('a reply past Fastify cannot be stored: it is sent, and the key is in doubt', async () => {
  const clock = virtualClock();
  const { url, store } = await serve(
    (guarded) => {
      guarded.post('/', (_, reply) => {
        reply.hijack();
        reply.raw.end('raw');
      });
    },
    { clock },
  );
  expect(await (await post(url)).text()).toBe('raw');
  // Only once its hold is not extended any more.
  // Not ten minutes later, as for a handler that may still answer.
  for (let round = 0; round < 5 && store.state.keys[0]?.state !== 'in-doubt'; round++) await clock.advance(HOLD);
  expect(store.state.keys).toMatchObject([{ state: 'in-doubt' }]);
  expect(clock.pending).toBe(0);
});

test('a body that a plugin unpacks is hashed unpacked, and parsed', async () => {
  const { url } = await serve(
    (guarded) => {
      guarded.post('/', (request) => request.body);
    },
    {},
    (app) => {
      app.addHook('preParsing', async (request, _reply, payload) => {
        const unpacked = createGunzip();
        Object.defineProperty(unpacked, 'receivedEncodedLength', { get: () => unpacked.bytesWritten });
        return request.headers['content-encoding'] === 'gzip' ? payload.pipe(unpacked) : payload;
      });
    },
  );
  const packed = (level: number, text: string): Promise<Response> =>
    post(url, Uint8Array.from(gzipSync(text, { level })), { 'content-encoding': 'gzip' });
  expect(await (await packed(1, '{"title":"x"}')).json()).toEqual({ title: 'x' });
  expect((await packed(9, '{"title":"x"}')).headers.get('idempotent-replayed')).toBe('true');
  expect((await packed(9, '{"title":"y"}')).status).toBe(422);
});

test('only the routes of its context are guarded, and a prefix goes before the look endpoint', async () => {
  const store = memoryGuard();
  const app = fastify();
  let others = 0;
  app.post('/other', () => `other ${++others}`);
  await app.register(
    async (guarded) => {
      await guarded.register(fastifyGuard(store, { ...OPTIONS, lookPath: '/look' }));
      guarded.post('/tickets', (request) => guardContext(request).key);
    },
    { prefix: '/api' },
  );
  onTestFinished(() => app.close());
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  expect([await (await post(`${url}/other`)).text(), await (await post(`${url}/other`)).text()]).toEqual([
    'other 1',
    'other 2',
  ]);
  expect(await (await post(`${url}/api/tickets`)).text()).toBe('k');
  expect(
    await (await fetch(`${url}/api/look`, { method: 'POST', body: '{"fence":1,"key":"k"}' })).json(),
  ).toMatchObject({ state: 'done' });
  expect((await fetch(`${url}/api/look`)).status).toBe(405);
});

test('an injected request is guarded like one from the network', async () => {
  const { app } = await serve((guarded) => {
    guarded.post('/', (request) => request.body);
  });
  const inject = (payload: object) =>
    app.inject({ method: 'POST', url: '/', headers: { 'idempotency-key': 'k' }, payload });
  const answers = [await inject({ a: 1 }), await inject({ a: 1 }), await inject({ a: 2 })];
  expect(answers.map(({ statusCode, headers }) => [statusCode, headers['idempotent-replayed']])).toEqual([
    [200, undefined],
    [200, 'true'],
    [422, undefined],
  ]);
  expect(answers[1]?.json()).toEqual({ a: 1 });
});

test('identity takes what authentication put on Fastify’s request', async () => {
  const { url } = await serve(
    (guarded) => {
      guarded.post('/', (request) => request.ip);
    },
    { identity: (request) => request.ip },
  );
  expect(await (await post(url)).text()).toBe('127.0.0.1');
});

test('options that cannot be used are refused when the plugin is made', () => {
  expect(() => fastifyGuard(memoryGuard(), { ...OPTIONS, afterHangUp: '' })).toThrow(
    expect.objectContaining({ field: 'afterHangUp' }),
  );
  expect(() => guardContext({})).toThrow('did not come through a guard');
});
