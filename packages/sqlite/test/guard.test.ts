import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StoredResponse } from '@leasehold/core';
import { sqliteGuard, type SqliteGuard, type TransactionDatabase } from '@leasehold/sqlite';
import { machine, never, type Machine } from './machine.ts';

let one: Machine;
let guard: SqliteGuard;
beforeEach(async () => {
  one = machine();
  guard = sqliteGuard(one.process());
  await guard.look({ scope: 'first use', token: 1, key: 'k' }, never());
  sql(
    "CREATE TABLE tickets (id TEXT PRIMARY KEY); CREATE TRIGGER poison BEFORE INSERT ON tickets WHEN NEW.id = 'poison' BEGIN SELECT RAISE(ROLLBACK, 'poisoned'); END",
  );
});
afterEach(async () => {
  await guard.close();
  one.dispose();
});

function sql(text: string): void {
  const db = new DatabaseSync(one.file);
  db.exec(text);
  db.close();
}

function tickets(): string[] {
  const db = new DatabaseSync(one.file);
  const rows = db.prepare('SELECT id FROM tickets ORDER BY id').all();
  db.close();
  return rows.map((row) => String(row['id']));
}

const ask = (key: string, more: object = {}) => ({
  scope: 'scope',
  token: 5,
  key,
  requestHash: 'hash',
  retentionMs: 60_000,
  ...more,
});
const response = (status = 201): StoredResponse => ({
  status,
  headers: { location: '/1' },
  body: new Uint8Array([1, 2]),
});
const insert =
  (id: string, status?: number) =>
  (db: TransactionDatabase): StoredResponse => {
    db.prepare('INSERT INTO tickets VALUES (?)').run(id);
    return response(status);
  };

test('I4: effect, key and response are one transaction: a second call gets the first response and does nothing', async () => {
  const other = sqliteGuard(one.process());
  const verdicts = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      (index % 2 ? guard : other).transact(ask('k'), insert(`ticket ${index}`), never()),
    ),
  );
  expect(verdicts.filter((verdict) => typeof verdict === 'object' && 'done' in verdict)).toEqual([
    { done: response() },
  ]);
  expect(verdicts.filter((verdict) => typeof verdict === 'object' && 'previous' in verdict)).toHaveLength(19);
  expect(tickets()).toHaveLength(1);
  expect(await other.look({ scope: 'scope', token: 5, key: 'k' }, never())).toEqual({ previous: response() });
  await other.close();
});

test('the verdicts are those of begin', async () => {
  await guard.transact(ask('k'), insert('a'), never());
  const run = (): StoredResponse => expect.unreachable('a refused request was run');
  expect(await guard.transact(ask('k', { requestHash: 'other' }), run, never())).toBe('key-reused');
  expect(await guard.transact(ask('new', { token: 4 }), run, never())).toEqual({ stale: 5 });
  expect(await guard.begin({ ...ask('held'), hold: 'h', holdMs: 1_000 }, never())).toEqual({ new: 'h' });
  expect(await guard.transact(ask('held'), run, never())).toBe('in-progress');
  await one.clock.advance(1_001);
  expect(await guard.transact(ask('held'), run, never())).toEqual({ inDoubt: 'h' });
});

test('I4: a commit whose answer is lost did happen: the retry gets its response and does nothing', async () => {
  const stop = new AbortController();
  const lost = guard.transact(
    ask('k'),
    (db) => {
      // Nobody waits any more when the commit is done.
      stop.abort(new Error('cut off'));
      return insert('a')(db);
    },
    stop.signal,
  );
  await lost.catch(() => undefined);
  expect(await guard.transact(ask('k'), insert('b'), never())).toEqual({ previous: response() });
  expect(tickets()).toEqual(['a']);
});

test('a key that was freed takes an effect, and its freed hold stays freed when that effect is undone', async () => {
  const held = { ...ask('k'), hold: 'h', holdMs: 1_000 };
  await guard.begin(held, never());
  await guard.finish(held, 'free', never());
  expect(await guard.transact(ask('k'), insert('a', 503), never())).toEqual({ done: response(503) });
  expect(await guard.begin(held, never())).toBe('in-progress');
  expect(await guard.transact(ask('k'), insert('a'), never())).toEqual({ done: response() });
  expect(await guard.begin(held, never())).toEqual({ previous: response() });
});

