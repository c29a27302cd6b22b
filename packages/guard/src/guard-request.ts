import type { GuardHold } from '@leasehold/core';
import { admit, type Admitted, type Refusal } from './admission.ts';
import type { Claim } from './claim.ts';
import { trackContext, type GuardContext } from './context.ts';
import { errorClass } from './events.ts';
import { announceFor, keyId, type Gate } from './gate.ts';
import { finishHold, keepHold } from './hold.ts';
import { identify, type GuardedRequest, type Identified } from './identify.ts';
import { isNothingHappened } from './nothing-happened.ts';
import { problemResponse, problemStatus, type Problem } from './problem.ts';
import { settleResponse } from './settle.ts';
import { captureResponse, replayResponse, saysWhatHappened, type Captured } from './stored-response.ts';

/**
 * The guarded handler, as an adapter starts it. Without `held` nothing of its answer will be stored: an adapter that cannot have it as a
 * Response lets the handler answer by itself, and returns any.
 */
export type GuardedRun = (context: GuardContext, held: boolean) => Promise<Response>;

/**
 * Guards one request, whatever server it came through: the part that every adapter shares. Answers instead of `run`, or runs it once
 * under a hold and stores its response before answering with it.
 *
 * Rejects with what `run` threw (the key is then in doubt, or free if nothing happened), and with what the `identity` hook threw.
 */
export async function guardRequest<Native>(
  gate: Gate<Native>,
  request: GuardedRequest<Native>,
  run: GuardedRun,
): Promise<Response> {
  const found = await identify(gate, request);
  if (found === undefined) return run(trackContext(undefined, undefined).context, false);
  if ('problem' in found) return refuse(gate, undefined, found, run);
  const outcome = await admit(gate, found, request.native);
  return 'hold' in outcome ? runHeld(gate, found, outcome, run) : refuse(gate, found.claim, outcome, run);
}

/** Answers with the refusal; observing, reports it and runs the handler all the same. */
async function refuse<Native>(
  gate: Gate<Native>,
  claim: Claim | undefined,
  refusal: Refusal,
  run: GuardedRun,
): Promise<Response> {
  if (gate.settings.mode === 'enforce') return answerRefusal(gate, claim, refusal);
  const { problem } = refusal as { readonly problem?: Problem };
  announceFor(gate, claim, {
    name: 'guard_observed',
    problem: problem?.name ?? 'replay',
    ...(problem?.field === undefined ? {} : { field: problem.field }),
    ...(problem?.highest === undefined ? {} : { highest: problem.highest }),
  });
  return run(trackContext(claim, undefined).context, false);
}

/** The answer to a request that is not run, announced. */
export function answerRefusal<Native>(gate: Gate<Native>, claim: Claim | undefined, refusal: Refusal): Response {
  if ('replay' in refusal) {
    announceFor(gate, claim, { name: 'guard_replayed', problem: 'replay', status: refusal.replay.status });
    return replayResponse(refusal.replay);
  }
  const { name, field, highest } = refusal.problem;
  announceFor(gate, claim, {
    name: 'guard_refused',
    problem: name,
    status: problemStatus(name),
    ...(field === undefined ? {} : { field }),
    ...(highest === undefined ? {} : { highest }),
  });
  return problemResponse(refusal.problem);
}

async function runHeld<Native>(
  gate: Gate<Native>,
  found: Identified,
  admitted: Admitted,
  run: GuardedRun,
): Promise<Response> {
  const { claim, ask } = found;
  const { clock, maxStoredBytes } = gate.settings;
  const { hold, sentAt } = admitted;
  const startedAt = clock.monotonic();
  const kept = keepHold(gate, hold, sentAt, (cause) => announceFor(gate, claim, { name: 'guard_hold_lost', cause }));
  // Observing changes nothing for the handler: a lost hold is announced, but aborts nothing.
  const { context, marked } = trackContext(claim, gate.settings.mode === 'enforce' ? kept : undefined);
  const leave = countRun(gate.running, keyId(ask));
  announceFor(gate, claim, { name: 'guard_admitted' });
  try {
    let captured: Captured;
    try {
      captured = await captureResponse(await run(context, true), maxStoredBytes);
    } catch (error) {
      kept.stop();
      const free = marked() || isNothingHappened(error);
      await endWithout(gate, found, hold, free, {
        errorClass: errorClass(error),
        durationMs: clock.monotonic() - startedAt,
      });
      if (isNothingHappened(error)) return answerRefusal(gate, claim, { problem: nothingHappened() });
      throw error;
    }
    kept.stop();
    const { stored, answer } = captured;
    const ended = { status: stored.status, durationMs: clock.monotonic() - startedAt };
    const free = marked() && stored.status >= 300;
    if (free || !saysWhatHappened(stored.status)) {
      await endWithout(gate, found, hold, free, ended);
      return answer;
    }
    const outcome = await settleResponse(gate, found, hold, stored);
    if (outcome === 'stored') announceFor(gate, claim, { name: 'guard_stored', ...ended });
    if (outcome === 'stored' || gate.settings.mode === 'observe') return answer;
    await answer.body?.cancel();
    return answerRefusal(gate, claim, outcome);
  } finally {
    kept.stop();
    leave();
  }
}

/** Ends a run that has nothing to store: frees the key if nothing happened, else lets the hold lapse into doubt. */
async function endWithout<Native>(
  gate: Gate<Native>,
  found: Identified,
  hold: GuardHold,
  free: boolean,
  ended: { readonly status?: number; readonly errorClass?: string; readonly durationMs: number },
): Promise<void> {
  // Without `free` the rest of the hold is left to run out: a write that the handler gave up on has that long to land before anyone resolves.
  const freed = free && (await finishHold(gate, hold, 'free')) === true;
  announceFor(gate, found.claim, { name: freed ? 'guard_freed' : 'guard_left_in_doubt', ...ended });
}

/** The answer to a {@link NothingHappened}. */
export function nothingHappened(): Problem {
  return {
    name: 'nothing-happened',
    detail: 'The receiver changed nothing. Repeat the request with the same key.',
    retryAfterSeconds: 5,
  };
}

function countRun(running: Map<string, number>, id: string): () => void {
  running.set(id, (running.get(id) ?? 0) + 1);
  return () => {
    const left = (running.get(id) ?? 1) - 1;
    if (left > 0) running.set(id, left);
    else running.delete(id);
  };
}
