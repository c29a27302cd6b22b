import { memoryGuard } from '@leasehold/core/memory';
import { NothingHappened, transactionalGuard } from '@leasehold/guard';
import { expect, test } from 'vitest';
import { call, eventsOfTest, HOLD, lookup, receiver, type Call } from './receiver.ts';
import { ledgerOf } from './transactional-store.ts';

const MARKER = 'marker-7f3a';

test('field case 48: what is in a body, a bad header or an error appears in no event and no problem', async () => {
  class SdkError extends Error {
    override readonly name: string = MARKER;
  }
  let run = 0;
  const { handle, clock, events } = receiver(
    {
      resolve: () => Promise.reject(new SdkError(MARKER)),
      maxBodyBytes: 200,
      identity: () => `secret ${MARKER}`,
    },
    (_, context) => {
      run++;
      if (run === 1) throw new SdkError(MARKER);
      if (run === 2) throw new NothingHappened(MARKER, { cause: new SdkError(MARKER) });
      context.nothingHappened();
      return new Response(MARKER, { status: 503, statusText: MARKER, headers: { 'x-secret': MARKER } });
    },
    (store) => ({
      ...store,
      begin: (...args) => (args[0].key === 'd' ? Promise.reject(new SdkError(MARKER)) : store.begin(...args)),
    }),
  );
  const problems: string[] = [];
  const send = async (request: Request): Promise<void> => {
    const answering = handle(request).catch(() => undefined);
    await clock.advance(300);
    const answer = await answering;
    if (answer?.headers.get('content-type')?.includes('problem')) problems.push(await answer.text());
  };
  const bad: Call[] = [
    { key: `${MARKER} x` },
    { token: MARKER },
    { scope: `"${MARKER}` },
    { body: MARKER.repeat(50), key: 'big' },
  ];
  for (const more of [{}, { key: 'b' }, { key: 'c' }, { key: 'd' }, { body: `other ${MARKER}` }, ...bad]) {
    await send(call({ body: MARKER, ...more }));
  }
  await clock.advance(HOLD);
  await send(call({ body: MARKER }));
  for (const body of [
    `{"${MARKER}`,
    { scope: MARKER.repeat(99), fence: 1, key: 'k' },
    { fence: MARKER, key: 'k' },
    { [MARKER]: 1 },
  ]) {
    await send(lookup(body));
  }
  expect(problems.length).toBeGreaterThan(10);
  expect(new Set(events.map((event) => event.name)).size).toBeGreaterThan(5);
  expect(JSON.stringify([problems, events])).not.toContain(MARKER);
});

test('field case 48: nor does what a transactional guard or an extract hook saw', async () => {
  const events = eventsOfTest();
  const store = ledgerOf(memoryGuard());
  const handle = transactionalGuard(
    store,
    {
      require: 'fence+key',
      retention: '30d',
      extract: (_, body) => {
        const { text, key } = body as { text: string; key: string };
        if (text === MARKER) throw new TypeError(MARKER);
        return { fence: 1, key, content: text };
      },
    },
    () => () => {
      throw new Error(MARKER);
    },
  );
  const send = (body: unknown): Promise<Response> => handle(call({ body: JSON.stringify(body) }));
  const problem = await (await send({ text: MARKER, key: 'k' })).text();
  const malformed = await (await send({ text: '', key: `${MARKER}\n` })).text();
  await expect(send({ text: `x ${MARKER}`, key: 'k' })).rejects.toThrow(MARKER);
  expect(events.length).toBeGreaterThan(3);
  expect(JSON.stringify([problem, malformed, events])).not.toContain(MARKER);
});
