import { existsSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { badOption } from '@leasehold/core';

/**
 * Removes the database of an earlier demo, so that a new one starts empty.
 *
 * @throws LeaseholdError `bad-option` for a file of that name that is something else: it is left alone.
 */
export function replaceDatabase(file: string): void {
  if (!existsSync(file)) return;
  if (!isDemo(file))
    throw badOption('keep', file, 'the file is not from an earlier demo and stays as it is; name another folder.');
  for (const suffix of ['', '-wal', '-shm', '.bell']) rmSync(file + suffix, { force: true });
}

/** What every file says of itself from the first moment. */
const BEGUN: readonly string[] = ['leasehold_meta', 'leasehold_boot'];

function isDemo(file: string): boolean {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 5000');
    const objects = db.prepare("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')").all();
    const names = objects.map(({ name }) => String(name)).filter((name) => !name.startsWith('sqlite_'));
    if (names.includes('leasehold_task') && names.includes('tickets')) return true;
    // One that was stopped before its service had made its tables has nothing in it yet; nor has anybody else's that is removed for it.
    return names.every((name) => BEGUN.includes(name) || (name.startsWith('leasehold_') && isEmpty(db, name)));
  } catch {
    // Not a database, or one that cannot be read: not to be removed either way.
    return false;
  } finally {
    db.close();
  }
}

function isEmpty(db: DatabaseSync, table: string): boolean {
  return db.prepare(`SELECT 1 FROM "${table}" LIMIT 1`).get() === undefined;
}

/** A process that was stopped inside a transaction stops every other one on the file. */
export function isWritable(file: string): boolean {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 250');
    db.exec('BEGIN IMMEDIATE');
    db.exec('ROLLBACK');
    return true;
  } catch {
    // Locked; whatever else is wrong with the file shows elsewhere.
    return false;
  } finally {
    db.close();
  }
}
