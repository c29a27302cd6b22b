import type { Session } from './commit-queue.ts';

/** How often a process that writes looks for something to throw away. */
export const TIDY_EVERY_MS = 1_000;
/** The most rows of each kind that go at once: the event loop is not to notice. */
const ROWS = 100;
/** A scope that still has keys is looked at again after this. */
const SCOPE_AGAIN_MS = 86_400_000;

const RECORDS = `DELETE FROM leasehold_task WHERE rowid IN (SELECT rowid FROM leasehold_task WHERE expires_at <= ? ORDER BY expires_at LIMIT ${ROWS})`;
const RESPONSES = `DELETE FROM leasehold_guard_key WHERE id IN (SELECT id FROM leasehold_guard_key WHERE expires_at <= ? ORDER BY expires_at LIMIT ${ROWS})`;
const IDS = `DELETE FROM leasehold_dedup WHERE (queue, dedup_id) IN
  (SELECT queue, dedup_id FROM leasehold_dedup WHERE expires_at <= ? ORDER BY expires_at LIMIT ${ROWS})`;
const SCOPES = `SELECT scope FROM leasehold_guard_scope WHERE expires_at <= ? ORDER BY expires_at LIMIT ${ROWS}`;
const DROP_SCOPE =
  'DELETE FROM leasehold_guard_scope WHERE scope = ? AND NOT EXISTS (SELECT 1 FROM leasehold_guard_key WHERE scope = ?)';
const KEEP_SCOPE = 'UPDATE leasehold_guard_scope SET expires_at = ? WHERE scope = ?';

/**
 * Throws away what has outlived its retention: terminal records, guard responses, deduplication ids, and scopes without keys.
 * Found through indexes, oldest first, a bounded number at a time. A key in doubt stays for good: only `resolve` knows better.
 *
 * @returns true when there is more to do.
 */
export function tidy({ now, statement }: Session): boolean {
  let most = 0;
  for (const sql of [RECORDS, RESPONSES, IDS]) most = Math.max(most, Number(statement(sql).run(now.earliest).changes));
  const scopes = statement(SCOPES).all(now.earliest);
  for (const { scope } of scopes) {
    const name = String(scope);
    if (statement(DROP_SCOPE).run(name, name).changes === 0)
      statement(KEEP_SCOPE).run(now.earliest + SCOPE_AGAIN_MS, name);
  }
  return Math.max(most, scopes.length) === ROWS;
}
