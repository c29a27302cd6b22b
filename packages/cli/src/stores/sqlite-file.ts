import { existsSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { CliFailure } from '../failure.ts';
import { plain } from '../wording.ts';

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
  let db: DatabaseSync | undefined;
  try {
    // Not read-only: SQLite then cannot wait out a process that opens or closes the file at the same time.
    db = new DatabaseSync(file);
    db.exec('PRAGMA busy_timeout = 5000');
    return db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'leasehold_task'").get() !== undefined;
  } catch (error) {
    if (resultCode(error) === NOT_A_DATABASE) return false;
    throw unreadable(said, error);
  } finally {
    db?.close();
  }
}

// https://sqlite.org/rescode.html
const PERMISSION = 3;
const READ_ONLY = 8;
const CANNOT_OPEN = 14;
const NOT_A_DATABASE = 26;

/** Why a file cannot be read, and the remedy where the user's rights are at fault. */
export function unreadable(said: string, error: unknown): CliFailure {
  const why = error instanceof Error ? error.message : 'unknown error';
  const remedy = [PERMISSION, READ_ONLY, CANNOT_OPEN].includes(resultCode(error))
    ? ': the file and its folder have to be writable for this user, since SQLite keeps a journal beside it'
    : '';
  return new CliFailure(1, `${said} cannot be read (${why})${remedy}.`, { cause: error });
}

/** The primary code: the upper bits of what Node gives say more of the same. */
function resultCode(error: unknown): number {
  const code = typeof error === 'object' && error !== null && 'errcode' in error ? Number(error.errcode) : 0;
  return code & 0xff;
}

const DEAD_SUFFIX = '.dead';

/**
 * The queue to look at: the one that was named, else the only one that has messages, or `default` where none has. With `toSend` it has to be
 * named: what is sent again has no message, and nothing in the file says where that came from.
 */
export function queueName(file: string, asked: string | undefined, toSend = false): string {
  const names = queuesOf(file);
  const known = names.length === 0 ? '' : `; this file has messages of: ${names.join(', ')}`;
  if (asked !== undefined) {
    // A queue whose tasks all wait for people has no message either.
    if (known !== '' && !names.includes(asked))
      process.stderr.write(`note: queue ${plain(asked)} has no message${plain(known)}\n`);
    return asked;
  }
  if (toSend)
    throw new CliFailure(
      2,
      `--queue is missing: name the queue the task came from, which nothing remembers while its message is parked${known}.`,
    );
  const [only = 'default', other] = names;
  if (other === undefined) return only;
  throw new CliFailure(
    2,
    `--queue is missing: name one of those that have messages in this file: ${names.join(', ')}.`,
  );
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
