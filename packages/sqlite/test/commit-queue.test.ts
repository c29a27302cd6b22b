import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CommitQueue, type Session } from '../src/commit-queue.ts';
import { migrate } from '../src/schema.ts';
import { StoreClock } from '../src/store-clock.ts';
import { machine, never, type Machine } from './machine.ts';

let one: Machine;
let db: DatabaseSync;
let other: DatabaseSync;
let queue: CommitQueue;
let ran: string[];
let rings: number;

beforeEach(() => {
  one = machine();
  db = new DatabaseSync(one.file, { timeout: 5 });
  db.exec('PRAGMA journal_mode = WAL');
  migrate(db);
  db.exec('CREATE TABLE seen (text TEXT UNIQUE)');
  other = new DatabaseSync(one.file, { timeout: 5 });
  ran = [];
  rings = 0;
  const { bootClock, clock } = one.process();
  const prepare = (sql: string): StatementSync => {
    ran.push(sql);
    return db.prepare(sql);
  };
  queue = new CommitQueue(db, new StoreClock(bootClock, () => clock.wall()), prepare, 'id', () => rings++);
});
afterEach(() => {
  db.close();
  other.close();
  one.dispose();
});

const DURABLE = { durable: true };
const insert =
  (text: string, ring = false) =>
  (session: Session): string => {
    session.statement('INSERT INTO seen VALUES (?)').run(text);
    if (ring) session.ring();
    return text;
  };
const seen = (): string[] =>
  other
    .prepare('SELECT text FROM seen ORDER BY text')
    .all()
    .map((row) => String(row['text']));
const commits = (): number => ran.filter((sql) => sql === 'COMMIT').length;

test('the jobs of one turn share transactions, and each is answered after its commit', async () => {
  const visible = Array.from({ length: 40 }, async (_, index) => {
    const text = await queue.add(insert(`${index}`), never(), DURABLE);
    return seen().includes(text);
  });
  expect(seen()).toEqual([]);
  expect(new Set(await Promise.all(visible))).toEqual(new Set([true]));
  // One, unless the machine stops us for longer than a batch may take.
  expect(commits()).toBeLessThan(20);
});

test('a job that fails is undone alone', async () => {
  const halfDone = (session: Session): void => {
    insert('half')(session);
    insert('a')(session);
  };
  const jobs = [insert('a'), halfDone, insert('b')].map((work) => queue.add<unknown>(work, never(), DURABLE));
  const outcomes = await Promise.allSettled(jobs);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(seen()).toEqual(['a', 'b']);
});

test('an error that undoes the whole transaction fails its own job only; the others run again', async () => {
  db.exec(
    "CREATE TRIGGER bad BEFORE INSERT ON seen WHEN NEW.text = 'bad' BEGIN SELECT RAISE(ROLLBACK, 'all of it'); END",
  );
  const jobs = ['a', 'bad', 'b'].map((text) => queue.add(insert(text), never(), { durable: true, single: true }));
  const outcomes = await Promise.allSettled(jobs);
  expect(outcomes).toMatchObject([{ value: 'a' }, { reason: { message: 'all of it' } }, { value: 'b' }]);
  expect(seen()).toEqual(['a', 'b']);
});

test('a job whose signal aborts while another process has the lock is rejected soon and never run', async () => {
  other.exec('BEGIN IMMEDIATE');
  const stop = new AbortController();
  const stopped = queue.add(insert('given up'), stop.signal, DURABLE);
  const kept = queue.add(insert('kept'), never(), DURABLE);
  stop.abort(new Error('enough'));
  // The lock is still held: the rejection does not wait for it.
  await expect(stopped).rejects.toThrow('enough');
  other.exec('COMMIT');
  await kept;
  expect(seen()).toEqual(['kept']);
});

test('a job whose signal was aborted beforehand is not run', async () => {
  await expect(queue.add(insert('never'), AbortSignal.abort(new Error('enough')), DURABLE)).rejects.toThrow('enough');
  await queue.add(insert('a'), never(), DURABLE);
  expect(seen()).toEqual(['a']);
});

test('a commit that fails is an answer to nobody: all its jobs are rejected and nothing is kept', async () => {
  db.exec(
    'PRAGMA foreign_keys = ON; CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED); CREATE TABLE parent (id INTEGER PRIMARY KEY)',
  );
  const orphan = (session: Session): void => void session.statement('INSERT INTO child VALUES (1)').run();
  const outcomes = await Promise.allSettled([
    queue.add<unknown>(insert('a', true), never(), DURABLE),
    queue.add(orphan, never(), { durable: true, single: true }),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(seen()).toEqual([]);
  expect(rings).toBe(0);
  await queue.add(insert('b'), never(), DURABLE);
  expect(seen()).toEqual(['b']);
});

test('a full disk fails what does not fit, and the queue goes on once there is room', async () => {
  const limit = (pages: number): void => db.exec(`PRAGMA max_page_count = ${pages}`);
  limit(Number(db.prepare('PRAGMA page_count').get()?.['page_count']));
  const large = (session: Session): string => insert('x'.repeat(100_000))(session);
  const outcomes = await Promise.allSettled(
    [large, large].map((work) => queue.add(work, never(), { durable: true, single: true })),
  );
  const full = { status: 'rejected', reason: { message: 'database or disk is full' } };
  expect(outcomes).toMatchObject([full, full]);
  limit(10_000);
  await queue.add(insert('fits'), never(), DURABLE);
  expect(seen()).toEqual(['fits']);
});

test('receivers are rung for once per transaction, after it', async () => {
  await Promise.all(['a', 'b', 'c'].map((text) => queue.add(insert(text, true), never(), DURABLE)));
  expect(rings).toBe(1);
  await queue.add(insert('d'), never(), DURABLE);
  expect(rings).toBe(1);
});

test('only a transaction with a durable job in it is synced to disk', async () => {
  const mode = (): unknown => db.prepare('PRAGMA synchronous').get()?.['synchronous'];
  await Promise.all([queue.add(insert('a'), never(), { durable: false }), queue.add(insert('b'), never(), DURABLE)]);
  expect(mode()).toBe(2);
  await queue.add(insert('c'), never(), { durable: false });
  expect(mode()).toBe(1);
  await queue.add(insert('d'), never(), DURABLE);
  expect(mode()).toBe(2);
});

test('a batch ends before it keeps the loop and other processes waiting', async () => {
  const slow = (session: Session): void => {
    insert(`${performance.now()}`)(session);
    for (const end = performance.now() + 5; performance.now() < end;);
  };
  await Promise.all(Array.from({ length: 6 }, () => queue.add(slow, never(), DURABLE)));
  expect(commits()).toBeGreaterThanOrEqual(3);
  expect(seen()).toHaveLength(6);
});

test('drained waits for everything that was asked before', async () => {
  other.exec('BEGIN IMMEDIATE');
  void queue.add(insert('a'), never(), DURABLE);
  setTimeout(() => other.exec('COMMIT'), 30);
  await queue.drained();
  expect(seen()).toEqual(['a']);
  await queue.drained();
});
