import {
  canonicalJson,
  type GuardAsk,
  type GuardHold,
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
// Both replace a row that is in nobody's way any more: a response past its retention, or what is left of a freed hold.
const HOLD = `INSERT OR REPLACE INTO leasehold_guard_key (scope, key, request_hash, retention_ms, hold, held_until, boot) VALUES (?, ?, ?, ?, ?, ?, ?)`;
const STORE = `INSERT OR REPLACE INTO leasehold_guard_key (scope, key, request_hash, retention_ms, status, headers, body, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
const EXTEND =
  'UPDATE leasehold_guard_key SET held_until = ? WHERE scope = ? AND key = ? AND hold = ? AND boot = ? AND held_until > ?';
const FINISH = `UPDATE leasehold_guard_key SET held_until = NULL, boot = NULL, status = ?, headers = ?, body = ?, expires_at = ? + retention_ms WHERE id = ?`;
// A freed hold: neither held nor done. The row only keeps its name, until it expires.
const FREED = `INSERT OR REPLACE INTO leasehold_guard_key (scope, key, request_hash, retention_ms, hold, expires_at) VALUES (?, ?, '', 0, ?, ?)`;
/** How long the hold that was freed last is remembered: a `begin` that was given up has that long to arrive. */
const FREED_MS = 600_000;

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

type KeyState = Exclude<LookVerdict, { readonly stale: number }>;

function findKey(
  { now, statement }: Session,
  scope: string,
  key: string,
): { readonly row?: KeyRow; readonly state: KeyState } {
  const row = statement(KEY).get(scope, key) as unknown as KeyRow | undefined;
  if (!row || isOver(row, now.earliest)) return { state: 'absent' };
  if (row.status !== null) return { row, state: { previous: responseOf(row) } };
  if (row.hold === null || row.held_until === null) return { row, state: 'absent' };
  const held = row.boot === now.boot && row.held_until > now.earliest;
  return { row, state: held ? 'in-progress' : { inDoubt: row.hold } };
}

function isOver(row: KeyRow, now: number): boolean {
  return row.expires_at !== null && row.expires_at <= now;
}

function responseOf(row: KeyRow): StoredResponse {
  return {
    status: Number(row.status),
    headers: JSON.parse(row.headers ?? '{}') as Record<string, string>,
    body: row.body ?? new Uint8Array(),
  };
}

/** The key check, once the fence let the request through: `absent` means that it may run. `own`: the row there is of this hold. */
export function checkKey(
  session: Session,
  ask: Pick<GuardAsk, 'scope' | 'key' | 'requestHash'> & { readonly hold?: HoldId },
): { readonly known: KeyState | 'key-reused'; readonly own: boolean } {
  const { row, state } = findKey(session, ask.scope, ask.key);
  const known = state === 'absent' || row?.request_hash === ask.requestHash ? state : 'key-reused';
  return { known, own: row !== undefined && row.hold === ask.hold };
}

export function beginHold(session: Session, ask: GuardAsk): GuardVerdict {
  const { now, statement } = session;
  const { scope, key, hold, requestHash } = ask;
  const highest = ask.token === undefined ? undefined : fence(session, scope, ask.token, ask.retentionMs);
  if (highest !== undefined) return { stale: highest };
  const { known, own } = checkKey(session, ask);
  // Its own hold, standing: the answer to an earlier sending was lost.
  if (own && known === 'in-progress') return { new: hold };
  if (known !== 'absent') return known;
  // Its own hold, freed: this is the late arrival of a sending that was given up.
  if (own) return 'in-progress';
  const until = now.latest + Math.ceil(ask.holdMs);
  statement(HOLD).run(scope, key, requestHash, Math.ceil(ask.retentionMs), hold, until, now.boot);
  return { new: hold };
}

/** Keeps the response of a key that is free, in the transaction that also did the work. */
export function storeResponse(
  { now, statement }: Session,
  ask: Omit<GuardAsk, 'hold' | 'holdMs'>,
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

export function extendHold({ now, statement }: Session, { scope, key, hold }: GuardHold, holdMs: number): boolean {
  const until = now.latest + Math.ceil(holdMs);
  return statement(EXTEND).run(until, scope, key, hold, now.boot, now.earliest).changes !== 0;
}

/** Whoever bears the hold knows how it ended, even after the hold ran out: this settles the doubt. */
export function finishHold(session: Session, hold: GuardHold, response: StoredResponse | 'free'): boolean {
  const { row, state } = findKey(session, hold.scope, hold.key);
  const own = row?.hold === hold.hold;
  if (response === 'free') {
    if (own && isDone(state)) return false;
    // Also where it never came to be; but a key that another has is left alone.
    if (own || state === 'absent') free(session, hold);
    return true;
  }
  if (!own || state === 'absent') return false;
  // A bearer whose answer was lost says the same again.
  if (isDone(state)) return isSame(state.previous, response);
  store(session, row.id, response);
  return true;
}

function isDone(state: KeyState): state is { readonly previous: StoredResponse } {
  return typeof state === 'object' && 'previous' in state;
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

export function resolveDoubt(session: Session, hold: GuardHold, response: StoredResponse | 'free'): boolean {
  const { row, state } = findKey(session, hold.scope, hold.key);
  if (!row || typeof state === 'string' || !('inDoubt' in state) || state.inDoubt !== hold.hold) return false;
  if (response === 'free') free(session, hold);
  else store(session, row.id, response);
  return true;
}

function free({ now, statement }: Session, { scope, key, hold }: GuardHold): void {
  statement(FREED).run(scope, key, hold, now.latest + FREED_MS);
}

function store({ now, statement }: Session, id: number, { status, headers, body }: StoredResponse): void {
  statement(FINISH).run(status, JSON.stringify(headers), body, now.latest, id);
}
