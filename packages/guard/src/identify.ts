import { canonicalJson, isLeaseholdError, LeaseholdError, type GuardAsk, type Json } from '@leasehold/core';
import { createHash } from 'node:crypto';
import {
  fieldsOfHeaders,
  fieldsOfJson,
  readClaim,
  storeScope,
  fenceOf,
  type Claim,
  type ClaimFields,
} from './claim.ts';
import { errorClass } from './events.ts';
import { announceFor, type Gate } from './gate.ts';
import type { Extracted } from './options.ts';
import type { Problem } from './problem.ts';

/** What a guard needs of a request, whatever server it came through. */
export interface GuardedRequest<Native> {
  readonly method: string;
  /** Path and query, as they came. */
  readonly path: string;
  readonly headers: { get(name: string): string | null };
  /** The whole body, or undefined when it is longer than `max` bytes. Called more than once. */
  body(max: number): Promise<Uint8Array | undefined>;
  /** The server's own request object, for the hooks. */
  readonly native: Native;
}

/** What a request asks of the store, before it names a hold. */
export type Question = Omit<GuardAsk, 'hold'>;

/** A claim, and the question it makes to the store. */
export interface Identified {
  readonly claim: Claim;
  readonly ask: Question;
}

/** The claim of a request; undefined where none is required and none was made. */
export async function identify<Native>(
  gate: Gate<Native>,
  request: GuardedRequest<Native>,
): Promise<Identified | undefined | { readonly problem: Problem }> {
  const { settings } = gate;
  const extracted = settings.extract ? await extract(gate, request, settings.extract) : undefined;
  if (extracted && 'problem' in extracted) return extracted;
  const reading = readClaim(extracted ? extracted.fields : fieldsOfHeaders(request.headers), settings);
  if ('problem' in reading) return reading;
  const { claim } = reading;
  if (!claim) return undefined;
  const content = extracted?.content ?? (await readBody(request, settings.maxBodyBytes));
  if ('problem' in content) return content;
  const ask = {
    scope: storeScope(settings, claim, request.native),
    ...(claim.token === undefined ? {} : { token: claim.token }),
    key: claim.key,
    requestHash: hashRequest(request.method, request.path, content),
    holdMs: settings.holdMs,
    retentionMs: settings.retentionMs,
  };
  return { claim, ask };
}

/** The body within the limit, or what is wrong with it. */
export async function readBody<Native>(
  request: GuardedRequest<Native>,
  max: number,
): Promise<Uint8Array | { readonly problem: Problem }> {
  try {
    const body = await request.body(max);
    if (body) return body;
  } catch (error) {
    if (isLeaseholdError(error)) throw error;
    return malformedBody('The body ended early. Nothing was run; send the request again.');
  }
  return {
    problem: {
      name: 'body-too-large',
      field: 'body',
      detail: `The body is longer than the ${max} bytes this receiver takes.`,
    },
  };
}

/** A problem with the body itself. */
export function malformedBody(detail: string): { readonly problem: Problem } {
  return { problem: { name: 'malformed-body', field: 'body', detail } };
}

/** Strict JSON in UTF-8, or undefined. */
export function parseJson(bytes: Uint8Array): Json | undefined {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Json;
  } catch {
    return undefined;
  }
}

interface FromBody {
  readonly fields: ClaimFields;
  readonly content: Uint8Array;
}

async function extract<Native>(
  gate: Gate<Native>,
  request: GuardedRequest<Native>,
  hook: (request: Native, body: Json) => Extracted,
): Promise<FromBody | { readonly problem: Problem }> {
  const body = await readBody(request, gate.settings.maxBodyBytes);
  if ('problem' in body) return body;
  const json = parseJson(body);
  if (json === undefined) return malformedBody('The body is not JSON in UTF-8.');
  let found: Extracted;
  try {
    found = hook(request.native, json);
  } catch (error) {
    // A hook that reads `body.execution.key` throws when the body is of another shape: that is the caller's mistake.
    announceFor(gate, undefined, { name: 'guard_hook_failed', operation: 'extract', errorClass: errorClass(error) });
    return malformedBody('The body has not the members this receiver takes scope, fence and key from.');
  }
  return { fields: fieldsOfJson({ ...found, fence: digits(found.fence) }), content: contentOf(found, body) };
}

function digits(fence: Extracted['fence']): unknown {
  return typeof fence === 'string' ? fenceOf(fence) : fence;
}

function contentOf(found: Extracted, body: Uint8Array): Uint8Array {
  if (found.content instanceof Uint8Array) return found.content;
  if (found.content !== undefined) return new TextEncoder().encode(canonicalJson(found.content));
  if (found.fence === undefined) return body;
  throw new LeaseholdError(
    'bad-option',
    'extract(request, body) returned a fence without content: return the part of the body that says what is asked for as content, without the fence.',
    { field: 'extract' },
  );
}

/** Covers method, path and content. Neither method nor path can hold a line break. */
function hashRequest(method: string, path: string, content: Uint8Array): string {
  return createHash('sha256').update(`${method}\n${path}\n`).update(content).digest('hex');
}
