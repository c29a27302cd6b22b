import { randomBytes } from 'node:crypto';
import {
  canonicalJson,
  type GuardAsk,
  type GuardVerdict,
  type HoldId,
  type LookVerdict,
  type StoredResponse,
} from '@leasehold/core';
import type { Session } from './commit-queue.ts';

const DAY_MS = 86_400_000;
/** How long a scope is kept that was only looked at: a look names no retention. */
const SEAL_MS = 30 * DAY_MS;

// Raises the highest token of a scope; changes nothing for a lower one.
const RAISE = `INSERT INTO leasehold_guard_scope (scope, token, expires_at) VALUES (?, ?, ?)
  ON CONFLICT (scope) DO UPDATE SET token = excluded.token, expires_at = max(expires_at, excluded.expires_at) WHERE excluded.token >= token`;
const HIGHEST = 'SELECT token FROM leasehold_guard_scope WHERE scope = ?';
const KEY = 'SELECT * FROM leasehold_guard_key WHERE scope = ? AND key = ?';
const DROP_KEY = 'DELETE FROM leasehold_guard_key WHERE id = ?';
const HOLD = `INSERT INTO leasehold_guard_key (scope, key, request_hash, retention_ms, hold, held_until, boot) VALUES (?, ?, ?, ?, ?, ?, ?)`;
const STORE = `INSERT INTO leasehold_guard_key (scope, key, request_hash, retention_ms, status, headers, body, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
const EXTEND =
  'UPDATE leasehold_guard_key SET held_until = ? WHERE id = ? AND hold = ? AND boot = ? AND held_until > ?';
const FINISH = `UPDATE leasehold_guard_key SET hold = ?, held_until = NULL, boot = NULL, status = ?, headers = ?, body = ?, expires_at = ? + retention_ms
  WHERE id = ? AND hold = ? AND status IS NULL`;
const FREE = 'DELETE FROM leasehold_guard_key WHERE id = ? AND hold = ? AND status IS NULL';
const FINISHED = 'SELECT * FROM leasehold_guard_key WHERE id = ? AND hold = ?';

interface KeyRow {
  readonly id: number;
  readonly request_hash: string;
  readonly hold: string | null;
  readonly held_until: number | null;
  readonly boot: number | null;
  readonly status: number | null;
  readonly headers: string | null;
  readonly body: Uint8Array | null;
  readonly expires_at: number | null;
}

/** Raises the scope's highest token, or tells that a higher one was seen. */
export function fence(
  { now, statement }: Session,
  scope: string,
  token: number,
  retentionMs: number = SEAL_MS,
): number | undefined {
  // Whole days, so that the expiry index is not written with every request.
  const expiresAt = Math.ceil((now.latest + retentionMs) / DAY_MS) * DAY_MS;
  if (statement(RAISE).run(scope, token, expiresAt).changes !== 0) return undefined;
  return Number(statement(HIGHEST).get(scope)?.['token']);
}

type KeyState = 'absent' | 'in-progress' | 'in-doubt' | { readonly previous: StoredResponse };

function findKey(
  { now, statement }: Session,
  scope: string,
  key: string,
): { readonly row?: KeyRow; readonly state: KeyState } {
  const row = statement(KEY).get(scope, key) as unknown as KeyRow | undefined;
  if (!row) return { state: 'absent' };
  if (row.status !== null) {
    if (row.expires_at !== null && row.expires_at <= now.earliest) return { row, state: 'absent' };
    return { row, state: { previous: responseOf(row) } };
  }
  const held = row.boot === now.boot && row.held_until !== null && row.held_until > now.earliest;
  return { row, state: held ? 'in-progress' : 'in-doubt' };
}

function responseOf(row: KeyRow): StoredResponse {
  return {
    status: Number(row.status),
    headers: JSON.parse(row.headers ?? '{}') as Record<string, string>,
    body: row.body ?? new Uint8Array(),
  };
}

/** The key check, once the fence let the request through: `absent` means that it may run, and that no row is in its way. */
export function checkKey(
  session: Session,
  ask: Pick<GuardAsk, 'scope' | 'key' | 'requestHash'>,
): Exclude<GuardVerdict, { readonly new: HoldId } | { readonly stale: number }> | 'absent' {
  const { row, state } = findKey(session, ask.scope, ask.key);
  if (state === 'absent') {
    if (row) session.statement(DROP_KEY).run(row.id);
    return 'absent';
  }
  return row?.request_hash === ask.requestHash ? state : 'key-reused';
}

export function beginHold(session: Session, ask: GuardAsk): GuardVerdict {
  const { now, statement } = session;
  const highest = ask.token === undefined ? undefined : fence(session, ask.scope, ask.token, ask.retentionMs);
  if (highest !== undefined) return { stale: highest };
  const known = checkKey(session, ask);
  if (known !== 'absent') return known;
  const nonce = randomBytes(12).toString('base64url');
  const until = now.latest + Math.ceil(ask.holdMs);
  const { lastInsertRowid } = statement(HOLD).run(
    ask.scope,
    ask.key,
    ask.requestHash,
    Math.ceil(ask.retentionMs),
    nonce,
    until,
    now.boot,
  );
  return { new: `${lastInsertRowid}.${nonce}` };
}

/** Keeps the response of a key that has no row, in the transaction that also did the work. */
export function storeResponse(
  { now, statement }: Session,
  ask: Omit<GuardAsk, 'holdMs'>,
  response: StoredResponse,
): void {
  const retentionMs = Math.ceil(ask.retentionMs);
  const { status, headers, body } = response;
  statement(STORE).run(
    ask.scope,
    ask.key,
    ask.requestHash,
    retentionMs,
    status,
    JSON.stringify(headers),
    body,
    now.latest + retentionMs,
  );
}

export function extendHold({ now, statement }: Session, hold: HoldId, holdMs: number): boolean {
  return (
    statement(EXTEND).run(now.latest + Math.ceil(holdMs), ...parseHold(hold), now.boot, now.earliest).changes !== 0
  );
}

/** Whoever bears the hold knows how it ended, even after the hold ran out: this resolves the doubt. */
export function finishHold(session: Session, hold: HoldId, response: StoredResponse | 'free'): boolean {
  const [id, nonce] = parseHold(hold);
  if (endHold(session, id, nonce, response, nonce)) return true;
  // A bearer whose answer was lost says the same again.
  const row = session.statement(FINISHED).get(id, nonce) as unknown as KeyRow | undefined;
  return row !== undefined && row.status !== null && response !== 'free' && isSame(responseOf(row), response);
}

function isSame(one: StoredResponse, other: StoredResponse): boolean {
  const head = ({ status, headers }: StoredResponse): string => canonicalJson([status, headers]);
  return head(one) === head(other) && Buffer.compare(one.body, other.body) === 0;
}

export function lookAt(
  session: Session,
  ask: { readonly scope: string; readonly token: number; readonly key: string },
): LookVerdict {
  const highest = fence(session, ask.scope, ask.token);
  return highest === undefined ? findKey(session, ask.scope, ask.key).state : { stale: highest };
}

export function resolveDoubt(
  session: Session,
  ask: { readonly scope: string; readonly key: string },
  response: StoredResponse | 'free',
): boolean {
  const { row, state } = findKey(session, ask.scope, ask.key);
  if (state !== 'in-doubt' || !row || row.hold === null) return false;
  // From here on its bearer is a stranger.
  return endHold(session, row.id, row.hold, response, null);
}

function endHold(
  { now, statement }: Session,
  id: number,
  nonce: string,
  response: StoredResponse | 'free',
  bearer: string | null,
): boolean {
  if (response === 'free') return statement(FREE).run(id, nonce).changes !== 0;
  const { status, headers, body } = response;
  return statement(FINISH).run(bearer, status, JSON.stringify(headers), body, now.latest, id, nonce).changes !== 0;
}

function parseHold(hold: HoldId): readonly [id: number, nonce: string] {
  const at = hold.indexOf('.');
  const id = hold.slice(0, at);
  return /^\d+$/.test(id) ? [Number(id), hold.slice(at + 1)] : [-1, ''];
}
