import { badOption, LeaseholdError, type Json } from '@leasehold/core';
import type { ReadBackContext } from './effect-options.ts';

/** Where a guarded receiver answers what it knows of a key. Data, so that another process can close the task with it. */
export interface GuardedLook {
  readonly kind: 'guarded';
  readonly url: string;
  /** Sent with every look, such as an `authorization`; never stored. */
  readonly headers?: Readonly<Record<string, string>> | (() => Promise<Readonly<Record<string, string>>>);
}

/** The response a guarded receiver stored for the effect's key. */
export interface LookedUp {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The body as JSON. Throws when it is not. */
  json(): Json;
}

/** What the look endpoint said. */
export type LookAnswer =
  | { readonly state: 'absent' | 'in-progress' | 'in-doubt' }
  | { readonly state: 'stale'; readonly highest: number }
  | { readonly state: 'done'; readonly response: LookedUp };

const DEFAULT_PATH = '/.well-known/leasehold/look';

/**
 * Reads back from a guarded receiver. `url` is the receiver's origin (the look endpoint is at `/.well-known/leasehold/look` there)
 * or, with a path, the look endpoint itself. `headers` go with every look: an authentication, say, asked for anew each time if it is a function.
 * A sweep in another process does not have them; what it cannot look at there stays in doubt.
 *
 * @throws LeaseholdError `bad-option` for something that is not an http(s) URL.
 */
export function guarded(url: string, options: Pick<GuardedLook, 'headers'> = {}): GuardedLook {
  if (!URL.canParse(url))
    throw badOption('guarded(url)', url, "give an http(s) URL, such as 'https://tickets.internal'.");
  const parsed = new URL(url);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')
    throw badOption('guarded(url)', url, 'the URL has to be http or https.');
  if (parsed.pathname === '/') parsed.pathname = DEFAULT_PATH;
  return { kind: 'guarded', url: parsed.href, ...options };
}

/** Asks a look endpoint. Throws when it does not answer in its format: then nothing is known. */
export async function lookUp(
  { url, headers }: Pick<GuardedLook, 'url' | 'headers'>,
  context: Pick<ReadBackContext, 'scope' | 'fence' | 'idempotencyKey' | 'headers' | 'signal'>,
): Promise<LookAnswer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      ...(typeof headers === 'function' ? await headers() : headers),
      ...context.headers,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ scope: context.scope, fence: context.fence, key: context.idempotencyKey }),
    signal: context.signal,
    redirect: 'error',
  });
  const answer = response.ok ? ((await response.json()) as Json) : await response.body?.cancel();
  const state =
    typeof answer === 'object' && answer !== null && !Array.isArray(answer) ? (answer as Record<string, Json>) : {};
  switch (state['state']) {
    case 'absent':
    case 'in-progress':
    case 'in-doubt':
      return { state: state['state'] };
    case 'stale':
      if (Number.isSafeInteger(state['highest'])) return { state: 'stale', highest: state['highest'] as number };
      break;
    case 'done': {
      const stored = readStored(state['response']);
      if (stored) return { state: 'done', response: stored };
      break;
    }
    default:
  }
  throw new LeaseholdError(
    'unavailable',
    `The look endpoint answered ${response.status} in a format it should not; whether the effect exists is not known.`,
  );
}

function readStored(value: Json | undefined): LookedUp | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { status, headers, body, bodyEncoding, bodyOmitted } = value as Record<string, Json>;
  if (typeof status !== 'number' || typeof body !== 'string') return undefined;
  const bytes = Buffer.from(body, bodyEncoding === 'base64' ? 'base64' : 'utf8');
  return {
    status,
    headers: (headers ?? {}) as Record<string, string>,
    body: bytes,
    json() {
      if (bodyOmitted === true) {
        throw new LeaseholdError(
          'unavailable',
          'The receiver did not keep this body (it was too large); build the receipt from status and headers.',
        );
      }
      return JSON.parse(new TextDecoder().decode(bytes)) as Json;
    },
  };
}
