import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { measured, type Side, type SideOptions } from '../side.ts';

/**
 * A queue in a table as one writes it by hand: claim a row, work on it, delete it; one after another, since `node:sqlite` waits for each
 * statement. Both commits are synced to disk, as ours are. There is no lease that is renewed, no record of what was done, no fence.
 */
export async function openSqliteRaw({ directory }: SideOptions): Promise<Side> {
  const db = new DatabaseSync(join(directory, 'raw.db'));
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000');
  db.exec(`CREATE TABLE queue (id INTEGER PRIMARY KEY, visible_at INTEGER NOT NULL, payload TEXT NOT NULL) STRICT;
    CREATE INDEX queue_due ON queue (visible_at, id)`);
  const insert = db.prepare('INSERT INTO queue (visible_at, payload) VALUES (0, ?)');
  const claim = db.prepare(`UPDATE queue SET visible_at = ?1 WHERE id =
    (SELECT id FROM queue WHERE visible_at <= ?2 ORDER BY visible_at, id LIMIT 1) RETURNING id, payload`);
  const remove = db.prepare('DELETE FROM queue WHERE id = ?');
  const handler = async (_payload: unknown): Promise<void> => undefined;
  let filled = 0;
  return {
    async fill(count) {
      db.exec('BEGIN IMMEDIATE');
      for (let index = 0; index < count; index++) insert.run(JSON.stringify({ n: filled++ }));
      db.exec('COMMIT');
    },
    run: (count) =>
      measured(count, async () => {
        for (let done = 0; done < count; done++) {
          const now = Date.now();
          const row = claim.get(now + 90_000, now);
          if (!row) throw new Error('the queue is empty');
          await handler(JSON.parse(String(row['payload'])));
          remove.run(row['id'] as number);
        }
      }),
    async close() {
      db.close();
    },
  };
}
