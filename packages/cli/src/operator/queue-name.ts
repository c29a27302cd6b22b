import { DatabaseSync } from 'node:sqlite';
import { CliFailure } from '../failure.ts';

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

function queuesOf(file: string): readonly string[] {
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
