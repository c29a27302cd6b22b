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

function isDemo(file: string): boolean {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 5000');
    return db.prepare("SELECT name FROM sqlite_schema WHERE name IN ('leasehold_task', 'tickets')").all().length === 2;
  } catch {
    // Not a database, or one that cannot be read: not to be removed either way.
    return false;
  } finally {
    db.close();
  }
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
