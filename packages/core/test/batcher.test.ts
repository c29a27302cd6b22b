import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { batcher, type Batcher } from '../src/batcher.ts';
import { sleep, virtualClock, type VirtualClock } from '../src/clock.ts';
import { finish } from './lease-bench.ts';

interface Gathered {
  readonly batch: Batcher<number, number>;
  readonly clock: VirtualClock;
  readonly calls: readonly { readonly items: readonly number[]; readonly at: number }[];
}

/** Answers ten times the item, after `flushMs`. */
function gathering(
  options: {
    readonly maxItems?: number;
    readonly maxBytes?: number;
    readonly lingerMs?: number;
    readonly flushMs?: number;
  } = {},
): Gathered {
  const clock = virtualClock();
  const calls: { items: readonly number[]; at: number }[] = [];
  const batch = batcher<number, number>({
    clock,
    maxItems: options.maxItems ?? 3,
    lingerMs: options.lingerMs ?? 20,
    ...(options.maxBytes !== undefined && { maxBytes: options.maxBytes, sizeOf: (item: number) => item }),
    async flush(items) {
      calls.push({ items, at: clock.monotonic() });
      await sleep(clock, options.flushMs ?? 5);
      return items.map((item) => item * 10);
    },
  });
  return { batch, clock, calls };
}

describe('a batch leaves', () => {
  test('when it is full', async () => {
    const { batch, clock, calls } = gathering({ maxItems: 3 });
    const start = clock.monotonic();
    expect(await finish(clock, Promise.all([1, 2, 3, 4].map(batch.add)))).toEqual([10, 20, 30, 40]);
    expect(calls).toEqual([
      { items: [1, 2, 3], at: start },
      { items: [4], at: start + 20 },
    ]);
  });

  test('before an item that would make it too large, which may itself be larger than any batch', async () => {
    const { batch, clock, calls } = gathering({ maxItems: 9, maxBytes: 10 });
    await finish(clock, Promise.all([4, 6, 1, 50, 2].map(batch.add)));
    expect(calls.map(({ items }) => items)).toEqual([[4, 6], [1], [50], [2]]);
  });

  test('a while after its first item, however many follow', async () => {
    const { batch, clock, calls } = gathering({ maxItems: 9, lingerMs: 20 });
    const start = clock.monotonic();
    const first = batch.add(1);
    await clock.advance(15);
    const second = batch.add(2);
    await finish(clock, Promise.all([first, second]));
    expect(calls).toEqual([{ items: [1, 2], at: start + 20 }]);
  });
});

test('drain sends what is gathered at once and waits for what is on its way; close refuses what comes later', async () => {
  const { batch, clock } = gathering({ maxItems: 9, lingerMs: 1_000, flushMs: 50 });
  const items = [1, 2].map(batch.add);
  expect(batch.idle).toBe(false);
  const start = clock.monotonic();
  await finish(clock, batch.close());
  expect([clock.monotonic() - start, batch.idle, clock.pending]).toEqual([50, true, 0]);
  expect(await Promise.all(items)).toEqual([10, 20]);
  await expect(batch.add(3)).rejects.toMatchObject({ code: 'closed' });
});

test('each item has exactly one outcome, its own, whatever fails and whenever it was added', async () => {
  const action = fc.record({ waitMs: fc.nat(30), size: fc.nat(8), drain: fc.boolean() });
  const shape = fc.record({
    maxItems: fc.integer({ min: 1, max: 5 }),
    maxBytes: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
    lingerMs: fc.nat(25),
    flushMs: fc.nat(40),
    // Every how-manieth call fails, and every how-manieth answers short.
    fails: fc.integer({ min: 2, max: 5 }),
    short: fc.integer({ min: 2, max: 5 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { maxLength: 25 }),
      shape,
      async (actions, { maxItems, maxBytes, lingerMs, flushMs, fails, short }) => {
        const clock = virtualClock();
        const sent: { readonly id: number; readonly size: number }[][] = [];
        const batch = batcher<{ readonly id: number; readonly size: number }, number>({
          clock,
          maxItems,
          lingerMs,
          ...(maxBytes !== undefined && { maxBytes, sizeOf: ({ size }) => size }),
          async flush(items) {
            const call = sent.push([...items]);
            await sleep(clock, flushMs);
            if (call % fails === 0) throw new Error('down');
            return items.slice(0, call % short === 0 ? -1 : undefined).map(({ id }) => id);
          },
        });
        const outcomes = new Map<number, (number | string)[]>();
        const settle = (id: number, outcome: number | string): void =>
          void outcomes.set(id, [...(outcomes.get(id) ?? []), outcome]);
        for (const [id, { waitMs, size, drain }] of actions.entries()) {
          void batch.add({ id, size }).then(
            (outcome) => settle(id, outcome),
            (error: unknown) => settle(id, (error as Error).message.slice(0, 4)),
          );
          if (drain) void batch.drain();
          await clock.advance(waitMs);
        }
        await finish(clock, batch.close());
        await clock.advance(1_000);
        expect(sent.flat().map(({ id }) => id)).toEqual(actions.map((_, id) => id));
        sent.forEach((items, index) => {
          const call = index + 1;
          expect(items.length).toBeLessThanOrEqual(maxItems);
          const bytes = items.reduce((sum, { size }) => sum + size, 0);
          expect(items.length === 1 || maxBytes === undefined || bytes <= maxBytes).toBe(true);
          items.forEach(({ id }, position) => {
            const forgotten = call % short === 0 && position === items.length - 1;
            const expected = call % fails === 0 ? 'down' : forgotten ? 'The ' : id;
            expect(outcomes.get(id)).toEqual([expected]);
          });
        });
        expect([batch.idle, clock.pending]).toEqual([true, 0]);
      },
    ),
    { numRuns: 120 },
  );
});
