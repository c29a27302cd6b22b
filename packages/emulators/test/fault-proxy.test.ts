import { createServer, type Server } from 'node:http';
import { faultProxy, kinds, NO_ANSWER, type FaultProxy, type FaultProxyOptions } from '@leasehold/emulators';
import { afterEach, expect, test } from 'vitest';
import { closing, HandTime, refusal, until } from './started.ts';

let received: string[] = [];

afterEach(() => {
  received = [];
});

/** A server that is not of AWS: it answers what it was sent. */
async function echo(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      received.push(`${request.method} ${request.url} ${body}`);
      response.writeHead(body === 'teapot' ? 418 : 200, { 'x-echo': request.headers['x-ask'] ?? 'none' });
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return closing(server);
}

async function proxied(options: FaultProxyOptions = {}): Promise<FaultProxy> {
  const address = (await echo()).address();
  if (typeof address !== 'object' || !address) throw new Error('not listening');
  return closing(await faultProxy(`http://127.0.0.1:${address.port}`, options));
}

async function post(proxy: FaultProxy, path: string, body = ''): Promise<string> {
  const answer = await fetch(`${proxy.endpoint}${path}`, { method: 'POST', body });
  return answer.text();
}

test('without a fault, requests and answers pass unchanged', async () => {
  const proxy = await proxied();
  const large = 'x'.repeat(11 * 1024 * 1024);
  const answer = await fetch(`${proxy.endpoint}/a?b=c`, { method: 'PUT', body: large, headers: { 'x-ask': 'why' } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('x-echo')).toBe('why');
  expect((await answer.text()).length).toBe(large.length);
  expect(received[0]?.slice(0, 20)).toBe('PUT /a?b=c xxxxxxxxx');
  expect((await fetch(`${proxy.endpoint}/`, { method: 'POST', body: 'teapot' })).status).toBe(418);
  expect(await (await fetch(proxy.target)).text()).toBe('');
  expect(proxy.calls()).toBe(2);
});

test('a fault befalls the n-th and the next k of the calls that match, and tells how often it did', async () => {
  const proxy = await proxied();
  const teapot = kinds.failBefore({ type: 'Teapot', status: 418 });
  const planned = proxy.on('POST /a', teapot, { nth: 2, times: 2, when: ({ body }) => body.toString() !== 'spared' });
  const statuses: number[] = [];
  for (const [path, body] of [
    ['/a', ''],
    ['/a', 'spared'],
    ['/b', ''],
    ['/a?x=1', ''],
    ['/a', ''],
    ['/a', ''],
  ] as const) {
    statuses.push((await fetch(`${proxy.endpoint}${path}`, { method: 'POST', body })).status);
  }
  expect(statuses).toEqual([200, 200, 200, 418, 418, 200]);
  expect(planned.hits).toBe(2);
  expect(received.length).toBe(4);

  const all = proxy.on('*', teapot, { times: Infinity });
  const second = proxy.on('POST /a', kinds.hang(), { times: 2 });
  expect((await fetch(`${proxy.endpoint}/a`, { method: 'POST' })).status).toBe(418);
  expect((await fetch(`${proxy.endpoint}/b`)).status).toBe(418);
  expect([all.hits, second.hits]).toEqual([2, 0]);
  all.cancel();
  second.cancel();
  expect(await post(proxy, '/a', 'through')).toBe('through');
});

test('calls are counted per operation, and logged with what became of them', async () => {
  const time = new HandTime();
  const proxy = await proxied({ time, operationOf: ({ json }) => String(json['do']) });
  proxy.on('drop', kinds.dropAnswer());
  await post(proxy, '/', '{"do":"keep"}');
  time.now += 5;
  await refusal(post(proxy, '/', '{"do":"drop"}'));
  await post(proxy, '/', '{"do":"keep","n":2}');
  await post(proxy, '/', 'not JSON');
  expect([proxy.calls('keep'), proxy.calls('drop'), proxy.calls('other'), proxy.calls()]).toEqual([2, 1, 0, 4]);
  expect(proxy.log.map(({ operation, status, faulty, at }) => [operation, status, faulty, at - time.now])).toEqual([
    ['keep', 200, false, -5],
    ['drop', 'none', true, 0],
    ['keep', 200, false, 0],
    ['undefined', 200, false, 0],
  ]);
  expect(proxy.log[2]?.request.json).toEqual({ do: 'keep', n: 2 });
  expect(received.length).toBe(4);
  proxy.reset();
  expect([proxy.calls('keep'), proxy.calls(), proxy.log.length]).toEqual([0, 0, 0]);
});

test('a fault of one’s own looks at the request and makes up the answer', async () => {
  const proxy = await proxied();
  proxy.on(
    'POST /',
    async (call) => {
      const answer = await call.apply();
      return answer.body.toString() === 'secret' ? NO_ANSWER : { ...answer, body: Buffer.from('changed') };
    },
    { times: 2 },
  );
  expect(await post(proxy, '/', 'open')).toBe('changed');
  await refusal(post(proxy, '/', 'secret'));
  proxy.on('POST /', () => Promise.reject(new Error('a mistake in a test')));
  const broken = await fetch(proxy.endpoint, { method: 'POST' });
  expect(broken.status).toBe(502);
  expect(await broken.text()).toContain('a mistake in a test');
});

test('cut: connections end and none is accepted; what the server has got is applied; restored, calls pass', async () => {
  const proxy = await proxied();
  const held = proxy.on('POST /held', kinds.delayAnswer(60_000));
  const waiting = post(proxy, '/held', 'applied');
  await until(() => held.hits === 1 && received.length === 1);
  proxy.cut();
  await refusal(waiting);
  expect(received).toEqual(['POST /held applied']);
  for (let call = 0; call < 3; call++) await refusal(post(proxy, '/'));
  expect(proxy.calls()).toBe(1);
  proxy.restore();
  expect(await post(proxy, '/', 'back')).toBe('back');
});

test('cut without a word: requests are lost, answers under way too, and nobody is told until the network is back', async () => {
  const time = new HandTime();
  const proxy = await proxied({ time });
  let ended = 0;
  proxy.cut('silent');
  const lost = Array.from({ length: 3 }, async () => refusal(post(proxy, '/', 'lost')).finally(() => ended++));
  const direct = await fetch(proxy.target, { method: 'POST', body: 'direct' });
  expect(await direct.text()).toBe('direct');
  expect([ended, proxy.calls(), received]).toEqual([0, 0, ['POST / direct']]);
  proxy.restore();
  await Promise.all(lost);
  expect(await post(proxy, '/', 'back')).toBe('back');
  expect(received).toEqual(['POST / direct', 'POST / back']);
});

test('dropped connections: calls under way lose their answer, new connections are accepted at once', async () => {
  const proxy = await proxied();
  const hung = proxy.on('POST /', kinds.hang());
  const waiting = post(proxy, '/');
  await until(() => hung.hits === 1);
  proxy.dropConnections();
  await refusal(waiting);
  expect(await post(proxy, '/', 'next')).toBe('next');
});

test('the service’s clock is the server’s, or ours, with any offset', async () => {
  const date = async (proxy: FaultProxy): Promise<number> =>
    Date.parse((await fetch(proxy.endpoint)).headers.get('date') ?? '');
  const real = await proxied();
  const before = Date.now() - 1_000;
  expect(await date(real)).toBeGreaterThan(before);
  real.serviceClock(86_400_000);
  expect(await date(real)).toBeGreaterThan(before + 86_400_000);
  real.reset();
  expect(await date(real)).toBeLessThan(before + 86_400_000);

  const time = new HandTime();
  time.now = Date.UTC(2001, 1, 2, 3, 4, 5, 678);
  const moved = await proxied({ time });
  expect(await date(moved)).toBe(Date.UTC(2001, 1, 2, 3, 4, 5));
  moved.serviceClock(322);
  expect(await date(moved)).toBe(Date.UTC(2001, 1, 2, 3, 4, 6));
});

test('an operation that cannot be told is a 502, not the end of the process', async () => {
  const proxy = await proxied({
    operationOf: () => {
      throw new Error('no such operation');
    },
  });
  const answer = await fetch(proxy.endpoint);
  expect([answer.status, (await answer.text()).includes('no such operation')]).toEqual([502, true]);
});

test('closing ends the connections to the server, too', async () => {
  const server = await echo();
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('not listening');
  const proxy = await faultProxy(`http://127.0.0.1:${address.port}`);
  await Promise.all(Array.from({ length: 5 }, async () => post(proxy, '/')));
  const connections = async (): Promise<number> =>
    new Promise((resolve, reject) => server.getConnections((error, count) => (error ? reject(error) : resolve(count))));
  expect(await connections()).toBeGreaterThan(0);
  await proxy.close();
  while ((await connections()) > 0) await new Promise<void>((resolve) => setImmediate(resolve));
});

test('a server that is gone is a 502', async () => {
  const server = await echo();
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('not listening');
  server.close();
  const proxy = closing(await faultProxy(`http://127.0.0.1:${address.port}`));
  const answer = await fetch(proxy.endpoint);
  expect(answer.status).toBe(502);
  expect(await answer.text()).toContain('ECONNREFUSED');
});
