import { sleep, type HoldId, type StoredResponse } from '@leasehold/core';
import { begin, outcomeUnknown, refusalOf, type Refusal } from './admission.ts';
import { announceFor, callStore, UNANSWERED, type Gate } from './gate.ts';
import type { Identified } from './identify.ts';
import { isBodyOmitted, sameResponse } from './stored-response.ts';

const PAUSES_MS: readonly number[] = [50, 250];

/** Finishes a hold, repeating what was not answered: both ends of `finish` can be asked for twice. */
export async function finishHold<Native>(
  gate: Gate<Native>,
  hold: HoldId,
  how: StoredResponse | 'free',
): Promise<boolean | typeof UNANSWERED> {
  for (let attempt = 0; ; attempt++) {
    const done = await callStore(gate, 'finish', (signal) => gate.store.finish(hold, how, signal));
    const pause = PAUSES_MS[attempt];
    if (done !== UNANSWERED || pause === undefined) return done;
    await sleep(gate.settings.clock, pause);
  }
}

/**
 * Stores what the handler answered; `stored` means the caller may be told. Anything else is answered instead of the handler's response:
 * a success is told only once every later asker will be told the same.
 */
export async function settleResponse<Native>(
  gate: Gate<Native>,
  found: Identified,
  hold: HoldId,
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
 * The hold was over before the response could be stored (or was it our own write, whose answer was lost?). The handler did end, though,
 * and knows better than any hook what happened: if the key is still in doubt its response settles it, and if the key was freed meanwhile
 * its response takes it. If another outcome is stored, that is the one everybody is told, this caller included.
 */
async function recordAfterAll<Native>(
  gate: Gate<Native>,
  found: Identified,
  response: StoredResponse,
): Promise<'stored' | Refusal> {
  const { claim, ask } = found;
  const settled = await callStore(gate, 'resolve', (signal) =>
    gate.store.resolve({ scope: ask.scope, key: ask.key }, response, signal),
  );
  if (settled === true) return 'stored';
  const verdict = await begin(gate, ask);
  if (verdict === UNANSWERED) return { problem: outcomeUnknown() };
  if (typeof verdict === 'object' && 'new' in verdict) {
    return (await finishHold(gate, verdict.new, response)) === true ? 'stored' : { problem: outcomeUnknown() };
  }
  const refusal = refusalOf(verdict);
  if ('replay' in refusal && sameOutcome(refusal.replay, response)) return 'stored';
  announceFor(gate, claim, { name: 'guard_contradicted', status: response.status });
  return refusal;
}

function sameOutcome(stored: StoredResponse, ours: StoredResponse): boolean {
  return sameResponse(stored, ours) && isBodyOmitted(stored) === isBodyOmitted(ours);
}
