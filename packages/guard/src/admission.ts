import {
  sleep,
  type GuardAsk,
  type GuardHold,
  type GuardVerdict,
  type HoldId,
  type StoredResponse,
} from '@leasehold/core';
import { randomUUID } from 'node:crypto';
import { settleDoubt } from './doubt.ts';
import { callStore, UNANSWERED, type DoubtOutcome, type Gate } from './gate.ts';
import { giveUpHold, SHORT_PAUSES_MS } from './hold.ts';
import type { Identified, Question } from './identify.ts';
import type { Problem } from './problem.ts';

/** Why the handler is not to run. */
export type Refusal = { readonly problem: Problem } | { readonly replay: StoredResponse };

/** The permission to run once. */
export interface Admitted {
  readonly hold: GuardHold;
  /** Monotonic time from before the hold was asked for. */
  readonly sentAt: number;
}

/** How often a key is asked for again after its doubt was settled. */
const ROUNDS = 3;
const SOON_SECONDS = 2;
const LATER_SECONDS = 5;

/** Asks the store for permission, settling a doubt on the way where that can be done. */
export async function admit<Native>(
  gate: Gate<Native>,
  found: Identified,
  native: Native,
): Promise<Admitted | Refusal> {
  const { clock, holdMs } = gate.settings;
  const { claim, ask } = found;
  for (let round = 0; round < ROUNDS; round++) {
    const sentAt = clock.monotonic();
    const { verdict, hold, repeated } = await begin(gate, ask);
    const granted = typeof verdict === 'object' && 'new' in verdict;
    if (granted && clock.monotonic() - sentAt < holdMs) return { hold, sentAt };
    // The store may have taken the hold, or will when a late sending arrives; nothing ran under it. Granted all the same: the process
    // stood still, and the hold may have lapsed, been resolved and the key given to another before anything ran here.
    if (granted || repeated || verdict === UNANSWERED) giveUpHold(gate, hold);
    if (granted || verdict === UNANSWERED) return { problem: storeUnavailable() };
    if (typeof verdict === 'string' || !('inDoubt' in verdict)) return refusalOf(verdict);
    const outcome = await settleDoubt(gate, { doubt: { ...hold, hold: verdict.inDoubt }, claim, native });
    if (outcome !== 'settled') return { problem: doubtProblem(outcome, gate.settings.resolve !== undefined) };
  }
  return { problem: doubtProblem('unknown', true) };
}

/** What the store said, and the hold it was asked for. */
export interface Begun {
  readonly verdict: GuardVerdict | typeof UNANSWERED;
  readonly hold: GuardHold;
  /** Whether an earlier sending was not answered, so that the hold may be there whatever the verdict. */
  readonly repeated: boolean;
}

/**
 * Asks for a new hold. An asking that is not answered is sent again under the same name, within two calls' time, so that a hold that was
 * taken is recognised.
 */
export async function begin<Native>(gate: Gate<Native>, question: Question): Promise<Begun> {
  const { clock, callMs, mode } = gate.settings;
  const ask: GuardAsk = { ...question, hold: randomUUID() };
  const hold = { scope: ask.scope, key: ask.key, hold: ask.hold };
  const lastMoment = clock.monotonic() + 2 * callMs;
  // Observing stands in nobody's way for longer than one call.
  const pauses = mode === 'observe' ? [] : SHORT_PAUSES_MS;
  for (let attempt = 0; ; attempt++) {
    const sending = (signal: AbortSignal): Promise<GuardVerdict> => gate.store.begin(ask, signal);
    const verdict = await callStore(gate, 'begin', sending, lastMoment - clock.monotonic());
    const repeated = attempt > 0;
    if (verdict !== UNANSWERED) return { verdict: isDoubtOf(verdict, ask.hold) ? UNANSWERED : verdict, hold, repeated };
    const pause = pauses[attempt];
    if (pause === undefined || clock.monotonic() + pause >= lastMoment) return { verdict, hold, repeated };
    await sleep(clock, pause);
  }
}

/** Our own hold ran out before we heard of it. */
function isDoubtOf(verdict: GuardVerdict, hold: HoldId): boolean {
  return typeof verdict === 'object' && 'inDoubt' in verdict && verdict.inDoubt === hold;
}

/** What a verdict other than `new` means for the caller. */
export function refusalOf(verdict: Exclude<GuardVerdict, { readonly new: HoldId }>): Refusal {
  if (verdict === 'in-progress') return { problem: doubtProblem('running', true) };
  if (verdict === 'key-reused') {
    const detail =
      'This idempotency key was used for a request with another method, path or body. Use a new key for a new request, and repeat the old one unchanged.';
    return { problem: { name: 'key-reused', detail } };
  }
  if ('previous' in verdict) return { replay: verdict.previous };
  if ('inDoubt' in verdict) return { problem: doubtProblem('unknown', false) };
  const detail = `A fencing token of ${verdict.stale} was seen in this scope: a newer owner has the task. Stop, and commit nothing.`;
  return { problem: { name: 'stale-token', detail, highest: verdict.stale } };
}

/** The store did not answer before anything was run. */
export function storeUnavailable(): Problem {
  const detail = 'The guard could not reach its store, so nothing was run. Repeat the request with the same key.';
  return { name: 'store-unavailable', detail, retryAfterSeconds: LATER_SECONDS };
}

/** The handler ended, but what its key will answer is not known. */
export function outcomeUnknown(): Problem {
  const detail =
    'The request ran, but its outcome could not be recorded. Repeat it with the same key, or look the key up.';
  return { name: 'outcome-unknown', detail, retryAfterSeconds: LATER_SECONDS };
}

function doubtProblem(outcome: Exclude<DoubtOutcome, 'settled'>, mayChange: boolean): Problem {
  switch (outcome) {
    case 'running':
      return {
        name: 'in-progress',
        detail: 'A request with this key is being carried out. Repeat this one to get its response.',
        retryAfterSeconds: SOON_SECONDS,
      };
    case 'unanswered':
      return storeUnavailable();
    case 'unknown':
      return {
        name: 'in-doubt',
        detail:
          'A request with this key was started and its outcome was not recorded. It is not run again: find out at the receiver whether it happened.',
        ...(mayChange ? { retryAfterSeconds: LATER_SECONDS } : {}),
      };
  }
}
