import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MAX_INLINE_BYTES, readContent, stowNeeded, stowResult, type ContentStore } from '../src/content.ts';
import type { Json } from '../src/json.ts';

const signal = new AbortController().signal;

function store(): ContentStore & { readonly kept: Map<string, Uint8Array> } {
  const kept = new Map<string, Uint8Array>();
  return {
    kept,
    async put({ sha256, bytes }) {
      kept.set(`kept/${sha256}`, bytes);
      return `kept/${sha256}`;
    },
    get: async (ref) => kept.get(ref) ?? new Uint8Array(),
  };
}

test('what is stowed is read back as the same, inline or by reference', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue() as fc.Arbitrary<Json>, fc.nat(60), async (value, maxInlineBytes) => {
      const contentStore = store();
      const plain = JSON.parse(JSON.stringify(value)) as Json;
      const stowed = await stowResult(value, { maxInlineBytes, store: contentStore, signal });
      expect(await readContent(stowed, contentStore, signal)).toEqual(plain);
      const size = new TextEncoder().encode(JSON.stringify(value)).byteLength;
      expect(stowed && 'inline' in stowed).toBe(size <= maxInlineBytes);
      const needed = await stowNeeded('checkpoint', value, { maxInlineBytes, store: contentStore, signal });
      expect(needed).toEqual(stowed);
    }),
  );
});

describe('what is too large to be kept inline', () => {
  const large = '中'.repeat(MAX_INLINE_BYTES / 2);

  test('is measured in bytes', async () => {
    expect(large.length).toBeLessThan(MAX_INLINE_BYTES);
    expect(await stowResult(large, { signal })).toEqual({
      sha256: expect.any(String) as string,
      bytes: expect.any(Number) as number,
    });
    expect(await stowResult('x'.repeat(MAX_INLINE_BYTES - 2), { signal })).toHaveProperty('inline');
  });

  test('is a digest where there is no store: enough for a result, not for what a later attempt must read', async () => {
    const digest = await stowResult(large, { signal });
    expect(await readContent(digest, undefined, signal)).toBeUndefined();
    const error: unknown = await stowNeeded('checkpoint', large, { signal }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'content-too-large', field: 'checkpoint' });
    expect((error as Error).message).toContain('configure a content store');
  });
});

test('what JSON cannot carry is omitted with the reason from a result, and refused in a checkpoint by its path', async () => {
  expect(await stowResult({ a: 1n }, { signal })).toEqual({
    omitted: expect.stringContaining('$.a holds a bigint') as string,
  });
  expect(await readContent({ omitted: 'x' }, undefined, signal)).toBeUndefined();
  const error: unknown = await stowNeeded('checkpoint', { a: 1n }, { signal }).catch((caught: unknown) => caught);
  expect(error).toMatchObject({ code: 'not-json', field: 'checkpoint.a' });
});
