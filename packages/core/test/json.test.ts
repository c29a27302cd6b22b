import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isLeaseholdError } from '../src/errors.ts';
import { canonicalJson, hashJson, sha256, type Json } from '../src/json.ts';

/** The same value with the keys of every object in another order. */
function reversed(value: Json): Json {
  if (Array.isArray(value)) return (value as readonly Json[]).map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toReversed();
  return Object.fromEntries(entries.map(([key, item]) => [key, reversed(item)]));
}
const anyJson = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;

test('case 20: the order of keys changes nothing, whatever the keys', () => {
  fc.assert(
    fc.property(anyJson, (value) => {
      expect(canonicalJson(reversed(value))).toBe(canonicalJson(value));
      expect(hashJson(reversed(value))).toBe(hashJson(value));
    }),
  );
});

test('case 20: keys are ordered by code unit and not by a locale; the order of arrays counts', () => {
  expect(canonicalJson({ z: 1, é: 2, Z: 3, '\u{1F600}': 4, '\uFB33': 5, '10': 6, '9': 7 })).toBe(
    '{"10":6,"9":7,"Z":3,"z":1,"é":2,"\u{1F600}":4,"\uFB33":5}',
  );
  expect(hashJson([1, 2])).not.toBe(hashJson([2, 1]));
});

test('the text says the same as JSON does, and two values have one text exactly when they are equal', () => {
  const small = fc.oneof(fc.constantFrom<Json>(null, 0, '0', [], {}, [0], { a: 0 }, { a: [0] }), anyJson);
  fc.assert(
    fc.property(small, small, (one, other) => {
      const plain = JSON.parse(JSON.stringify(one)) as Json;
      expect(JSON.parse(canonicalJson(one))).toEqual(plain);
      const equal = isDeepStrictEqual(plain, JSON.parse(JSON.stringify(other)));
      expect(canonicalJson(one) === canonicalJson(other)).toBe(equal);
    }),
  );
});

test('what JSON leaves out or turns into null does the same here', () => {
  const date = new Date(0);
  expect(canonicalJson({ b: undefined, a: [undefined, 1], d: date, n: -0 })).toBe(
    JSON.stringify({ a: [undefined, 1], d: date, n: -0 }),
  );
  expect(hashJson(undefined)).toBe(sha256('null'));
  expect(canonicalJson({ ['__proto__']: 1, constructor: 2 })).toBe('{"__proto__":1,"constructor":2}');
});

describe('what JSON cannot carry', () => {
  const cycle: { list: unknown[] } = { list: [] };
  cycle.list.push(cycle);
  const endless: { toJSON(): unknown } = { toJSON: () => ({ toJSON: endless.toJSON }) };
  const deep = (levels: number): Json => (levels === 0 ? 1 : [deep(levels - 1)]);
  test.each<readonly [string, unknown, string]>([
    ['a function', { a: () => 1 }, '$.a holds a function'],
    ['a symbol', [Symbol('s')], '$[0] holds a symbol'],
    ['a bigint', { a: { b: 1n } }, '$.a.b holds a bigint'],
    ['NaN', { a: Number.NaN }, '$.a holds the number NaN'],
    ['Infinity', [-Infinity], '$[0] holds the number -Infinity'],
    ['a cycle', cycle, '$.list[0] holds a reference to one of its own parents'],
    ['a toJSON that never ends', endless, 'levels of nesting'],
    ['257 levels', deep(257), 'more than 256 levels of nesting'],
  ])('%s is refused by its path', (_, value, message) => {
    try {
      canonicalJson(value);
      expect.unreachable('accepted');
    } catch (error) {
      expect(isLeaseholdError(error) && error.code).toBe('not-json');
      expect((error as Error).message).toContain(message);
    }
  });

  test('256 levels are carried, and the same object twice is no cycle', () => {
    expect(canonicalJson(deep(256))).toHaveLength(513);
    const twice = { a: 1 };
    expect(canonicalJson([twice, twice])).toBe('[{"a":1},{"a":1}]');
  });
});
