import { Readable } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FRAMEWORKS, type Reply } from './frameworks.ts';
import { hangUpAfter, problem, send, serveGuarded, TICKET, until } from './middleware-client.ts';
import { HOLD, latch } from './receiver.ts';

describe.each(FRAMEWORKS)('$name', (framework) => {
  test.for<[string, boolean, (gone: Promise<void>) => Reply]>([
    ['at once, afterwards', false, () => ({ body: 'done' })],
    ['as a stream, afterwards', false, () => ({ body: Readable.from([Buffer.from('do'), Buffer.from('ne')]) })],
    ['as a stream that had begun', true, (gone) => ({ body: Readable.from(doNe(gone), { objectMode: false }) })],
  ])('a caller that hangs up neither stops the handler nor loses its reply, sent %s', async ([, early, reply]) => {
    const gone = latch();
    const { url, runs, store } = await serveGuarded(framework, async () => {
      if (!early) await gone.promise;
      return reply(gone.promise);
    });
    await hangUpAfter(url, () => runs.length > 0);
    gone.open();
    await until(() => store.state.keys[0]?.state === 'finished');
    expect(await send(url)).toMatchObject({ status: 201, body: 'done' });
    expect(runs).toHaveLength(1);
  });

  test('a handler that gave up because its caller hung up holds its key for a bounded time, then it is in doubt', async () => {
    const { url, clock, runs, store } = await serveGuarded(framework, () => new Promise<Reply>(() => undefined), {
      afterHangUp: '1m',
    });
    await hangUpAfter(url, () => runs.length > 0);
    await until(() => clock.pending > 1);
    await clock.advance(59_999);
    expect(problem(await send(url))).toBe('in-progress');
    await clock.advance(1);
    await clock.advance(HOLD);
    expect(store.state.keys).toMatchObject([{ state: 'in-doubt' }]);
    expect(problem(await send(url))).toBe('in-doubt');
    expect(clock.pending).toBe(0);
  });

  test('a long stream reaches its first caller whole, as it is written, and is not run again', async () => {
    const gate = latch();
    const piece = Buffer.alloc(30_000, 'x');
    async function* pieces(): AsyncGenerator<Buffer> {
      for (let at = 0; at < 5; at++) yield piece;
      await gate.promise;
      for (let at = 0; at < 60; at++) yield piece;
    }
    const { url, runs, store } = await serveGuarded(framework, () => ({
      body: Readable.from(pieces(), { objectMode: false }),
    }));
    const headers = {
      'idempotency-key': 'k',
      'x-execution-fence': '1',
      'x-execution-scope': 'task-1',
      'content-type': 'application/json',
    };
    const first = await fetch(`${url}/tickets`, { method: 'POST', headers, body: JSON.stringify(TICKET) });
    // Stored once it is known to be too long, and then sent on, long before it has ended.
    expect(store.state.keys).toMatchObject([{ state: 'finished' }]);
    const reader = (first.body as ReadableStream<Uint8Array>).getReader();
    let length = (await reader.read()).value?.byteLength ?? 0;
    gate.open();
    for (let next = await reader.read(); !next.done; next = await reader.read()) length += next.value.byteLength;
    expect([first.status, length]).toEqual([201, 65 * 30_000]);
    const again = await send(url);
    expect([again.status, problem(again)]).toEqual([410, 'response-not-kept']);
    expect(runs).toHaveLength(1);
  });

  test('a stream that breaks off is no answer: its key is in doubt', async () => {
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from('half');
      throw new Error('disk');
    }
    const { url, clock, store } = await serveGuarded(framework, () => ({
      body: Readable.from(broken(), { objectMode: false }).on('error', () => undefined),
    }));
    const ticking = setInterval(() => void clock.advance(1_000), 5);
    onTestFinished(() => clearInterval(ticking));
    const seen = await send(url, { signal: AbortSignal.timeout(500) }).catch(() => undefined);
    expect(seen?.status ?? 500).toBe(500);
    await until(() => store.state.keys[0]?.state === 'in-doubt');
  });
});

/** `done`, in two pieces, the second after something else. */
async function* doNe(between: Promise<void>): AsyncGenerator<Buffer> {
  yield Buffer.from('do');
  await between;
  yield Buffer.from('ne');
}
