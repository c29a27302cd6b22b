import { LeaseholdError, sha256 } from '@leasehold/core';
import type { GuardSettings, Requirement } from './options.ts';
import type { Problem } from './problem.ts';

/** The request headers a guard reads. */
export const SCOPE_HEADER = 'X-Execution-Scope';
/** The fencing token. */
export const FENCE_HEADER = 'X-Execution-Fence';
/** The effect's key. */
export const KEY_HEADER = 'Idempotency-Key';

/** Who asks for what: checked, and as the caller named it. */
export interface Claim {
  readonly scope: string;
  readonly token?: number;
  readonly key: string;
}

/** A claim; none, where none is required; or what is wrong with it. */
export type ClaimReading = { readonly claim: Claim | undefined } | { readonly problem: Problem };

/** The three fields as they were found, with the names to call them by in a problem. */
export interface ClaimFields {
  readonly scope: Field;
  readonly fence: Field;
  readonly key: Field;
}

interface Field {
  readonly name: string;
  /** Undefined: not there. */
  readonly value: unknown;
}

interface Rules {
  readonly require: Requirement;
  readonly maxHeaderLength: number;
}

/** The fields as headers bear them. Scope and key may be written bare or as a quoted string (RFC 9651, 3.3.3). */
export function fieldsOfHeaders(headers: { get(name: string): string | null }): ClaimFields {
  const field = (name: string, read: (text: string) => unknown): Field => {
    const text = headers.get(name);
    return { name, value: text === null ? undefined : read(text) };
  };
  return {
    scope: field(SCOPE_HEADER, unquoted),
    fence: field(FENCE_HEADER, fenceOf),
    key: field(KEY_HEADER, unquoted),
  };
}

/** A token written in digits; NaN when it is anything else. */
export function fenceOf(text: string): number {
  return /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN;
}

/** The fields as members of a JSON body. */
export function fieldsOfJson(found: {
  readonly scope?: unknown;
  readonly fence?: unknown;
  readonly key?: unknown;
}): ClaimFields {
  return {
    scope: { name: 'scope', value: found.scope },
    fence: { name: 'fence', value: found.fence },
    key: { name: 'key', value: found.key },
  };
}

/** Checks the fields. The problem names the field and the remedy and repeats nothing of its value. */
export function readClaim(fields: ClaimFields, rules: Rules): ClaimReading {
  const { scope, fence, key } = fields;
  if (key.value === undefined) {
    // A fence is compared in one conditional write with the key; alone it would be silently ignored.
    if (rules.require === 'none' && fence.value === undefined) return { claim: undefined };
    return missing(key.name, 'one key per effect, the same at every try');
  }
  if (rules.require === 'fence+key' && fence.value === undefined) {
    return missing(fence.name, 'the fencing token of the lease, a whole number');
  }
  for (const field of [scope, key]) {
    if (field.value === undefined) continue;
    const fault = textFault(field.value, rules.maxHeaderLength);
    if (fault) return malformed(field.name, fault);
  }
  if (fence.value !== undefined && !(Number.isSafeInteger(fence.value) && (fence.value as number) > 0)) {
    return malformed(fence.name, 'send it once, as a whole number from 1 to 2^53-1, in digits only.');
  }
  const claimed = { scope: (scope.value ?? key.value) as string, key: key.value as string };
  return { claim: fence.value === undefined ? claimed : { ...claimed, token: fence.value as number } };
}

/** The scope as the store knows it. A hash keeps the caller's identity out of the store and cannot be forged by a scope. */
export function storeScope<Native>(settings: GuardSettings<Native>, claim: Claim, native: Native): string {
  if (!settings.identity) return claim.scope;
  const identity: unknown = settings.identity(native);
  if (typeof identity !== 'string' || identity === '') {
    throw new LeaseholdError('bad-request', 'identity(request) gave no text; mount the guard behind authentication.', {
      field: 'identity',
    });
  }
  return `${sha256(identity)}/${claim.scope}`;
}

function missing(field: string, what: string): ClaimReading {
  return { problem: { name: 'missing-field', field, detail: `${field} is missing: send ${what}.` } };
}

function malformed(field: string, remedy: string): ClaimReading {
  return { problem: { name: 'malformed-field', field, detail: `${field} cannot be used: ${remedy}` } };
}

function textFault(value: unknown, max: number): string | undefined {
  if (typeof value !== 'string' || !/^[\x20-\x7e]+$/.test(value)) {
    return 'send it once, as printable ASCII text that is not empty; in a header, put it in double quotes if it has spaces, commas or quotes.';
  }
  return value.length > max ? `the longest allowed is ${max} characters.` : undefined;
}

/** The text of a bare or quoted header, or undefined-like `null` when it is neither. Two headers of one name arrive joined by a comma. */
function unquoted(text: string): string | null {
  if (/^[\x21\x23-\x2b\x2d-\x7e]+$/.test(text)) return text;
  const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/.exec(text);
  return quoted ? (quoted[1] as string).replaceAll(/\\(["\\])/g, '$1') : null;
}
