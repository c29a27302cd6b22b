import { hash } from 'node:crypto';
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
  return write(value, { value, key: path, depth: 0 });
}

/** Where in the value we are: only an error needs the path as text. */
interface Place {
  readonly value: unknown;
  /** None for what a `toJSON` gave: it stands in the place of its object. */
  readonly key?: string | number;
  readonly depth: number;
  readonly above?: Place;
}

function write(value: unknown, place: Place): string {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw notJson(pathOf(place), `the number ${value}`);
    return JSON.stringify(value);
  }
  if (typeof value !== 'object') throw notJson(pathOf(place), `a ${typeof value}`);
  if (place.depth >= MAX_DEPTH) throw notJson(pathOf(place).slice(0, 40), `more than ${MAX_DEPTH} levels of nesting`);
  for (let above = place.above; above; above = above.above)
    if (above.value === value) throw notJson(pathOf(place), 'a reference to one of its own parents');
  const toJson = (value as { readonly toJSON?: unknown }).toJSON;
  const plain: unknown = typeof toJson === 'function' ? Reflect.apply(toJson, value, []) : value;
  if (plain !== value) return write(plain, { value: plain, depth: place.depth + 1, above: place });
  const depth = place.depth + 1;
  if (Array.isArray(value)) {
    return `[${value.map((item, key) => write(item === undefined ? null : item, { value: item, key, depth, above: place })).join(',')}]`;
  }
  const fields: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined)
      fields.push(`${JSON.stringify(key)}:${write(item, { value: item, key, depth, above: place })}`);
  }
  return `{${fields.join(',')}}`;
}

function pathOf({ key, above }: Place): string {
  if (!above) return String(key);
  const step = typeof key === 'number' ? `[${key}]` : `.${key}`;
  return key === undefined ? pathOf(above) : pathOf(above) + step;
}

function notJson(path: string, found: string): LeaseholdError {
  return new LeaseholdError('not-json', `${path} holds ${found}, which JSON cannot carry; pass plain data instead.`, {
    field: path,
  });
}

/** Sets an own property whatever its name, `__proto__` included: names may come from a message or a store. */
export function setOwn<Value>(target: Record<string, Value>, name: string, value: Value): void {
  if (name === '__proto__')
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  else target[name] = value;
}

/** Lower-case hex SHA-256 of text (as UTF-8) or bytes. */
export function sha256(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex');
}

/** SHA-256 of the canonical JSON of `value`; `undefined` hashes like `null`. */
export function hashJson(value: unknown): string {
  return value === undefined || value === null ? HASH_OF_NULL : sha256(canonicalJson(value));
}

const HASH_OF_NULL = sha256('null');
