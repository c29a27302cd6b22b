import type { GuardAsk, GuardVerdict, HoldId, StoredResponse } from '@leasehold/core';
import { settleDoubt } from './doubt.ts';
import { callStore, UNANSWERED, type DoubtOutcome, type Gate } from './gate.ts';
import type { Identified } from './identify.ts';
import type { Problem } from './problem.ts';

/** Why the handler is not to run. */
export type Refusal = { readonly problem: Problem } | { readonly replay: StoredResponse };

/** The permission to run once. */
export interface Admitted {
  readonly hold: HoldId;
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
    const verdict = await begin(gate, ask);
    if (verdict === UNANSWERED) return { problem: storeUnavailable() };
    if (typeof verdict === 'object' && 'new' in verdict) {
      if (clock.monotonic() - sentAt < holdMs) return { hold: verdict.new, sentAt };
      // The process stood still: the hold may have lapsed, been resolved and given to another before anything ran here.
      await callStore(gate, 'finish', (signal) => gate.store.finish(verdict.new, 'free', signal));
      return { problem: storeUnavailable() };
    }
    if (verdict !== 'in-doubt') return refusalOf(verdict);
    const outcome = await settleDoubt(gate, { scope: ask.scope, claim, native, askedAt: sentAt });
    if (outcome !== 'settled') return { problem: doubtProblem(outcome, gate.settings.resolve !== undefined) };
  }
  return { problem: doubtProblem('unknown', true) };
}

/** One `begin`. A permission that comes after we stopped waiting is given back: nothing ran under it. */
export function begin<Native>(gate: Gate<Native>, ask: GuardAsk): Promise<GuardVerdict | typeof UNANSWERED> {
  const giveBack = (verdict: GuardVerdict): void => {
    if (typeof verdict !== 'object' || !('new' in verdict)) return;
    void callStore(gate, 'finish', (signal) => gate.store.finish(verdict.new, 'free', signal));
  };
  return callStore(gate, 'begin', (signal) => gate.store.begin(ask, signal), { late: giveBack });
}

/** What a verdict other than `new` means for the caller. */
export function refusalOf(verdict: Exclude<GuardVerdict, { readonly new: HoldId }>): Refusal {
  if (verdict === 'in-progress') return { problem: doubtProblem('running', true) };
  if (verdict === 'in-doubt') return { problem: doubtProblem('unknown', false) };
  if (verdict === 'key-reused') {
    const detail =
      'This idempotency key was used for a request with another method, path or body. Use a new key for a new request, and repeat the old one unchanged.';
    return { problem: { name: 'key-reused', detail } };
  }
  if ('previous' in verdict) return { replay: verdict.previous };
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
