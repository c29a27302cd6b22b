import type { StoredResponse } from '@leasehold/core';
import type { Claim } from './claim.ts';
import { errorClass } from './events.ts';
import { announceFor, callStore, keyId, UNANSWERED, within, type DoubtOutcome, type Gate } from './gate.ts';
import type { Doubt, DoubtAnswer } from './options.ts';
import { captureResponse, saysWhatHappened, storableResponse } from './stored-response.ts';

/** A key in doubt: as the store and as the caller know it. */
interface Question<Native> {
  /** The scope as the store knows it. */
  readonly scope: string;
  readonly claim: Claim;
  readonly native: Native;
  /** Monotonic time from before the request that was answered `in-doubt`. */
  readonly askedAt: number;
}

/**
 * Puts a key in doubt to the `resolve` hook and writes down what it says. After `settled` the store is asked again.
 *
 * The store settles *a* doubt of that key, not the one the hook was asked about. Freed, run and crashed once more, the key would be in
 * doubt again, and a slow `absent` about the first time would free it a third time. So one process asks once at a time, and what it hears
 * is used only within one hold of the doubt it was asked about: a newer doubt cannot arise that fast, since it starts with a hold that lapses.
 */
export function settleDoubt<Native>(gate: Gate<Native>, question: Question<Native>): Promise<DoubtOutcome> {
  const id = keyId({ scope: question.scope, key: question.claim.key });
  // The handler is alive in this very process although its hold lapsed: nobody can say yet that it did not happen.
  if (gate.running.has(id)) return Promise.resolve('running');
  const inFlight = gate.resolving.get(id);
  if (inFlight) return inFlight;
  const asking = ask(gate, question).finally(() => gate.resolving.delete(id));
  gate.resolving.set(id, asking);
  return asking;
}

async function ask<Native>(gate: Gate<Native>, question: Question<Native>): Promise<DoubtOutcome> {
  const { clock, holdMs, callMs } = gate.settings;
  const lastMoment = question.askedAt + holdMs - callMs;
  const answer = await hear(gate, question, lastMoment - clock.monotonic());
  if (answer === 'unknown' || clock.monotonic() > lastMoment) return 'unknown';
  const { scope, claim } = question;
  const written = await callStore(gate, 'resolve', (signal) =>
    gate.store.resolve({ scope, key: claim.key }, answer, signal),
  );
  // False: somebody else settled it first. The store knows more than we do now; ask it.
  return written === UNANSWERED ? 'unanswered' : 'settled';
}

async function hear<Native>(
  gate: Gate<Native>,
  question: Question<Native>,
  limitMs: number,
): Promise<StoredResponse | 'free' | 'unknown'> {
  const { resolve, maxStoredBytes } = gate.settings;
  const { claim, native } = question;
  if (!resolve) return 'unknown';
  const doubt = {
    scope: claim.scope,
    key: claim.key,
    ...(claim.token === undefined ? {} : { token: claim.token }),
    request: native,
  };
  try {
    const heard = await within(gate, limitMs, async (signal) => {
      const said = await resolve({ ...doubt, signal } satisfies Doubt<Native>);
      return stored(said, maxStoredBytes);
    });
    announceFor(gate, claim, { name: 'guard_resolved', state: typeof heard === 'string' ? heard : 'done' });
    return heard;
  } catch (error) {
    announceFor(gate, claim, { name: 'guard_hook_failed', operation: 'resolve', errorClass: errorClass(error) });
    return 'unknown';
  }
}

async function stored(said: DoubtAnswer, maxStoredBytes: number): Promise<StoredResponse | 'free' | 'unknown'> {
  if (said === 'absent') return 'free';
  if (said === 'unknown') return 'unknown';
  const response =
    said instanceof Response
      ? (await captureResponse(said, maxStoredBytes)).stored
      : storableResponse(said, maxStoredBytes);
  return saysWhatHappened(response.status) ? response : 'unknown';
}
