import { memoryGuard } from '@leasehold/core/memory';
import { guard, guardRequest, lookRequest, openGate, type GuardContext, type GuardedRequest } from '@leasehold/guard';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';

type Listener = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>;

async function serve(listener: Listener): Promise<string> {
  const server: Server = createServer((incoming, outgoing) => {
    listener(incoming, outgoing).catch(() => outgoing.writeHead(500).end('failed'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function headersOf(incoming: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
    headers.append(incoming.rawHeaders[at] as string, incoming.rawHeaders[at + 1] as string);
  }
  return headers;
}

async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, [...response.headers].flat());
  outgoing.end(await response.bytes());
}

const post = (url: string, token: number, key: string, body = '{"title":"printer on fire"}'): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: {
      'x-execution-scope': 'task-1',
      'x-execution-fence': String(token),
      'idempotency-key': key,
      'content-type': 'application/json',
    },
    body,
  });

test('over node:http, a Fetch handler behind a guard runs once and is looked up', async () => {
  const tickets: unknown[] = [];
  const handler = guard(
    memoryGuard(),
    { mode: 'enforce', require: 'fence+key', retention: '30d' },
    async (request, { key }) => {
      tickets.push(await request.json());
      return Response.json({ id: `T${tickets.length}`, key }, { status: 201 });
    },
  );
  const url = await serve(async (incoming, outgoing) => {
    const body = incoming.method === 'GET' ? undefined : (Readable.toWeb(incoming) as ReadableStream<Uint8Array>);
    const init = {
      method: incoming.method as string,
      headers: headersOf(incoming),
      ...(body ? { body, duplex: 'half' as const } : {}),
    };
    await send(await handler(new Request(`http://${incoming.headers.host}${incoming.url}`, init)), outgoing);
  });
  const answers = await Promise.all(Array.from({ length: 10 }, () => post(`${url}/tickets`, 2, 'k')));
  expect(answers.map((answer) => answer.status).filter((status) => status !== 409)).toContain(201);
  const replay = await post(`${url}/tickets`, 2, 'k');
  expect([replay.status, replay.headers.get('idempotent-replayed'), await replay.json()]).toEqual([
    201,
    'true',
    { id: 'T1', key: 'k' },
  ]);
  expect((await post(`${url}/tickets`, 1, 'other')).status).toBe(409);
  expect(tickets).toEqual([{ title: 'printer on fire' }]);
  const looked = await fetch(`${url}/.well-known/leasehold/look`, {
    method: 'POST',
    body: JSON.stringify({ scope: 'task-1', fence: 2, key: 'k' }),
  });
  expect(await looked.json()).toMatchObject({
    state: 'done',
    response: { status: 201, body: '{"id":"T1","key":"k"}' },
  });
  expect(await duplicateHeader(`${url}/tickets`)).toMatchObject({ status: 400, field: 'X-Execution-Fence' });
});

/** Two headers of one name on the wire, which fetch would join by itself. */
function duplicateHeader(url: string): Promise<{ status: number | undefined; field: unknown }> {
  return new Promise((resolve, reject) => {
    const headers = [
      'Idempotency-Key',
      'k',
      'X-Execution-Fence',
      '3',
      'X-Execution-Fence',
      '3',
      'Host',
      new URL(url).host,
    ];
    const sent = httpRequest(url, { method: 'POST', headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        resolve({
          status: answer.statusCode,
          field: (JSON.parse(String(Buffer.concat(chunks))) as { field: unknown }).field,
        });
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

test('an adapter for another kind of server shares the same core: a Node request, its hooks and its own body reading', async () => {
  interface Authenticated extends IncomingMessage {
    user?: string;
  }
  const gate = openGate<Authenticated, ReturnType<typeof memoryGuard>>(memoryGuard(), {
    mode: 'enforce',
    require: 'key',
    retention: '30d',
    identity: (request) => request.user ?? '',
  });
  const runs: string[] = [];
  const url = await serve(async (incoming: Authenticated, outgoing) => {
    incoming.user = incoming.headers.authorization ?? 'nobody';
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const headers = headersOf(incoming);
    const request: GuardedRequest<Authenticated> = {
      method: incoming.method ?? 'GET',
      path: incoming.url ?? '/',
      headers,
      body: async (max) => (body.length > max ? undefined : body),
      native: incoming,
    };
    const run = async (context: GuardContext): Promise<Response> => {
      runs.push(`${String(incoming.user)} ${String(context.key)} ${body.toString()}`);
      return new Response('ok');
    };
    const answer =
      request.path === gate.settings.lookPath ? lookRequest(gate, request) : guardRequest(gate, request, run);
    await send(await answer, outgoing);
  });
  const as = async (user: string): Promise<string | null> => {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'idempotency-key': 'k', authorization: user },
      body: 'b',
    });
    return answer.headers.get('idempotent-replayed');
  };
  expect([await as('ann'), await as('ann'), await as('bob')]).toEqual([null, 'true', null]);
  expect(runs).toEqual(['ann k b', 'bob k b']);
});
