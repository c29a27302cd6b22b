import { virtualClock } from '@leasehold/core';
import { memoryGuard } from '@leasehold/core/memory';
import { NothingHappened, transactionalGuard, type PlainResponse, type Prepare } from '@leasehold/guard';
import { expect, expectTypeOf, test } from 'vitest';
import { call, eventsOfTest, latch, lookup, seen, settled, type Call } from './receiver.ts';
import { ledgerOf, type Books, type Table } from './transactional-store.ts';

type Prepared = Prepare<Table, { scope: string; token: number; key: string }>;

/** A receiver whose effect is a row, over a store that a test may break. */
function books(prepare?: Prepared, wrap: (store: Books) => Books = (store) => store) {
  const clock = virtualClock();
  const memory = memoryGuard({ clock });
  const store = ledgerOf(memory);
  const prepared: string[] = [];
  const events = eventsOfTest();
  const insert: Prepared = (_, body, { key }) => {
    const text = new TextDecoder().decode(body);
    return (table) => {
      table.rows.push(`${key}: ${text}`);
      return {
        status: 201,
        headers: { 'content-type': 'text/plain', 'set-cookie': 'a=1' },
        body: `row ${table.rows.length}`,
      };
    };
  };
  const handle = transactionalGuard(
    wrap(store),
    { require: 'fence+key', retention: '30d', clock },
    async (request, body, context) => {
      prepared.push(context.key);
      return (prepare ?? insert)(request, body, context);
    },
  );
  const send = async (more: Call = {}): ReturnType<typeof seen> => seen(await handle(call(more)));
  return { clock, memory, store, handle, send, prepared, events };
}

test('effect and key commit together, and a repeated request gets the stored response without preparing again', async () => {
  const { send, store, prepared, events } = books();
  expect(await send()).toMatchObject({ status: 201, body: 'row 1', replayed: false });
  expect(await send({ token: 2 })).toMatchObject({ status: 201, body: 'row 1', replayed: true });
  expect([store.table.rows, prepared]).toEqual([['k: open a case'], ['k']]);
  expect(events.map((event) => event.name)).toEqual(['guard_stored', 'guard_replayed']);
});

test('a stale token and a reused key are refused before anything is prepared', async () => {
  const { send, prepared, handle } = books();
  await send({ token: 5 });
  expect(await send({ token: 4, key: 'b' })).toMatchObject({
    status: 409,
    problem: 'stale-token',
    json: { highest: 5 },
  });
  expect(await send({ token: 5, body: 'other' })).toMatchObject({ status: 422, problem: 'key-reused' });
  expect(await send({ key: undefined })).toMatchObject({ status: 400, json: { field: 'Idempotency-Key' } });
  await handle(lookup({ scope: 'task-1', fence: 6, key: 'c' }));
  expect(await send({ token: 5, key: 'c' })).toMatchObject({ problem: 'stale-token', json: { highest: 6 } });
  expect(prepared).toEqual(['k']);
});

test.for<[string, () => PlainResponse, unknown]>([
  ['answers 503', () => ({ status: 503, body: 'busy' }), { status: 503, body: 'busy' }],
  ['answers 429', () => ({ status: 429 }), { status: 429 }],
  [
    'throws NothingHappened',
    () => {
      throw new NothingHappened();
    },
    { status: 503, problem: 'nothing-happened' },
  ],
])('an effect that %s is rolled back and its key stays free', async ([, end, answer]) => {
  let tries = 0;
  const { send, store } = books(() => (table) => {
    table.rows.push(`try ${++tries}`);
    return tries === 1 ? end() : { status: 200, body: 'done' };
  });
  expect(await send()).toMatchObject(answer as object);
  expect(store.table.rows).toEqual([]);
  expect(await send()).toMatchObject({ status: 200, body: 'done' });
  expect(store.table.rows).toEqual(['try 2']);
});

