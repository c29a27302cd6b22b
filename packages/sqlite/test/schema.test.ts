import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sqliteBroker, sqliteGuard, sqliteLedger } from '@leasehold/sqlite';
import { migrate, MIGRATIONS } from '../src/schema.ts';
import { machine, never, type Machine } from './machine.ts';
import { after, claimed } from './stored-record.ts';

let one: Machine;
beforeEach(() => {
  one = machine();
});
afterEach(() => one.dispose());

const SCHEMA = "SELECT value FROM leasehold_meta WHERE name = 'schema'";
const receive = { max: 10, leaseMs: 60_000, waitMs: 0 };

function sql(text: string): void {
  const db = new DatabaseSync(one.file);
  db.exec(text);
  db.close();
}

test('a file of an older version is migrated and everything in it is kept', async () => {
  sql(readFileSync(join(import.meta.dirname, 'schema-1.0.sql'), 'utf8'));
  const mine = one.process();
  const [broker, ledger, guard] = [sqliteBroker(mine), sqliteLedger(mine), sqliteGuard(mine)];
  const taken = await broker.receive(receive, never());
  expect(taken.map(({ messageId, body, attributes }) => [messageId, Buffer.from(body).toString(), attributes])).toEqual(
    [
      ['c0ffee00-7', 'old', { note: 'kept' }],
      ['c0ffee00-8', 'long', {}],
    ],
  );
  const { record } = await ledger.get('old task', never());
  expect(record).toMatchObject({ fencingToken: 2, version: 3, extra: { from_the_future: true } });
  expect(await guard.look({ scope: 'scope', key: 'key', token: 4 }, never())).toEqual({ stale: 5 });
  expect(await guard.look({ scope: 'scope', key: 'key', token: 5 }, never())).toMatchObject({
    previous: { status: 201, headers: { a: 'b' } },
  });
  // What 1.1 brought works too.
  const [first, second] = await broker.send(
    Array.from({ length: 2 }, () => ({ body: new Uint8Array([1]), attributes: {}, deduplicationId: 'd' })),
    never(),
  );
  expect(first).toEqual(second);
  await Promise.all([broker.close(), ledger.close(), guard.close()]);
  const db = new DatabaseSync(one.file);
  expect(db.prepare(SCHEMA).get()?.['value']).toBe(MIGRATIONS.at(-1)?.version);
  db.close();
});

test('a published migration is never edited: 1.0 still is what made the files out there', () => {
  const published = readFileSync(join(import.meta.dirname, 'schema-1.0.sql'), 'utf8');
  expect(published).toContain(MIGRATIONS[0]?.sql);
});

