import { expect, test } from 'vitest';
import { call, lookup, receiver, seen } from './receiver.ts';

test('connection headers, cookies and forged marks are not stored; the first caller gets the response untouched', async () => {
  const { handle } = receiver({}, () => {
    const headers = new Headers({
      'content-type': 'text/x',
      connection: 'close, x-hop',
      'x-hop': '1',
      'keep-alive': '5',
      date: 'then',
      etag: 'e',
      'content-length': '2',
      'leasehold-body-omitted': 'true',
      'idempotent-replayed': 'true',
    });
    headers.append('set-cookie', 'a=1');
    headers.append('set-cookie', 'b=2');
    return new Response('ok', { headers });
  });
  expect((await handle(call())).headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  const replay = await handle(call());
  expect(Object.fromEntries(replay.headers)).toEqual({
    'content-type': 'text/x',
    etag: 'e',
    'idempotent-replayed': 'true',
  });
});

test('statuses without a body are replayed without one', async () => {
  const { handle } = receiver({}, () => new Response(null, { status: 204 }));
  expect((await handle(call())).status).toBe(204);
  const replay = await handle(call());
  expect([replay.status, replay.body]).toEqual([204, null]);
});

test('bytes that are no text are replayed as they were', async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
  const { handle } = receiver({}, () => new Response(bytes));
  expect(await (await handle(call())).bytes()).toEqual(bytes);
  expect(await (await handle(call())).bytes()).toEqual(bytes);
});

test('a response too large to keep reaches the first caller whole, and later ones learn that it was done, not that it may run', async () => {
  const parts = ['x'.repeat(60), 'y'.repeat(60), 'z'.repeat(60)];
  const { handle, runs } = receiver({ maxStoredBytes: 100 }, () => {
    const waiting = parts.map((part) => new TextEncoder().encode(part));
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        const next = waiting.shift();
        if (next) controller.enqueue(next);
        else controller.close();
      },
    });
    return new Response(stream, { status: 201 });
  });
  expect(await seen(await handle(call()))).toMatchObject({ status: 201, body: parts.join('') });
  expect(await seen(await handle(call()))).toMatchObject({
    status: 410,
    problem: 'response-not-kept',
    replayed: true,
    json: { originalStatus: 201 },
  });
  const looked = await seen(await handle(lookup({ scope: 'task-1', fence: 1, key: 'k' })));
  expect(looked.json).toMatchObject({ state: 'done', response: { status: 201, body: '', bodyOmitted: true } });
  expect(JSON.stringify(looked.json)).not.toContain('leasehold-body-omitted');
  expect(runs).toHaveLength(1);
});
