import { LeaseholdError } from './errors.ts';
import { canonicalJson, sha256, type Json } from './json.ts';
import type { Content } from './record.ts';

/** The most bytes of content a record holds inline. */
export const MAX_INLINE_BYTES: number = 8 * 1024;

/** Where content too large for a record is kept, under its own retention. */
export interface ContentStore {
  /** Keeps the bytes and answers a reference. Called again with the same digest it may answer the same one. */
  put(content: { readonly sha256: string; readonly bytes: Uint8Array }, signal: AbortSignal): Promise<string>;
  /** The bytes behind a reference. */
  get(ref: string, signal: AbortSignal): Promise<Uint8Array>;
}

/**
 * A value as a record keeps it: inline up to `maxInlineBytes`, beyond that by reference if there is a store, else as a digest. What JSON cannot
 * carry is recorded as omitted, with the reason: the completion counts all the same.
 */
export async function stowResult(
  value: unknown,
  options: {
    readonly maxInlineBytes?: number;
    readonly store?: ContentStore;
    readonly signal?: AbortSignal;
  } = {},
): Promise<Content | undefined> {
  if (value === undefined) return undefined;
  let text: string;
  try {
    text = canonicalJson(value);
  } catch (error) {
    return { omitted: error instanceof Error ? error.message.slice(0, 200) : 'not JSON' };
  }
  const bytes = new TextEncoder().encode(text);
  if (bytes.byteLength <= (options.maxInlineBytes ?? MAX_INLINE_BYTES)) return { inline: JSON.parse(text) as Json };
  const digest = { sha256: sha256(bytes), bytes: bytes.byteLength };
  if (!options.store) return digest;
  const signal = options.signal ?? new AbortController().signal;
  return { ...digest, ref: await options.store.put({ sha256: digest.sha256, bytes }, signal) };
}

/**
 * A value that a later attempt has to read again, such as a checkpoint: like {@link stowResult}, but a digest alone will not do.
 *
 * @throws LeaseholdError `content-too-large` or `not-json`, naming `what`.
 */
export async function stowNeeded(
  what: string,
  value: unknown,
  options: { readonly maxInlineBytes?: number; readonly store?: ContentStore; readonly signal: AbortSignal },
): Promise<Content> {
  const text = canonicalJson(value === undefined ? null : value, what);
  const content = await stowResult(JSON.parse(text), options);
  if (content && 'inline' in content) return content;
  if (content && 'ref' in content && content.ref !== undefined) return content;
  const size = new TextEncoder().encode(text).byteLength;
  throw new LeaseholdError(
    'content-too-large',
    `${what} has ${size} bytes; a record holds ${options.maxInlineBytes ?? MAX_INLINE_BYTES}. Keep a reference in it, or configure a content store.`,
    { field: what },
  );
}

/** The value of content that was stowed. */
export async function readContent(
  content: Content | undefined,
  store: ContentStore | undefined,
  signal: AbortSignal,
): Promise<Json | undefined> {
  if (!content || 'omitted' in content) return undefined;
  if ('inline' in content) return content.inline;
  if (content.ref === undefined || !store) return undefined;
  const bytes = await store.get(content.ref, signal);
  if (sha256(bytes) !== content.sha256)
    throw new LeaseholdError(
      'unavailable',
      `The content store answered other bytes for ${content.ref} than were kept.`,
    );
  return JSON.parse(new TextDecoder().decode(bytes)) as Json;
}
