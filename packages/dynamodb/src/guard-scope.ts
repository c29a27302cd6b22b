import { canonicalJson } from '@leasehold/core';
import type {
  GuardAsk,
  GuardHold,
  GuardVerdict,
  HoldId,
  LookVerdict,
  StoredResponse,
  StoreTime,
} from '@leasehold/core';

/** What became of the last hold on a key. */
export type KeyEnd =
  | { readonly heldUntil: number }
  | { readonly response: StoredResponse; readonly expiresAt: number }
  /** Freed: remembered, so that a late `begin` of that hold takes nothing. */
  | { readonly freed: true; readonly expiresAt: number };

/** One key of a scope. */
export interface GuardKey {
  readonly key: string;
  readonly requestHash: string;
  readonly retentionMs: number;
  readonly hold: HoldId;
  readonly end: KeyEnd;
}

/** Everything a guard remembers of one scope. */
export interface GuardScope {
  /** The highest token seen. */
  readonly token?: number;
  /** The scope itself is not forgotten before: a seal has to last longer than any call that is still on its way. */
  readonly keepUntil: number;
  readonly keys: readonly GuardKey[];
}

/** An answer, and the scope as it has to be for it to be true; without one it is true of the scope as it is. */
export interface Decision<Answer> {
  readonly answer: Answer;
  readonly next?: GuardScope;
}

/** How long a freed hold is remembered: a `begin` that was given up has that long to arrive. */
const FREED_MS = 600_000;
/** How long a scope is kept that was only looked at: a look names no retention. */
const SEAL_MS = 30 * 86_400_000;

/** A scope of which nothing is known. */
export const NO_SCOPE: GuardScope = { keepUntil: 0, keys: [] };

type KeyState = Exclude<LookVerdict, { readonly stale: number }>;

export function decideBegin(scope: GuardScope, ask: GuardAsk, now: StoreTime): Decision<GuardVerdict> {
  const { key, hold, requestHash, retentionMs } = ask;
  const fenced = fence(scope, ask.token, now.latest + retentionMs);
  if ('stale' in fenced) return { answer: fenced };
  const raised = changed(scope, fenced.scope);
  const entry = find(scope, key);
  const state = stateOf(entry, now);
  if (entry && state !== 'absent' && entry.requestHash !== requestHash) return { answer: 'key-reused', ...raised };
  const own = entry?.hold === hold;
  // Its own hold, standing: the answer to an earlier sending was lost.
  if (own && state === 'in-progress') return { answer: { new: hold }, ...raised };
  if (state !== 'absent') return { answer: state, ...raised };
  // Its own hold, freed: this is the late arrival of a sending that was given up.
  if (own && entry && !isOver(entry, now)) return { answer: 'in-progress', ...raised };
  const end = { heldUntil: now.latest + Math.ceil(ask.holdMs) };
  const taken: GuardKey = { key, requestHash, retentionMs: Math.ceil(retentionMs), hold, end };
  return { answer: { new: hold }, next: withKey(fenced.scope, taken, now) };
}

/** Judged by the latest possible time: while one asker may already call the hold in doubt, nobody prolongs it any more. */
export function decideExtend(scope: GuardScope, hold: GuardHold, holdMs: number, now: StoreTime): Decision<boolean> {
  const entry = ownOf(scope, hold);
  if (!entry || !('heldUntil' in entry.end) || entry.end.heldUntil <= now.latest) return { answer: false };
  const end = { heldUntil: now.latest + Math.ceil(holdMs) };
  return { answer: true, next: withKey(scope, { ...entry, end }, now) };
}

/** Whoever bears the hold knows how it ended, even after the hold ran out: this settles the doubt. */
export function decideFinish(
  scope: GuardScope,
  hold: GuardHold,
  response: StoredResponse | 'free',
  now: StoreTime,
): Decision<boolean> {
  const entry = find(scope, hold.key);
  const own = entry?.hold === hold.hold && !isOver(entry, now);
  if (response === 'free') {
    if (own && 'response' in entry.end) return { answer: false };
    if (own && 'freed' in entry.end) return { answer: true };
    // Also where it never came to be; but a key that another has is left alone.
    return own || stateOf(entry, now) === 'absent' ? { answer: true, next: freed(scope, hold, now) } : { answer: true };
  }
  if (!own || 'freed' in entry.end) return { answer: false };
  // A bearer whose answer was lost says the same again.
  if ('response' in entry.end) return { answer: isSame(entry.end.response, response) };
  return { answer: true, next: stored(scope, entry, response, now) };
}