test('what prepare or the effect throws comes out, and leaves nothing behind', async () => {
  for (const prepare of [
    () => Promise.reject(new Error('broken')),
    () =>
      (table: Table): PlainResponse => {
        table.rows.push('half');
        throw new Error('broken');
      },
  ]) {
    const { handle, store, memory } = books(prepare);
    await expect(handle(call())).rejects.toThrow('broken');
    expect([store.table.rows, memory.state.keys]).toEqual([[], []]);
  }
});

test('of many requests with one key at once one effect commits, and the others get its response', async () => {
  const gate = latch();
  const { send, store } = books(async (_, __, { key }) => {
    await gate.promise;
    return (table) => {
      table.rows.push(key);
      return { status: 200, body: 'once' };
    };
  });
  const all = Array.from({ length: 30 }, () => send());
  await settled();
  gate.open();
  const answers = await Promise.all(all);
  expect(answers.filter((answer) => !answer.replayed && answer.status === 200)).toHaveLength(1);
  expect(answers.every((answer) => answer.status === 200 || answer.problem === 'in-progress')).toBe(true);
  expect(store.table.rows).toEqual(['k']);
});

test('a token that became stale while preparing is refused, and nothing commits', async () => {
  const gate = latch();
  const { send, store, handle } = books(async () => {
    await gate.promise;
    return (table) => {
      table.rows.push('late');
      return { status: 200 };
    };
  });
  const late = send({ token: 1 });
  await settled();
  expect((await seen(await handle(lookup({ scope: 'task-1', fence: 2, key: 'k' })))).json).toEqual({ state: 'absent' });
  gate.open();
  expect(await late).toMatchObject({ status: 409, problem: 'stale-token' });
  expect(store.table.rows).toEqual([]);
});

test.for(['before', 'after'] as const)(
  'a commit that is cut off %s it happened is no success, and the retry tells the truth',
  async (when) => {
    let calls = 0;
    const { send, store } = books(undefined, (inner) => ({
      ...inner,
      async transact(ask, apply, signal) {
        if (++calls !== 2) return inner.transact(ask, apply, signal);
        if (when === 'after') await inner.transact(ask, apply, signal);
        throw new Error('connection reset');
      },
    }));
    expect(await send()).toMatchObject({ status: 503, problem: 'outcome-unknown' });
    expect(await send()).toMatchObject({ status: 201, body: 'row 1', replayed: when === 'after' });
    expect(store.table.rows).toHaveLength(1);
  },
);

test('a store that is down before anything ran is a 503, and nothing is prepared', async () => {
  const { send, prepared } = books(undefined, (inner) => ({
    ...inner,
    transact: () => Promise.reject(new Error('down')),
  }));
  expect(await send()).toMatchObject({ status: 503, problem: 'store-unavailable' });
  expect(prepared).toEqual([]);
});

test('the first answer bears the cookies and the whole body, the stored one neither', async () => {
  const body = 'x'.repeat(100_000);
  const { handle, send } = books(() => () => ({ status: 201, headers: { 'set-cookie': 'a=1' }, body }));
  const first = await handle(call());
  expect([first.headers.get('set-cookie'), await first.text()]).toEqual(['a=1', body]);
  expect(await send()).toMatchObject({ status: 410, problem: 'response-not-kept', replayed: true });
});

test('the look endpoint answers from the same store', async () => {
  const { send, handle } = books();
  await send();
  expect((await seen(await handle(lookup({ scope: 'task-1', fence: 1, key: 'k' })))).json).toMatchObject({
    state: 'done',
    response: { status: 201, body: 'row 1', headers: { 'content-type': 'text/plain' } },
  });
});

test('a transactional guard requires a key, and knows its token by type', () => {
  const store = ledgerOf(memoryGuard());
  const wrong = { require: 'none', retention: '30d' } as unknown as { require: 'key'; retention: string };
  expect(() => transactionalGuard(store, wrong, () => () => ({ status: 200 }))).toThrow(
    expect.objectContaining({ field: 'require' }),
  );
  transactionalGuard(store, { require: 'fence+key', retention: '30d' }, (_, __, context) => {
    expectTypeOf(context.token).toEqualTypeOf<number>();
    return (table) => {
      expectTypeOf(table).toEqualTypeOf<Table>();
      return { status: 200 };
    };
  });
});
