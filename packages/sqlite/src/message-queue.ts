import type { Delivery, HandleOutcome, OutgoingMessage, RejectReason, SendOutcome } from '@leasehold/core';
import type { Session } from './commit-queue.ts';

/** The longest body, in bytes. */
export const MAX_BODY_BYTES: number = 2 ** 20;
/** Bodies above this lie apart, so that a claim does not rewrite them. */
const INLINE_BYTES = 2_048;

/** What of a queue its SQL needs to know. */
export interface QueueSettings {
  readonly queue: string;
  readonly deadQueue: string;
  readonly maxDeliveries: number | undefined;
  readonly deduplicationMs: number;
}

const INSERT = `INSERT INTO leasehold_message (queue, visible_at, group_id, not_before, sent_at, attributes, body)
  VALUES (?, CASE WHEN ? IS NOT NULL AND EXISTS (SELECT 1 FROM leasehold_message WHERE queue = ? AND group_id = ?) THEN NULL ELSE ? END, ?, ?, ?, ?, ?)`;
const INSERT_BODY = 'INSERT INTO leasehold_body (id, body) VALUES (?, ?)';
const SENT_BEFORE = 'SELECT message_id FROM leasehold_dedup WHERE queue = ? AND dedup_id = ? AND expires_at > ?';
const REMEMBER = 'INSERT OR REPLACE INTO leasehold_dedup (queue, dedup_id, message_id, expires_at) VALUES (?, ?, ?, ?)';

/** The instant at which the next message of the queue can be handed out, if there is one. */
export const NEXT_DUE: string =
  'SELECT visible_at FROM leasehold_message WHERE queue = ? AND visible_at IS NOT NULL ORDER BY visible_at LIMIT 1';
const TAKE =
  'UPDATE leasehold_message SET visible_at = ?, boot = ?, receipt = receipt + 1, deliveries = deliveries + 1 WHERE id';
const DUE = 'SELECT id FROM leasehold_message WHERE queue = ? AND visible_at <= ? ORDER BY visible_at, id';
const TAKEN = `RETURNING id, receipt, deliveries, group_id, sent_at, attributes,
    coalesce(body, (SELECT b.body FROM leasehold_body AS b WHERE b.id = leasehold_message.id)) AS body`;
/** Takes what is due, oldest first, in one statement. */
export const CLAIM: string = `${TAKE} IN (${DUE} LIMIT ?) ${TAKEN}`;
/** The same for one message: SQLite then needs no list, which makes it three times as fast. */
export const CLAIM_ONE: string = `${TAKE} = (${DUE} LIMIT 1) ${TAKEN}`;

// A handle is good while its delivery is the latest, of this boot, and not over.
const HELD = 'WHERE id = ? AND receipt = ? AND queue = ? AND boot = ? AND visible_at > ?';
const EXTEND = `UPDATE leasehold_message SET visible_at = ? ${HELD}`;
const RELEASE = `UPDATE leasehold_message SET visible_at = ?, boot = NULL ${HELD}`;
const COMPLETE = `DELETE FROM leasehold_message ${HELD} RETURNING group_id`;
const REJECT = `UPDATE leasehold_message SET queue = ?, visible_at = ?, boot = NULL, dead_at = ?, reason = ?, description = ?,
  attributes = json_patch(attributes, ?) ${HELD} RETURNING group_id`;
/** Lets the next of a group forward. */
export const PROMOTE: string = `UPDATE leasehold_message SET visible_at = not_before
  WHERE id = (SELECT min(id) FROM leasehold_message WHERE queue = ? AND group_id = ?) AND visible_at IS NULL`;

/** Stores messages. One that is too long fails alone. */
export function sendMessages(
  session: Session,
  settings: QueueSettings,
  messages: readonly OutgoingMessage[],
): SendOutcome[] {
  session.ring();
  return messages.map((message) => sendOne(session, settings, message));
}

function sendOne({ now, statement, fileId }: Session, settings: QueueSettings, message: OutgoingMessage): SendOutcome {
  const { queue, deduplicationMs } = settings;
  const { body, groupId = null, deduplicationId } = message;
  if (body.byteLength > MAX_BODY_BYTES) return { failed: 'invalid' };
  if (deduplicationId !== undefined && deduplicationMs > 0) {
    const before = statement(SENT_BEFORE).get(queue, deduplicationId, now.earliest);
    if (before) return { messageId: `${fileId}-${String(before['message_id'])}` };
  }
  const due = now.earliest + Math.ceil(message.delayMs ?? 0);
  const apart = body.byteLength > INLINE_BYTES;
  const attributes = JSON.stringify(message.attributes);
  const inline = apart ? null : body;
  const { lastInsertRowid: id } = statement(INSERT).run(
    queue,
    groupId,
    queue,
    groupId,
    due,
    groupId,
    due,
    now.earliest,
    attributes,
    inline,
  );
  if (apart) statement(INSERT_BODY).run(id, body);
  if (deduplicationId !== undefined && deduplicationMs > 0) {
    statement(REMEMBER).run(queue, deduplicationId, id, now.earliest + deduplicationMs);
  }
  return { messageId: `${fileId}-${id}` };
}

