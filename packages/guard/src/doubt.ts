import type { GuardHold, StoredResponse } from '@leasehold/core';
import type { Claim } from './claim.ts';
import { errorClass } from './events.ts';
import { announceFor, callStore, keyId, UNANSWERED, within, type DoubtOutcome, type Gate } from './gate.ts';
import type { Doubt, DoubtAnswer } from './options.ts';
import { captureResponse, saysWhatHappened, storableResponse } from './stored-response.ts';

/** A key in doubt: as the store and as the caller know it. */
interface Question<Native> {
  /** The hold that ran out. */
  readonly doubt: GuardHold;
  readonly claim: Claim;
  readonly native: Native;
}

/**
 * Puts a key in doubt to the `resolve` hook and writes down what it says. After `settled` the store is asked again.
 *
 * The store settles the very doubt the hook was asked about, so an answer may take its time: if another has settled it meanwhile, and the
 * key ran and crashed once more, the late answer changes nothing.
 */
export function settleDoubt<Native>(gate: Gate<Native>, question: Question<Native>): Promise<DoubtOutcome> {
  const { doubt } = question;
  // A handler of this key is alive in this very process although its hold lapsed: nobody can say yet that it did not happen.
  if (gate.running.has(keyId(doubt))) return Promise.resolve('running');
  const inFlight = gate.resolving.get(doubt.hold);
  if (inFlight) return inFlight;
  const asking = ask(gate, question).finally(() => gate.resolving.delete(doubt.hold));
  gate.resolving.set(doubt.hold, asking);
  return asking;
}

async function ask<Native>(gate: Gate<Native>, question: Question<Native>): Promise<DoubtOutcome> {
  const answer = await hear(gate, question);
  if (answer === 'unknown') return 'unknown';
  const { doubt } = question;
  const written = await callStore(gate, 'resolve', (signal) => gate.store.resolve(doubt, answer, signal));
  // False: somebody else settled it first. The store knows more than we do now; ask it.
  return written === UNANSWERED ? 'unanswered' : 'settled';
}

async function hear<Native>(
  gate: Gate<Native>,
  question: Question<Native>,
): Promise<StoredResponse | 'free' | 'unknown'> {
  const { resolve, holdMs, maxStoredBytes } = gate.settings;
  const { claim, native } = question;
  if (!resolve) return 'unknown';
  const doubt = {
    scope: claim.scope,
    key: claim.key,
    ...(claim.token === undefined ? {} : { token: claim.token }),
    request: native,
  };
  try {
    const heard = await within(gate, holdMs, async (signal) => {
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
