import { virtualClock } from '@leasehold/core';
import { memoryGuard } from '@leasehold/core/memory';
import { LOOK_PATH } from '@leasehold/guard';
import { expressGuard, guardErrors, keepRawBody, type MiddlewareOptions } from '@leasehold/guard/express';
import type { Express, Request, RequestHandler, Response } from 'express';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listen, loadExpress } from './frameworks.ts';
import { HOLD } from './receiver.ts';

let express: Awaited<ReturnType<typeof loadExpress>>;
beforeAll(async () => {
  express = await loadExpress();
});

const OPTIONS: MiddlewareOptions<Request> = { mode: 'enforce', require: 'key', retention: '30d' };

interface Answer {
  readonly status: number | undefined;
  readonly message: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A request over a connection of its own; rejects when that breaks. */
function post(url: string, body = '{}', headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const all = { 'content-type': 'application/json', 'idempotency-key': 'k', ...headers };
    const sent = httpRequest(url, { method: 'POST', headers: all, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () =>
        resolve({
          status: answer.statusCode,
          message: answer.statusMessage,
          headers: answer.headers,
          body: Buffer.concat(chunks),
        }),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const serve = (app: Express): Promise<string> => listen(createServer(app));
const text = ({ body }: Answer): string => body.toString();

describe('however a handler writes its reply', () => {
  const folder = mkdtempSync(join(tmpdir(), 'guard-express-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'file.txt');
  const big = Buffer.alloc(50_000, 'abc');
  writeFileSync(file, big);
  const ways: Readonly<Record<string, (request: Request, reply: Response) => unknown>> = {
    json: (_, reply) => reply.status(201).json({ id: 'T1' }),
    send: (_, reply) => reply.type('text/plain').send('grüß'),
    'a buffer': (_, reply) => reply.send(Buffer.from([0, 255])),
    redirect: (_, reply) => reply.redirect(303, '/tickets/1'),
    sendStatus: (_, reply) => reply.sendStatus(202),
    sendFile: (_, reply) => reply.sendFile(file),
    'writeHead with a message and an object': (_, reply) => reply.writeHead(202, 'Taken', { 'X-Kind': 'a' }).end('x'),
    'writeHead with a flat list': (_, reply) =>
      reply.set('X-Kind', 'c').writeHead(200, ['X-Kind', 'a', 'X-Kind', 'b', 'Content-Type', 'text/x']).end('x'),
    'write and end, with encodings': (_, reply) => (
      reply.write('4142', 'hex'),
      reply.write(Buffer.from('-')),
      reply.end('ÿ', 'latin1')
    ),
    'end in the callback of write': (_, reply) => void reply.write('a', () => void reply.end('b')),
    'flushHeaders first': (_, reply) => (
      reply.set('X-Kind', 'a').flushHeaders(),
      setTimeout(() => reply.end('later'), 5)
    ),
    pipe: (_, reply) => Readable.from([big.subarray(0, 20_000), big.subarray(20_000)]).pipe(reply),
    pipeline: (_, reply) => pipeline(Readable.from([big.subarray(0, 20_000), big.subarray(20_000)]), reply),
    'more than is kept, at once': (_, reply) => reply.send(Buffer.concat([big, big])),
    'more than is kept, by and by': (_, reply) => pipeline(Readable.from(Array.from({ length: 60 }, () => big)), reply),
    'a body that its status has not, by and by': (_, reply) =>
      pipeline(Readable.from(Array.from({ length: 60 }, () => big)), reply.status(204)),
    'no content': (_, reply) => reply.status(204).end(),
    'not modified': (_, reply) => reply.status(304).set('ETag', '"1"').end('ignored'),
    'a status of its own': (_, reply) => reply.status(299).end('odd'),
    cookies: (_, reply) => reply.cookie('a', '1').cookie('b', '2').json({}),
    'a length of its own': (_, reply) => reply.set('Content-Length', '3').end('abc'),
  };
  test.for(Object.keys(ways))('%s: what the caller gets is what an unguarded one gets', async (name) => {
    let ended = 0;
    const handler: RequestHandler = async (request, reply) => {
      await ways[name]?.(request, reply);
      ended++;
    };
    const app = express();
    app.post('/plain', handler);
    app.post('/guarded', expressGuard(memoryGuard(), OPTIONS), handler);
    const url = await serve(app);
    const seen = ({ status, message, headers, body }: Answer): unknown => {
      const {
        date: _date,
        connection: _connection,
        'transfer-encoding': _coding,
        'content-length': _length,
        ...rest
      } = headers;
      return { status, message, headers: rest, body: body.toString('latin1') };
    };
    const [plain, guarded] = [await post(`${url}/plain`), await post(`${url}/guarded`)];
    expect(seen(guarded)).toEqual(seen(plain));
    expect(ended).toBe(2);
    const replay = await post(`${url}/guarded`);
    expect(replay.headers['idempotent-replayed']).toBe('true');
    if (plain.body.length < 65_536)
      expect([replay.status, replay.body.toString('latin1')]).toEqual([plain.status, plain.body.toString('latin1')]);
    else expect(replay.status).toBe(410);
  });
});

test('a handler sees of its reply what it would see unguarded: head written, ended, finished, closed', async () => {
  const seen: unknown[] = [];
  const app = express();
  const finished = new Promise<void>((resolve) => {
    app.post('/', expressGuard(memoryGuard(), OPTIONS), (_request, reply) => {
      reply.on('finish', () => seen.push('finish'));
      reply.on('close', () => (seen.push('close'), resolve()));
      seen.push(reply.headersSent, reply.writableEnded);
      reply.write('a');
      seen.push(reply.headersSent, reply.writableEnded);
      reply.end(() => seen.push('ended'));
      seen.push(reply.writableEnded, reply.write('late') || 'not written');
      reply.end('twice');
    });
  });
  const url = await serve(app);
  expect(text(await post(url))).toBe('a');
  await finished;
  expect(seen.slice(0, 6)).toEqual([false, false, true, false, true, true]);
  expect(new Set(seen.slice(6))).toEqual(new Set(['close', 'ended', 'finish']));
});

test('the handler hears that its connection closed once it has ended its reply', async () => {
  const app = express();
  const heard: string[] = [];
  const ended = new Promise<void>((resolve) => {
    app.post('/', expressGuard(memoryGuard(), OPTIONS), (request, reply) => {
      reply.on('close', () => (heard.push('close'), resolve()));
      request.socket.once('close', () => {
        setTimeout(() => (heard.push('end'), reply.end('done')), 5);
      });
    });
  });
  const url = await serve(app);
  const sent = httpRequest(url, { method: 'POST', headers: { 'idempotency-key': 'k' }, agent: false });
  sent.on('error', () => undefined).end('{}');
  setTimeout(() => sent.destroy(), 20);
  await ended;
  expect(heard).toEqual(['end', 'close']);
});

test('a reply that breaks off half way is no answer: the connection breaks, and the key is in doubt', async () => {
  const [clock, app] = [virtualClock(), express()];
  const store = memoryGuard({ clock });
  app.post('/', expressGuard(store, { ...OPTIONS, clock }), (_request, reply) => {
    reply.write('half');
    throw new Error('broken');
  });
  const url = await serve(app);
  await expect(post(url)).rejects.toThrow('socket hang up');
  await clock.advance(2 * HOLD);
  expect(store.state.keys).toMatchObject([{ state: 'in-doubt' }]);
});

test('a final status is needed for an answer: with any other the caller gets an error, and the key is in doubt', async () => {
  const app = express();
  const store = memoryGuard();
  app.post('/', expressGuard(store, OPTIONS), (_request, reply) => {
    reply.writeHead(600).end('x');
  });
  expect((await post(await serve(app))).status).toBe(500);
  expect(store.state.keys).toMatchObject([{ state: 'in-progress' }]);
});

describe('the body as it came', () => {
  const parsers: Readonly<Record<string, () => RequestHandler>> = {
    'a JSON parser that keeps it': () => express.json({ verify: keepRawBody }),
    'a raw parser': () => express.raw({ type: '*/*' }),
    'a parser of another type': () => express.urlencoded({ extended: false }),
  };
  test.for(Object.keys(parsers))('is known after %s', async (name) => {
    const app = express();
    app.post(
      '/',
      (parsers[name] as () => RequestHandler)(),
      expressGuard(memoryGuard(), OPTIONS),
      (_request, reply) => void reply.send('done'),
    );
    const url = await serve(app);
    const statuses = [];
    for (const body of ['{"a":1}', '{"a":1}', '{"a": 1}']) statuses.push((await post(url, body)).status);
    expect(statuses).toEqual([200, 200, 422]);
  });

  test('is not known after a parser that threw it away: an error says what to do, and nothing runs', async () => {
    const app = express();
    let failed: unknown;
    app.post('/', express.json(), expressGuard(memoryGuard(), OPTIONS), () => expect.unreachable('it ran'));
    app.use((error: unknown, _request: Request, reply: Response, _next: () => void) => {
      failed = error;
      reply.status(500).end();
    });
    expect((await post(await serve(app))).status).toBe(500);
    expect(failed).toMatchObject({
      code: 'bad-request',
      field: 'body',
      message: expect.stringContaining('keepRawBody') as string,
    });
  });

  test('is left to whoever reads next when it is too long for the guard, which only observes', async () => {
    const app = express();
    app.post(
      '/',
      expressGuard(memoryGuard(), { ...OPTIONS, mode: 'observe', maxBodyBytes: 10 }),
      express.text(),
      (request, reply) => {
        reply.send(String((request.body as string).length));
      },
    );
    expect(text(await post(await serve(app), 'x'.repeat(90_000), { 'content-type': 'text/plain' }))).toBe('90000');
  });
});

test('a parser after the guard makes of an empty body what it makes of it without a guard', async () => {
  const app = express();
  const show: RequestHandler = (request, reply) => void reply.send(JSON.stringify([request.body]));
  app.post('/plain', express.json(), show);
  app.post('/guarded', expressGuard(memoryGuard(), OPTIONS), express.json(), show);
  const url = await serve(app);
  for (const headers of [{ 'content-length': '0' }, {}] as Record<string, string>[]) {
    const key = { 'idempotency-key': JSON.stringify(Object.keys(headers)).replaceAll('"', '') };
    const [plain, guarded] = [
      await post(`${url}/plain`, '', headers),
      await post(`${url}/guarded`, '', { ...headers, ...key }),
    ];
    expect(text(guarded)).toBe(text(plain));
  }
});

test('what is mounted before the guard works on what is sent: the stored response is plain, its replays are packed too', async () => {
  const [app, store] = [express(), memoryGuard()];
  // As compression does it: the reply's own methods are replaced, and the head is written late.
  app.use((_request, reply, next) => {
    const { end } = reply;
    reply.end = function packed(this: Response, chunk: unknown) {
      reply.set('Content-Encoding', 'gzip').removeHeader('Content-Length');
      return Reflect.apply(end, this, [gzipSync(chunk as Buffer)]) as Response;
    } as typeof end;
    next();
  });
  app.post('/', expressGuard(store, OPTIONS), (_request, reply) => void reply.send('plain text'));
  const url = await serve(app);
  for (const replayed of [undefined, 'true']) {
    const { headers, body } = await post(url);
    expect([headers['content-encoding'], headers['idempotent-replayed'], gunzipSync(body).toString()]).toEqual([
      'gzip',
      replayed,
      'plain text',
    ]);
  }
  const stored = store.state.keys[0]?.response;
  expect([stored?.headers['content-encoding'], Buffer.from(stored?.body ?? []).toString()]).toEqual([
    undefined,
    'plain text',
  ]);
});

test('what is mounted after the guard and waits for the head is part of the reply', async () => {
  const app = express();
  const late: RequestHandler = (_request, reply, next) => {
    const { writeHead } = reply;
    reply.writeHead = ((...args: unknown[]) => {
      reply.set('X-Late', 'yes');
      return Reflect.apply(writeHead, reply, args) as Response;
    }) as typeof writeHead;
    next();
  };
  app.post('/', expressGuard(memoryGuard(), OPTIONS), late, (_request, reply) => void reply.send('done'));
  const url = await serve(app);
  expect((await post(url)).headers['x-late']).toBe('yes');
  expect((await post(url)).headers['x-late']).toBe('yes');
});

test('an error that the application answers with 4xx is an outcome, and stored', async () => {
  const app = express();
  let runs = 0;
  app.post('/', expressGuard(memoryGuard(), OPTIONS), () => {
    runs++;
    throw Object.assign(new Error('sold out'), { status: 410 });
  });
  app.use(guardErrors);
  const url = await serve(app);
  expect([(await post(url)).status, (await post(url)).status, runs]).toEqual([410, 410, 1]);
});

test('mounted on a router, the path is the whole one, and the guard itself answers the look endpoint', async () => {
  const [app, router] = [express(), express.Router()];
  router.use(
    expressGuard(memoryGuard(), { ...OPTIONS, lookPath: `/api${LOOK_PATH}`, identity: (request) => request.ip ?? '' }),
  );
  router.post('/:kind', (request, reply) => void reply.send(request.originalUrl));
  app.use('/api', router);
  const url = await serve(app);
  expect(text(await post(`${url}/api/a`))).toBe('/api/a');
  expect((await post(`${url}/api/b`)).status).toBe(422);
  const looked = await post(`${url}/api${LOOK_PATH}`, JSON.stringify({ fence: 1, key: 'k' }));
  expect(JSON.parse(text(looked))).toMatchObject({ state: 'done' });
});

test('options that cannot be used are refused when the guard is made', () => {
  expect(() => expressGuard(memoryGuard(), { ...OPTIONS, afterHangUp: 0 })).toThrow(
    expect.objectContaining({ field: 'afterHangUp' }),
  );
});
