import { existsSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { CliFailure } from '../failure.ts';

/**
 * Checks that a file is a database of Leasehold, without changing anything: the drivers would make a file that is missing, and put their tables
 * into an empty one.
 */
export function checkFile(file: string, said: string): void {
  const remedy = 'give the SQLite file that the workers use';
  if (!existsSync(file)) throw new CliFailure(2, `${said} does not exist: give the file that the workers use.`);
  if (!statSync(file).isFile()) throw new CliFailure(2, `${said} is not a file: ${remedy}.`);
  if (!holdsTasks(file, said))
    throw new CliFailure(2, `${said} is not a database of Leasehold: ${remedy}. Nothing was changed.`);
}

function holdsTasks(file: string, said: string): boolean {
  // Not read-only: SQLite then cannot wait out a process that opens or closes the file at the same time.
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 5000');
    return db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'leasehold_task'").get() !== undefined;
  } catch (error) {
    if (isNotADatabase(error)) return false;
    const why = error instanceof Error ? error.message : 'unknown error';
    throw new CliFailure(1, `${said} cannot be read: ${why}.`, { cause: error });
  } finally {
    db.close();
  }
}

/** https://sqlite.org/rescode.html#notadb */
function isNotADatabase(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'errcode' in error && error.errcode === 26;
}

const DEAD_SUFFIX = '.dead';

/** The queue to look at: the one that was named, if the file has it; else the only one there is, or `default`. */
export function queueName(file: string, asked: string | undefined): string {
  const names = queuesOf(file);
  if (asked !== undefined) {
    if (names.length === 0 || names.includes(asked)) return asked;
    throw new CliFailure(2, `--queue ${asked} holds nothing in this file; it has messages of: ${names.join(', ')}.`);
  }
  const [only, other] = names;
  if (only === undefined || names.includes('default')) return 'default';
  if (other === undefined) return only;
  throw new CliFailure(2, `--queue is missing, and this file has several: name one of ${names.join(', ')}.`);
}

/** The queues that have messages. */
export function queuesOf(file: string): readonly string[] {
  const db = new DatabaseSync(file, { timeout: 1_000 });
  try {
    const rows = db.prepare('SELECT DISTINCT queue FROM leasehold_message').all() as { queue: string }[];
    return [
      ...new Set(rows.map(({ queue }) => (queue.endsWith(DEAD_SUFFIX) ? queue.slice(0, -DEAD_SUFFIX.length) : queue))),
    ].toSorted();
  } finally {
    db.close();
  }
}
