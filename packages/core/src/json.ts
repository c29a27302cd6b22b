import { createHash } from 'node:crypto';
import { LeaseholdError } from './errors.ts';

const MAX_DEPTH = 256;

/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/**
 * Canonical JSON text: object keys sorted by UTF-16 code unit (never by locale), no white space, arrays in order
 * (RFC 8785 for the values JSON can hold). Two objects that differ only in key order give the same text.
 *
 * @throws LeaseholdError `not-json` for functions, symbols, bigints, non-finite numbers, cycles and more than 256 levels, naming the path.
 */
export function canonicalJson(value: unknown, path = '$'): string {
  return write(value, path, []);
}

function write(value: unknown, path: string, above: readonly object[]): string {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw notJson(path, `the number ${value}`);
    return JSON.stringify(value);
  }
  if (typeof value !== 'object') throw notJson(path, `a ${typeof value}`);
  if (above.length >= MAX_DEPTH) throw notJson(path.slice(0, 40), `more than ${MAX_DEPTH} levels of nesting`);
  if (above.includes(value)) throw notJson(path, 'a reference to one of its own parents');
  const toJson = (value as { readonly toJSON?: unknown }).toJSON;
  const plain: unknown = typeof toJson === 'function' ? Reflect.apply(toJson, value, []) : value;
  if (plain !== value) return write(plain, path, [...above, value]);
  const inside = [...above, value];
  if (Array.isArray(value)) {
    return `[${value.map((item, index) => write(item === undefined ? null : item, `${path}[${index}]`, inside)).join(',')}]`;
  }
  const fields: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined) fields.push(`${JSON.stringify(key)}:${write(item, `${path}.${key}`, inside)}`);
  }
  return `{${fields.join(',')}}`;
}

function notJson(path: string, found: string): LeaseholdError {
  return new LeaseholdError('not-json', `${path} holds ${found}, which JSON cannot carry; pass plain data instead.`, {
    field: path,
  });
}

/** Lower-case hex SHA-256 of text (as UTF-8) or bytes. */
export function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/** SHA-256 of the canonical JSON of `value`; `undefined` hashes like `null`. */
export function hashJson(value: unknown): string {
  return sha256(canonicalJson(value === undefined ? null : value));
}
