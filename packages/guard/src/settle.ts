import type { GuardHold, StoredResponse } from '@leasehold/core';
import { begin, outcomeUnknown, refusalOf, type Refusal } from './admission.ts';
import { announceFor, callStore, UNANSWERED, type Gate } from './gate.ts';
import { finishHold } from './hold.ts';
import type { Identified } from './identify.ts';
import { isBodyOmitted, sameResponse } from './stored-response.ts';

/** How often another outcome is looked for while the key keeps changing. */
const ROUNDS = 3;

/**
 * Stores what the handler answered; `stored` means the caller may be told. Anything else is answered instead of the handler's response:
 * a success is told only once every later asker will be told the same.
 */
export async function settleResponse<Native>(
  gate: Gate<Native>,
  found: Identified,
  hold: GuardHold,
  response: StoredResponse,
): Promise<'stored' | Refusal> {
  const done = await finishHold(gate, hold, response);
  if (done === true) return 'stored';
  // Not answered: perhaps stored, perhaps not. If not, the key falls in doubt, and `resolve`, which need not see what this handler saw,
  // may answer otherwise. The caller repeats the request and gets the stored response, or the truth about the doubt.
  const outcome = done === UNANSWERED ? { problem: outcomeUnknown() } : await recordAfterAll(gate, found, response);
  if (outcome !== 'stored' && 'problem' in outcome && outcome.problem.name === 'outcome-unknown') {
    announceFor(gate, found.claim, { name: 'guard_outcome_unknown', status: response.status });
  }
  return outcome;
}

/**
 * The hold was freed, or ended otherwise, before the response could be stored. The handler did end, though, and knows better than any hook
 * what happened: if the key is free its response takes it, and if another run of the same request left it in doubt its response settles
 * that. If another outcome is stored, that is the one everybody is told, this caller included.
 */
async function recordAfterAll<Native>(
  gate: Gate<Native>,
  found: Identified,
  response: StoredResponse,
): Promise<'stored' | Refusal> {
  const { claim, ask } = found;
  for (let round = 0; round < ROUNDS; round++) {
    const { verdict, hold } = await begin(gate, ask);
    // Taken or not, it is not given up: the handler did run, so a hold that falls in doubt tells the truth.
    if (verdict === UNANSWERED) break;
    if (typeof verdict === 'object' && 'new' in verdict) {
      if ((await finishHold(gate, hold, response)) === true) return 'stored';
      break;
    }
    if (typeof verdict === 'string' || !('inDoubt' in verdict)) {
      const refusal = refusalOf(verdict);
      if ('replay' in refusal && sameOutcome(refusal.replay, response)) return 'stored';
      announceFor(gate, claim, { name: 'guard_contradicted', status: response.status });
      return refusal;
    }
    const doubt = { ...hold, hold: verdict.inDoubt };
    if ((await callStore(gate, 'resolve', (signal) => gate.store.resolve(doubt, response, signal))) === true) {
      return 'stored';
    }
  }
  return { problem: outcomeUnknown() };
}

function sameOutcome(stored: StoredResponse, ours: StoredResponse): boolean {
  return sameResponse(stored, ours) && isBodyOmitted(stored) === isBodyOmitted(ours);
}
