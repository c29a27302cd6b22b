import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sqliteBroker, sqliteGuard } from '@leasehold/sqlite';
import { replaceDatabase } from '../src/database.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-demo-database-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A database as a demo leaves it that was stopped before its service was there. */
async function begun(file: string): Promise<DatabaseSync> {
  const driver = sqliteBroker({ file });
  const guard = sqliteGuard({ file, embed: true });
  await driver.open(new AbortController().signal);
  await Promise.all([driver.close(), guard.close()]);
  return new DatabaseSync(file);
}

test('the database of a demo that was stopped before it had begun is replaced', async () => {
  const file = join(folder, 'demo.sqlite');
  (await begun(file)).close();
  replaceDatabase(file);
  expect(readdirSync(folder)).toEqual([]);
  writeFileSync(file, '');
  replaceDatabase(file);
  expect(readdirSync(folder)).toEqual([]);
});

test.each([
  ['a message', "INSERT INTO leasehold_message (queue, not_before, sent_at, attributes) VALUES ('q', 0, 0, '{}')"],
  ['a key of a guard', "INSERT INTO leasehold_guard_scope VALUES ('s', 1, 0)"],
  ['a table of somebody else', 'CREATE TABLE invoices (id INTEGER)'],
  ['a view of somebody else', 'CREATE VIEW one AS SELECT 1'],
])('a database of Leasehold with %s in it that is no demo is left alone', async (_what, sql) => {
  const file = join(folder, 'demo.sqlite');
  const db = await begun(file);
  db.exec(sql);
  db.close();
  expect(() => replaceDatabase(file)).toThrow('the file is not from an earlier demo and stays as it is');
  expect(existsSync(file)).toBe(true);
});