interface ClaimedRow {
  readonly id: number;
  readonly receipt: number;
  readonly deliveries: number;
  readonly group_id: string | null;
  readonly sent_at: number;
  readonly attributes: string;
  readonly body: Uint8Array | null;
}

/** Takes up to `max` messages. One that was handed out too often goes to the dead-letter queue instead. */
export function claimMessages(
  session: Session,
  settings: QueueSettings,
  max: number,
  leaseMs: number,
): Delivery<string>[] {
  const { queue, maxDeliveries } = settings;
  const { now, statement, fileId } = session;
  const taken: Delivery<string>[] = [];
  let exhausted: number;
  do {
    exhausted = 0;
    const until = now.latest + Math.ceil(leaseMs);
    const rows = (max === 1
      ? statement(CLAIM_ONE).all(until, now.boot, queue, now.earliest)
      : statement(CLAIM).all(until, now.boot, queue, now.earliest, max - taken.length)) as unknown as ClaimedRow[];
    // RETURNING promises no order.
    if (rows.length > 1) rows.sort((a, b) => a.id - b.id);
    for (const row of rows) {
      if (maxDeliveries !== undefined && row.deliveries > maxDeliveries) {
        exhausted++;
        const description = `handed out ${maxDeliveries} times without being completed`;
        rejectMessage(session, settings, `${row.id}.${row.receipt}`, {
          reason: 'max-deliveries',
          description,
          attributes: {},
        });
      } else {
        taken.push({
          handle: `${row.id}.${row.receipt}`,
          messageId: `${fileId}-${row.id}`,
          body: row.body ?? new Uint8Array(),
          attributes: JSON.parse(row.attributes) as Record<string, string>,
          deliveryCount: row.deliveries,
          ...(row.group_id !== null && { groupId: row.group_id }),
          leaseMs,
          sentAt: row.sent_at,
        });
      }
    }
  } while (exhausted > 0 && taken.length < max);
  return taken;
}

function parseHandle(handle: string): readonly [id: number, receipt: number] {
  const found = /^(\d+)\.(\d+)$/.exec(handle);
  return found ? [Number(found[1]), Number(found[2])] : [-1, -1];
}

/** Holds a message for `leaseMs` from now. */
export function extendMessage(
  { now, statement }: Session,
  { queue }: QueueSettings,
  handle: string,
  leaseMs: number,
): HandleOutcome {
  const until = now.latest + Math.ceil(leaseMs);
  const { changes } = statement(EXTEND).run(until, ...parseHandle(handle), queue, now.boot, now.earliest);
  return changes === 0 ? 'gone' : 'done';
}

/** Hands a message back. */
export function releaseMessage(
  session: Session,
  { queue }: QueueSettings,
  handle: string,
  delayMs: number,
): HandleOutcome {
  const { now, statement } = session;
  const due = now.earliest + Math.ceil(delayMs);
  const { changes } = statement(RELEASE).run(due, ...parseHandle(handle), queue, now.boot, now.earliest);
  if (changes === 0) return 'gone';
  session.ring();
  return 'done';
}

/** Removes a message and lets the next of its group forward. */
export function completeMessage(session: Session, { queue }: QueueSettings, handle: string): HandleOutcome {
  const { now, statement } = session;
  const row = statement(COMPLETE).get(...parseHandle(handle), queue, now.boot, now.earliest);
  if (!row) return 'gone';
  promote(session, queue, row['group_id'] as string | null);
  return 'done';
}

/** Moves a message to the dead-letter queue and lets the next of its group forward. */
export function rejectMessage(
  session: Session,
  settings: QueueSettings,
  handle: string,
  why: RejectReason,
): HandleOutcome {
  const { now, statement } = session;
  const { queue, deadQueue } = settings;
  const attributes = JSON.stringify(why.attributes);
  const row = statement(REJECT).get(
    deadQueue,
    now.earliest,
    now.earliest,
    why.reason,
    why.description,
    attributes,
    ...parseHandle(handle),
    queue,
    now.boot,
    now.earliest,
  );
  if (!row) return 'gone';
  promote(session, queue, row['group_id'] as string | null);
  session.ring();
  return 'done';
}

function promote(session: Session, queue: string, groupId: string | null): void {
  if (groupId === null) return;
  if (session.statement(PROMOTE).run(queue, groupId).changes !== 0) session.ring();
}
