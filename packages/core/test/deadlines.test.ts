import fc from 'fast-check';
import { expect, test } from 'vitest';
import { virtualClock } from '../src/clock.ts';
import { setDeadline, type Deadline } from '../src/deadlines.ts';

test('each fires once and in time, unless it was called off before, with a timer for each length at most', async () => {
  const step = fc.oneof(
    fc.record({ set: fc.constantFrom(10, 25, 40) }),
    fc.record({ cancel: fc.nat({ max: 30 }) }),
    fc.record({ wait: fc.integer({ min: 1, max: 30 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const clock = virtualClock();
      const set: { readonly dueAt: number; readonly deadline: Deadline; fired: number[]; off?: number }[] = [];
      for (const each of steps) {
        if ('wait' in each) await clock.advance(each.wait);
        else if ('cancel' in each) {
          const one = set[each.cancel];
          if (one) {
            one.deadline.cancel();
            one.off ??= clock.monotonic();
          }
        } else {
          const fired: number[] = [];
          const deadline = setDeadline(clock, each.set, () => fired.push(clock.monotonic()));
          set.push({ dueAt: clock.monotonic() + each.set, deadline, fired });
        }
        expect(clock.pending).toBeLessThanOrEqual(3);
      }
      await clock.advance(100);
      for (const { dueAt, fired, off } of set) expect(fired).toEqual(off !== undefined && off < dueAt ? [] : [dueAt]);
      expect(clock.pending).toBe(0);
    }),
  );
});

test('what fires may set the next and call others off', async () => {
  const clock = virtualClock();
  const seen: string[] = [];
  const again = (): void => {
    seen.push(`a ${clock.monotonic()}`);
    other.cancel();
    if (seen.length < 3) setDeadline(clock, 10, again);
  };
  setDeadline(clock, 10, again);
  const other = setDeadline(clock, 10, () => seen.push('b'));
  await clock.advance(100);
  expect(seen).toEqual(['a 1010', 'a 1020', 'a 1030']);
  expect(clock.pending).toBe(0);
});