test('a freed hold is remembered for ten minutes, and then its row goes', async () => {
  const held = { ...ask('k'), hold: 'h', holdMs: 1_000 };
  await guard.finish(held, 'free', never());
  await one.clock.advance(599_000);
  expect(await guard.begin(held, never())).toBe('in-progress');
  await one.clock.advance(60_000);
  expect(await guard.begin(held, never())).toEqual({ new: 'h' });
});

test('what throws is undone, frees the key and disturbs no neighbour, while the raised token stays', async () => {
  const failed = new Error('no');
  const outcomes = await Promise.allSettled([
    guard.transact(ask('a'), insert('a'), never()),
    guard.transact(
      ask('b', { token: 9, scope: 'b' }),
      (db) => {
        insert('b')(db);
        throw failed;
      },
      never(),
    ),
    guard.transact(ask('c'), (async () => response()) as unknown as () => StoredResponse, never()),
    guard.transact(ask('d'), insert('a'), never()),
    guard.transact(ask('e'), insert('poison'), never()),
    guard.transact(ask('f'), insert('f'), never()),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
    'rejected',
    'rejected',
    'fulfilled',
  ]);
  expect(outcomes[1]).toMatchObject({ reason: failed });
  expect(outcomes[2]).toMatchObject({ reason: { code: 'bad-request' } });
  expect(outcomes[3]).toMatchObject({ reason: { message: 'UNIQUE constraint failed: tickets.id' } });
  expect(outcomes[4]).toMatchObject({ reason: { message: 'poisoned' } });
  expect(tickets()).toEqual(['a', 'f']);
  expect(await guard.look({ scope: 'b', token: 8, key: 'b' }, never())).toEqual({ stale: 9 });
  for (const key of ['b', 'c', 'd', 'e'])
    expect(await guard.transact(ask(key), insert(`${key} again`), never())).toHaveProperty('done');
});

test('a response that says it did not work is given back, but neither it nor what was written is kept', async () => {
  for (const status of [500, 503, 429])
    expect(await guard.transact(ask('k'), insert('a', status), never())).toEqual({ done: response(status) });
  expect(tickets()).toEqual([]);
  expect(await guard.transact(ask('k'), insert('a'), never())).toEqual({ done: response() });
  expect(tickets()).toEqual(['a']);
});

test('the function cannot end the transaction it is in, nor go on after it', async () => {
  let kept: TransactionDatabase | undefined;
  for (const text of [
    'COMMIT',
    ' rollback',
    '/* x */ end',
    '-- x\nBEGIN',
    'SAVEPOINT a',
    'pragma synchronous = off',
    "ATTACH 'x' AS y",
  ]) {
    const run = (db: TransactionDatabase): StoredResponse => {
      kept = db;
      db.prepare(text).run();
      return response();
    };
    await expect(guard.transact(ask('k'), run, never()), text).rejects.toMatchObject({ code: 'bad-request' });
  }
  expect(() => kept?.prepare('SELECT 1')).toThrow(expect.objectContaining({ code: 'bad-request' }));
});

test('responses are thrown away after their retention, their scope with the last of them; a key in doubt is kept for good', async () => {
  const day = 86_400_000;
  await guard.transact(ask('done', { scope: 'done', retentionMs: 1_000 }), insert('a'), never());
  await guard.begin({ ...ask('lost', { scope: 'lost', retentionMs: 1_000 }), hold: 'h', holdMs: 1_000 }, never());
  await guard.finish({ scope: 'freed', key: 'freed', hold: 'f' }, 'free', never());
  await guard.close();
  for (let days = 0; days < 40; days++) {
    await one.clock.advance(day);
    guard = sqliteGuard(one.process());
    await guard.look({ scope: 'other', token: 1, key: 'k' }, never());
    await guard.close();
  }
  const db = new DatabaseSync(one.file);
  expect(db.prepare('SELECT scope, key FROM leasehold_guard_key').all()).toMatchObject([
    { scope: 'lost', key: 'lost' },
  ]);
  expect(db.prepare('SELECT scope FROM leasehold_guard_scope ORDER BY scope').all()).toMatchObject([
    { scope: 'lost' },
    { scope: 'other' },
  ]);
  db.close();
  guard = sqliteGuard(one.process());
  expect(await guard.look({ scope: 'lost', token: 5, key: 'lost' }, never())).toEqual({ inDoubt: 'h' });
});
