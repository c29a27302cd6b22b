import type { LookVerdict, StoredResponse } from '@leasehold/core';
import { answerRefusal } from './guard-request.ts';
import { storeUnavailable, type Refusal } from './admission.ts';
import { fieldsOfJson, readClaim, storeScope, type Claim } from './claim.ts';
import { settleDoubt } from './doubt.ts';
import { announceFor, callStore, UNANSWERED, type Gate } from './gate.ts';
import { malformedBody, parseJson, readBody, type GuardedRequest } from './identify.ts';
import { isBodyOmitted, publicHeaders } from './stored-response.ts';

/** What is posted to the look endpoint. Without a scope the key is the scope. */
export interface LookAsk {
  readonly scope?: string;
  readonly fence: number;
  readonly key: string;
}

/** A stored response as JSON. */
export interface LookedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly bodyEncoding: 'utf8' | 'base64';
  /** True when the body was too large to keep; `body` is then empty. */
  readonly bodyOmitted?: true;
}

/**
 * What the look endpoint answers, with status 200, to every well-formed ask. `absent`: it has not happened, and no request with a lower
 * token will be let in any more. `stale`: the ask itself bore a lower token than `highest`.
 */
export type LookAnswer =
  | { readonly state: 'absent' | 'in-progress' | 'in-doubt' }
  | { readonly state: 'stale'; readonly highest: number }
  | { readonly state: 'done'; readonly response: LookedResponse };

const MAX_LOOK_BYTES = 16 * 1024;
const ROUNDS = 3;
const POISON: readonly string[] = ['__proto__', 'constructor', 'prototype'];

/** Answers one request to the look endpoint. Refusals (400, 405, 413) and an unreachable store (503) are problems. */
export async function lookRequest<Native>(gate: Gate<Native>, request: GuardedRequest<Native>): Promise<Response> {
  const claim = await readAsk(gate, request);
  if ('problem' in claim) return answerRefusal(gate, undefined, claim);
  const state = await look(gate, claim, request.native);
  if (state === UNANSWERED) return answerRefusal(gate, claim, { problem: storeUnavailable() });
  announceFor(gate, claim, {
    name: 'guard_looked',
    state: state.state,
    ...('highest' in state ? { highest: state.highest } : {}),
  });
  return new Response(JSON.stringify(state), {
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  });
}

async function readAsk<Native>(
  gate: Gate<Native>,
  request: GuardedRequest<Native>,
): Promise<Required<Claim> | (Refusal & { readonly problem: unknown })> {
  if (request.method !== 'POST')
    return { problem: { name: 'method-not-allowed', detail: 'Post JSON with scope, fence and key.' } };
  const body = await readBody(request, MAX_LOOK_BYTES);
  if ('problem' in body) return body;
  const json = parseJson(body);
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return malformedBody('The body is not a JSON object in UTF-8; post {"scope", "fence", "key"}.');
  }
  const poison = POISON.find((name) => Object.hasOwn(json, name));
  if (poison !== undefined) {
    return {
      problem: {
        name: 'malformed-field',
        field: poison,
        detail: `${poison} has no place in a look; post {"scope", "fence", "key"}.`,
      },
    };
  }
  const own = (name: string): unknown =>
    Object.hasOwn(json, name) ? (json as Record<string, unknown>)[name] : undefined;
  const reading = readClaim(fieldsOfJson({ scope: own('scope'), fence: own('fence'), key: own('key') }), {
    require: 'fence+key',
    maxHeaderLength: gate.settings.maxHeaderLength,
  });
  return 'problem' in reading ? reading : (reading.claim as Required<Claim>);
}

async function look<Native>(
  gate: Gate<Native>,
  claim: Required<Claim>,
  native: Native,
): Promise<LookAnswer | typeof UNANSWERED> {
  const { mode } = gate.settings;
  const ask = { scope: storeScope(gate.settings, claim, native), token: claim.token, key: claim.key };
  for (let round = 0; round < ROUNDS; round++) {
    const verdict = await callStore(gate, 'look', (signal) => gate.store.look(ask, signal));
    if (verdict === UNANSWERED) return UNANSWERED;
    // An observing guard lets an older owner's late call through, so it cannot promise that what is absent stays absent.
    if (verdict === 'absent' && mode === 'observe') return { state: 'in-doubt' };
    if (typeof verdict === 'string' || !('inDoubt' in verdict)) return answerOf(verdict);
    const doubt = { scope: ask.scope, key: ask.key, hold: verdict.inDoubt };
    const outcome = await settleDoubt(gate, { doubt, claim, native });
    if (outcome === 'unanswered') return UNANSWERED;
    if (outcome === 'running') return { state: 'in-progress' };
    if (outcome === 'unknown') return { state: 'in-doubt' };
  }
  return { state: 'in-doubt' };
}

function answerOf(verdict: Exclude<LookVerdict, { readonly inDoubt: string }>): LookAnswer {
  if (typeof verdict === 'string') return { state: verdict };
  if ('stale' in verdict) return { state: 'stale', highest: verdict.stale };
  return { state: 'done', response: lookedResponse(verdict.previous) };
}

function lookedResponse(stored: StoredResponse): LookedResponse {
  return {
    status: stored.status,
    headers: publicHeaders(stored),
    ...encodeBody(stored.body),
    ...(isBodyOmitted(stored) ? { bodyOmitted: true } : {}),
  };
}

function encodeBody(bytes: Uint8Array): Pick<LookedResponse, 'body' | 'bodyEncoding'> {
  try {
    // Keeping the byte order mark, the text gives the same bytes back.
    return { body: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), bodyEncoding: 'utf8' };
  } catch {
    return { body: Buffer.from(bytes).toString('base64'), bodyEncoding: 'base64' };
  }
}