test('a migration that fails half way leaves the file as it was', () => {
  const db = new DatabaseSync(one.file);
  migrate(db, MIGRATIONS.slice(0, 1));
  const broken = [
    ...MIGRATIONS.slice(0, 1),
    { version: '1.1', sql: 'CREATE TABLE leasehold_new (a); INSERT INTO nowhere VALUES (1);' },
  ];
  expect(() => migrate(db, broken)).toThrow('nowhere');
  expect(db.prepare(SCHEMA).get()?.['value']).toBe('1.0');
  expect(db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'leasehold_new'").get()).toBeUndefined();
  db.close();
});

test('a file of a newer minor version is used as it is, one of a newer major version is refused and not touched', async () => {
  const first = sqliteLedger(one.process());
  await first.put(claimed('task'), { ms: 60_000 }, { version: 0 }, never());
  await first.close();

  sql("UPDATE leasehold_meta SET value = '1.99' WHERE name = 'schema'");
  const minor = sqliteLedger(one.process());
  expect((await minor.get('task', never())).record?.taskId).toBe('task');
  expect((await minor.put(after(claimed('task'), {}), undefined, { version: 1, lease: 'any' }, never())).ok).toBe(true);
  await minor.close();

  sql("UPDATE leasehold_meta SET value = '2.0' WHERE name = 'schema'");
  const before = readFileSync(one.file);
  const major = sqliteLedger(one.process());
  await expect(major.open(never())).rejects.toMatchObject({ code: 'schema-too-new', field: 'file' });
  await expect(major.put(claimed('other'), { ms: 1 }, { version: 0 }, never())).rejects.toMatchObject({
    code: 'schema-too-new',
  });
  await major.close();
  expect(readFileSync(one.file).equals(before)).toBe(true);
});

test('what is no SQLite database is refused and not touched', async () => {
  writeFileSync(one.file, 'A letter to somebody, longer than a header would be. '.repeat(50));
  const before = readFileSync(one.file);
  const broker = sqliteBroker(one.process());
  await expect(broker.receive(receive, never())).rejects.toMatchObject({ code: 'bad-option', field: 'file' });
  await broker.close();
  expect(readFileSync(one.file).equals(before)).toBe(true);
});

test('the database of another application is refused and not touched, unless embedding is asked for', async () => {
  sql("CREATE TABLE customers (name TEXT); INSERT INTO customers VALUES ('Ada'); PRAGMA user_version = 42;");
  const before = readFileSync(one.file);
  const refused = sqliteGuard(one.process());
  const ask = { scope: 's', token: 1, key: 'k', requestHash: 'h', retentionMs: 60_000 };
  const look = refused.look(ask, never());
  await expect(look).rejects.toThrow('customers');
  await expect(look).rejects.toMatchObject({ code: 'bad-option', field: 'file' });
  await refused.close();
  expect(readFileSync(one.file).equals(before)).toBe(true);

  const guard = sqliteGuard({ ...one.process(), embed: true });
  const verdict = await guard.transact(
    ask,
    (db) => {
      db.prepare('INSERT INTO customers VALUES (?)').run('Grace');
      return { status: 201, headers: {}, body: new Uint8Array() };
    },
    never(),
  );
  expect(verdict).toHaveProperty('done');
  await guard.close();
  const db = new DatabaseSync(one.file);
  expect(
    db
      .prepare('SELECT name FROM customers')
      .all()
      .map((row) => row['name']),
  ).toEqual(['Ada', 'Grace']);
  expect(db.prepare('PRAGMA user_version').get()?.['user_version']).toBe(42);
  db.close();
  // Once ours are in it, nobody has to ask again.
  const again = sqliteLedger(one.process());
  await again.open(never());
  await again.close();
});

test('two processes that make the file at the same time make one', async () => {
  const brokers = Array.from({ length: 5 }, () => sqliteBroker(one.process()));
  await Promise.all(brokers.map((broker) => broker.send([{ body: new Uint8Array([1]), attributes: {} }], never())));
  expect((await brokers[0]?.depth())?.visible).toBe(5);
  await Promise.all(brokers.map((broker) => broker.close()));
});

test('a missing directory is named, and nothing is made', async () => {
  const file = join(dirname(one.file), 'missing', 'store.db');
  const ledger = sqliteLedger({ ...one.process(), file });
  await expect(ledger.open(never())).rejects.toMatchObject({ code: 'unavailable', field: 'file' });
  expect(existsSync(dirname(file))).toBe(false);
  // It is looked for again at the next call: the directory may be mounted late.
  mkdirSync(dirname(file));
  await ledger.open(never());
  await ledger.close();
});

test('field case 40: options that cannot work are refused by the factory, by name', () => {
  const file = 'x.db';
  for (const bad of ['', ' ', ':memory:', 'file:x.db?mode=memory', 'x\0.db', 'dir/', 7, undefined, null]) {
    for (const make of [sqliteBroker, sqliteLedger, sqliteGuard]) {
      expect(() => make({ file: bad as string }), String(bad)).toThrow(
        expect.objectContaining({ code: 'bad-option', field: 'file' }),
      );
    }
  }
  for (const queue of ['', 'a b', '-x', 'x'.repeat(101), 7 as unknown as string]) {
    expect(() => sqliteBroker({ file, queue })).toThrow(
      expect.objectContaining({ code: 'bad-option', field: 'queue' }),
    );
  }
  for (const maxDeliveries of [0, -1, 1.5, Number.NaN, Infinity, '3' as unknown as number]) {
    expect(() => sqliteBroker({ file, maxDeliveries })).toThrow(expect.objectContaining({ field: 'maxDeliveries' }));
  }
  for (const deduplication of ['', '5', -1, 0, Number.NaN]) {
    expect(() => sqliteBroker({ file, deduplication })).toThrow(expect.objectContaining({ field: 'deduplication' }));
  }
  expect(() => sqliteLedger({ file, embed: 'yes' as unknown as boolean })).toThrow(
    expect.objectContaining({ field: 'embed' }),
  );
});
