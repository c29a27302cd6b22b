import { existsSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { createTaskClient, type TaskClient } from '@leasehold/core';
import { sqliteLedger, type SqliteLedger } from '@leasehold/sqlite';
import { CliFailure } from './failure.ts';

const DEFAULT_FILE = './.leasehold/demo.sqlite';

/** A ledger, and a client over it. */
export interface OpenLedger {
  readonly ledger: SqliteLedger;
  readonly client: TaskClient;
  readonly file: string;
}

/** Opens the database of `--db`, `LEASEHOLD_DB` or the last demo for the time of `work`. It is never made: a wrong path is an error. */
export async function withLedger<Result>(
  db: string | undefined,
  work: (open: OpenLedger) => Promise<Result>,
): Promise<Result> {
  const file = databaseFile(db);
  const ledger = sqliteLedger({ file });
  try {
    return await work({ ledger, client: createTaskClient({ ledger }), file });
  } finally {
    await ledger.close();
  }
}

function databaseFile(db: string | undefined): string {
  const file = db ?? (existsSync(DEFAULT_FILE) ? DEFAULT_FILE : undefined);
  if (file === undefined) {
    throw new CliFailure(
      2,
      `there is no database: give one with --db <file> or in LEASEHOLD_DB, or make one with "leasehold demo --keep" (${DEFAULT_FILE}).`,
    );
  }
  if (!existsSync(file)) throw new CliFailure(2, `--db ${file} does not exist: give the file that the workers use.`);
  if (!statSync(file).isFile())
    throw new CliFailure(2, `--db ${file} is not a file: give the SQLite file that the workers use.`);
  if (!holdsTasks(file)) {
    throw new CliFailure(
      2,
      `--db ${file} is not a database of Leasehold: give the SQLite file that the workers use. Nothing was changed.`,
    );
  }
  return file;
}

/** Looks without changing anything: the driver itself would put its tables into an empty file. */
function holdsTasks(file: string): boolean {
  // Not read-only: SQLite then cannot wait out a process that opens or closes the file at the same time.
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 5000');
    return db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'leasehold_task'").get() !== undefined;
  } catch (error) {
    if (isNotADatabase(error)) return false;
    throw new CliFailure(
      1,
      `--db ${file} cannot be read: ${error instanceof Error ? error.message : 'unknown error'}.`,
      { cause: error },
    );
  } finally {
    db.close();
  }
}

/** https://sqlite.org/rescode.html#notadb */
function isNotADatabase(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'errcode' in error && error.errcode === 26;
}