export function decideLook(
  scope: GuardScope,
  ask: { readonly token: number; readonly key: string },
  now: StoreTime,
): Decision<LookVerdict> {
  const fenced = fence(scope, ask.token, now.latest + SEAL_MS);
  if ('stale' in fenced) return { answer: fenced };
  // What was answered rests on the seal, so it has to outlast a call that is still on its way, whatever the retention of the requests before.
  const lasts = scope.keepUntil >= now.latest + SEAL_MS / 2;
  const kept = lasts ? changed(scope, fenced.scope) : { next: fenced.scope };
  return { answer: stateOf(find(scope, ask.key), now), ...kept };
}

export function decideResolve(
  scope: GuardScope,
  hold: GuardHold,
  response: StoredResponse | 'free',
  now: StoreTime,
): Decision<boolean> {
  const entry = ownOf(scope, hold);
  const state = stateOf(entry, now);
  if (!entry || typeof state !== 'object' || !('inDoubt' in state)) return { answer: false };
  return { answer: true, next: response === 'free' ? freed(scope, hold, now) : stored(scope, entry, response, now) };
}

/** When the whole scope may be thrown away, epoch milliseconds; never while a hold is open or in doubt. */
export function scopeExpiry(scope: GuardScope): number | undefined {
  let last = scope.keepUntil;
  for (const { end } of scope.keys) {
    if ('heldUntil' in end) return undefined;
    last = Math.max(last, end.expiresAt);
  }
  return last;
}

/** Raises the highest token, or says that this one is below it. */
function fence(
  scope: GuardScope,
  token: number | undefined,
  keepUntil: number,
): { readonly stale: number } | { readonly scope: GuardScope } {
  const kept = Math.max(scope.keepUntil, Math.ceil(keepUntil));
  if (token === undefined) return { scope: { ...scope, keepUntil: kept } };
  if (scope.token !== undefined && token < scope.token) return { stale: scope.token };
  return { scope: { ...scope, token, keepUntil: kept } };
}

/** A write for its own sake only where the token is higher; else the answer is as good without. */
function changed(before: GuardScope, after: GuardScope): { readonly next?: GuardScope } {
  return before.token === after.token ? {} : { next: after };
}

function find(scope: GuardScope, key: string): GuardKey | undefined {
  return scope.keys.find((entry) => entry.key === key);
}

function ownOf(scope: GuardScope, { key, hold }: GuardHold): GuardKey | undefined {
  const entry = find(scope, key);
  return entry?.hold === hold ? entry : undefined;
}

function stateOf(entry: GuardKey | undefined, now: StoreTime): KeyState {
  if (!entry || isOver(entry, now) || 'freed' in entry.end) return 'absent';
  if ('response' in entry.end) return { previous: entry.end.response };
  // Certainly over, or it may still stand.
  return entry.end.heldUntil <= now.earliest ? { inDoubt: entry.hold } : 'in-progress';
}

function isOver({ end }: GuardKey, now: StoreTime): boolean {
  return 'expiresAt' in end && end.expiresAt <= now.earliest;
}

/** Drops what is over, which is all that ever leaves a scope. */
function withKey(scope: GuardScope, entry: GuardKey, now: StoreTime): GuardScope {
  return { ...scope, keys: [...scope.keys.filter((other) => other.key !== entry.key && !isOver(other, now)), entry] };
}

function freed(scope: GuardScope, { key, hold }: GuardHold, now: StoreTime): GuardScope {
  const end = { freed: true, expiresAt: now.latest + FREED_MS } as const;
  return withKey(scope, { key, hold, requestHash: '', retentionMs: 0, end }, now);
}

function stored(scope: GuardScope, entry: GuardKey, response: StoredResponse, now: StoreTime): GuardScope {
  return withKey(scope, { ...entry, end: { response, expiresAt: now.latest + entry.retentionMs } }, now);
}

function isSame(one: StoredResponse, other: StoredResponse): boolean {
  const head = ({ status, headers }: StoredResponse): string => canonicalJson([status, headers]);
  return head(one) === head(other) && Buffer.compare(one.body, other.body) === 0;
}
