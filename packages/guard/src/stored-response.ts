import type { StoredResponse } from '@leasehold/core';
import { collectBody } from './body.ts';
import { problemResponse } from './problem.ts';

/** Set on every answer that comes from the store instead of from the handler. */
export const REPLAY_HEADER = 'Idempotent-Replayed';

/** Stands in a stored response for a body that was too large to keep. */
const OMITTED_HEADER = 'leasehold-body-omitted';

/** Statuses whose answers have no body. */
export const NULL_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

// Never stored: what belongs to one connection or one answer (RFC 9110, 7.6.1), cookies (they are the first caller's session, and a
// replay may go to another process), and our own marks, which a handler must not be able to forge.
const NOT_KEPT: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'date',
  'set-cookie',
  'set-cookie2',
  OMITTED_HEADER,
  REPLAY_HEADER.toLowerCase(),
]);

/** A handler's response, taken apart: what to store and what to answer. */
export interface Captured {
  readonly stored: StoredResponse;
  /** The handler's own status, headers and body, unread. */
  readonly answer: Response;
}

/**
 * Reads a response to its end, so that its success is certain before it is stored. A body longer than `maxStoredBytes` is not kept: the
 * stored response says so, and the rest of it streams through to the first caller.
 */
export async function captureResponse(response: Response, maxStoredBytes: number): Promise<Captured> {
  const { status, statusText, headers } = response;
  // `Response.error()` has status 0; anything else that is no final status cannot be given to a caller either.
  if (!isFinalStatus(status)) throw new TypeError(`The handler returned a response with status ${String(status)}.`);
  // The rest of a used body would be stored, and replayed, as if it were the whole.
  if (response.bodyUsed) throw new TypeError('The handler returned a response whose body it had already read from.');
  const body = await collectBody(response.body, maxStoredBytes);
  const init = { status, statusText, headers };
  if ('over' in body) {
    return { stored: withoutBody(status, keptHeaders(headers)), answer: new Response(body.over, init) };
  }
  return {
    stored: { status, headers: keptHeaders(headers), body: body.bytes },
    answer: new Response(NULL_BODY.has(status) ? null : body.bytes, init),
  };
}

/** A response given as data, made fit for the store: headers filtered, body capped. */
export function storableResponse(response: StoredResponse, maxStoredBytes: number): StoredResponse {
  if (!isFinalStatus(response.status))
    throw new TypeError(`A response was given with status ${String(response.status)}.`);
  const headers = keptHeaders(new Headers({ ...response.headers }));
  if (response.body.byteLength > maxStoredBytes) return withoutBody(response.status, headers);
  return { status: response.status, headers, body: response.body };
}

/** False for 5xx and 429: they do not say what happened, so they are never stored. */
export function saysWhatHappened(status: number): boolean {
  return status < 500 && status !== 429;
}

/** Whether the body of this stored response was too large to keep. */
export function isBodyOmitted(stored: StoredResponse): boolean {
  return Object.hasOwn(stored.headers, OMITTED_HEADER);
}

/** The headers of a stored response without our own marks. */
export function publicHeaders(stored: StoredResponse): Record<string, string> {
  return Object.fromEntries(Object.entries(stored.headers).filter(([name]) => name !== OMITTED_HEADER));
}

/**
 * The answer to a known key: the stored status, headers and body. Where the body was not kept it is a 410 problem: the call must not be
 * made again (so neither 5xx nor a free key), and an empty body under the old status would be taken for the real one.
 */
export function replayResponse(stored: StoredResponse): Response {
  if (isBodyOmitted(stored)) {
    const problem = problemResponse({
      name: 'response-not-kept',
      detail:
        'The request was carried out once, and its response was longer than the guard keeps. Read the outcome from the receiver; do not send it again.',
      originalStatus: stored.status,
    });
    problem.headers.set(REPLAY_HEADER, 'true');
    return problem;
  }
  const headers = new Headers({ ...stored.headers, [REPLAY_HEADER]: 'true' });
  const body = NULL_BODY.has(stored.status) ? null : Uint8Array.from(stored.body);
  return new Response(body, { status: stored.status, headers });
}

/** Same status and same bytes. */
export function sameResponse(a: StoredResponse, b: StoredResponse): boolean {
  return a.status === b.status && Buffer.compare(a.body, b.body) === 0;
}

function withoutBody(status: number, headers: Record<string, string>): StoredResponse {
  return { status, headers: { ...headers, [OMITTED_HEADER]: 'true' }, body: new Uint8Array(0) };
}

function isFinalStatus(status: unknown): boolean {
  return Number.isInteger(status) && (status as number) >= 200 && (status as number) <= 599;
}

function keptHeaders(headers: Headers): Record<string, string> {
  const named = new Set((headers.get('connection') ?? '').split(',').map((name) => name.trim().toLowerCase()));
  return Object.fromEntries([...headers].filter(([name]) => !NOT_KEPT.has(name) && !named.has(name)));
}
