import { LeaseholdError } from '@leasehold/core';
import type { Session } from './commit-queue.ts';
import type { QueueSettings } from './message-queue.ts';

/** A message in the dead-letter queue, with why it is there. */
export interface SqliteDeadLetter {
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  readonly groupId?: string;
  readonly deliveryCount: number;
  /** Epoch milliseconds of the store's clock. */
  readonly sentAt: number;
  /** Epoch milliseconds of the store's clock. */
  readonly deadAt: number;
  readonly reason: string;
  readonly description: string;
}

/** Some dead letters, oldest first. */
export interface DeadLetterPage {
  readonly letters: readonly SqliteDeadLetter[];
  /** Present when there are more. */
  readonly cursor?: string;
}

/** How many messages a queue has, by what keeps them. */
export interface QueueDepth {
  /** Can be handed out now. */
  readonly visible: number;
  /** Held by somebody. */
  readonly inFlight: number;
  /** Sent or released with a delay that is not over. */
  readonly delayed: number;
  /** Behind another message of their group. */
  readonly blocked: number;
  /** In the dead-letter queue. */
  readonly deadLetters: number;
}

const PAGE = `SELECT m.*, coalesce(m.body, (SELECT b.body FROM leasehold_body AS b WHERE b.id = m.id)) AS whole FROM leasehold_message AS m
  WHERE m.queue = ? AND (m.visible_at, m.id) > (?, ?) ORDER BY m.visible_at, m.id LIMIT ?`;

/** One page of the dead-letter queue. */
export function listDeadLetters(
  { statement, fileId }: Session,
  settings: QueueSettings,
  limit: number,
  cursor?: string,
): DeadLetterPage {
  const [visibleAt, id] = cursor === undefined ? [-1, -1] : parseCursor(cursor);
  const rows = statement(PAGE).all(settings.deadQueue, visibleAt, id, limit + 1);
  const letters = rows.slice(0, limit).map((row) => ({
    messageId: `${fileId}-${String(row['id'])}`,
    body: (row['whole'] as Uint8Array | null) ?? new Uint8Array(),
    attributes: JSON.parse(String(row['attributes'])) as Record<string, string>,
    ...(row['group_id'] !== null && { groupId: String(row['group_id']) }),
    deliveryCount: Number(row['deliveries']),
    sentAt: Number(row['sent_at']),
    deadAt: Number(row['dead_at'] ?? row['sent_at']),
    reason: String(row['reason'] ?? ''),
    description: String(row['description'] ?? ''),
  }));
  const last = rows[limit - 1];
  return {
    letters,
    ...(rows.length > limit && last && { cursor: `${String(last['visible_at'])}.${String(last['id'])}` }),
  };
}

function parseCursor(cursor: string): readonly [visibleAt: number, id: number] {
  const found = /^(\d+)\.(\d+)$/.exec(cursor);
  if (!found) {
    const text =
      'cursor is not one that deadLetters gave; pass a cursor back unchanged, or none to begin at the start.';
    throw new LeaseholdError('bad-request', text, { field: 'cursor' });
  }
  return [Number(found[1]), Number(found[2])];
}

// A copy at the tail with its deliveries counted anew: a message keeps its place only where it never left.
const COPY = `INSERT INTO leasehold_message (queue, visible_at, group_id, not_before, sent_at, attributes, body)
  SELECT ?, CASE WHEN group_id IS NOT NULL AND EXISTS (SELECT 1 FROM leasehold_message AS o WHERE o.queue = ? AND o.group_id = d.group_id)
    THEN NULL ELSE ? END, group_id, ?, sent_at, attributes, body FROM leasehold_message AS d
  WHERE id = ? AND queue = ? AND (boot IS NULL OR boot <> ? OR visible_at <= ?)`;
const COPY_BODY = 'INSERT INTO leasehold_body (id, body) SELECT ?, body FROM leasehold_body WHERE id = ?';
const DROP = 'DELETE FROM leasehold_message WHERE id = ?';

/** Moves dead letters back. Gives how many went: those that are gone, or that a reader of the dead-letter queue holds, stay. */
export function redriveMessages(session: Session, settings: QueueSettings, messageIds: readonly string[]): number {
  const { now, statement, fileId } = session;
  const { queue, deadQueue } = settings;
  let moved = 0;
  for (const messageId of messageIds) {
    const id = messageId.startsWith(`${fileId}-`) ? Number(messageId.slice(fileId.length + 1)) : Number.NaN;
    if (!Number.isSafeInteger(id)) continue;
    const copied = statement(COPY).run(queue, queue, now.earliest, now.earliest, id, deadQueue, now.boot, now.earliest);
    if (copied.changes === 0) continue;
    statement(COPY_BODY).run(copied.lastInsertRowid, id);
    statement(DROP).run(id);
    moved++;
  }
  if (moved > 0) session.ring();
  return moved;
}

const VISIBLE = 'SELECT count(*) AS n FROM leasehold_message WHERE queue = ? AND visible_at <= ?';
const LATER = 'SELECT count(*) AS n FROM leasehold_message WHERE queue = ? AND visible_at > ?';
// Of the two indexes that fit, the one of what is held is short; a queue of delayed messages may not be.
const HELD_INDEX = 'INDEXED BY leasehold_message_held';
const IN_FLIGHT = `SELECT count(*) AS n FROM leasehold_message ${HELD_INDEX} WHERE boot = ? AND queue = ? AND visible_at > ?`;
const BLOCKED = 'SELECT count(*) AS n FROM leasehold_message WHERE queue = ? AND visible_at IS NULL';
const DEAD = 'SELECT count(*) AS n FROM leasehold_message WHERE queue = ?';

/** Counts through indexes; proportional to the queue's length. */
export function countMessages({ now, statement }: Session, { queue, deadQueue }: QueueSettings): QueueDepth {
  const count = (sql: string, ...values: (string | number)[]): number => Number(statement(sql).get(...values)?.['n']);
  const inFlight = count(IN_FLIGHT, now.boot, queue, now.earliest);
  return {
    visible: count(VISIBLE, queue, now.earliest),
    inFlight,
    delayed: count(LATER, queue, now.earliest) - inFlight,
    blocked: count(BLOCKED, queue),
    deadLetters: count(DEAD, deadQueue),
  };
}
