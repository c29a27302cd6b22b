import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatDuration, parseDuration, type Duration } from '../src/duration.ts';
import { isLeaseholdError } from '../src/errors.ts';

function refusal(value: unknown, limits: { readonly min?: number; readonly max?: number } = {}): string {
  try {
    parseDuration(value as Duration, 'limits.tool', limits);
  } catch (error) {
    if (!isLeaseholdError(error)) throw error;
    expect([error.code, error.field]).toEqual(['bad-option', 'limits.tool']);
    return error.message;
  }
  return expect.unreachable(`${String(value)} was accepted`);
}

test.each([
  [1, 1],
  [90_000, 90_000],
  ['90s', 90_000],
  ['5m', 300_000],
  ['250ms', 250],
  ['1h', 3_600_000],
  ['30d', 2_592_000_000],
  [' 1.5s ', 1_500],
  ['2 m', 120_000],
])('%j is %i ms', (value, ms) => {
  expect(parseDuration(value, 'lease')).toBe(ms);
});

// Each message names the field, shows what was found and says what to write instead.
test.each([
  ['30', 'limits.tool is "30": it has no unit; write \'30s\' for seconds, or use ms, m, h, d.'],
  ['', 'limits.tool is "": write a number and a unit (ms, s, m, h, d), such as \'90s\'.'],
  ['90 seconds', "such as '90s'"],
  ['-5s', "such as '90s'"],
  ['1e3s', "such as '90s'"],
  ['5M', "such as '90s'"],
  [Number.NaN, "limits.tool is NaN: write a length of time such as '90s'"],
  [Infinity, 'limits.tool is Infinity'],
  [-1, 'limits.tool is -1: the least is 1ms.'],
  [0, 'limits.tool is 0: the least is 1ms.'],
  ['0s', 'the least is 1ms'],
  [0.5, 'limits.tool is 0.5: a number means milliseconds and has to be whole.'],
  [null, 'limits.tool is null'],
  [undefined, 'limits.tool is undefined'],
  [{ s: 1 }, 'limits.tool is an object'],
  [10n, 'limits.tool is 10'],
])('case 40: %s is refused', (value, message) => {
  expect(refusal(value)).toContain(message);
});

test('case 40: minutes taken for seconds, and seconds for milliseconds, are told by the limits', () => {
  expect(refusal(30, { min: 1_000 })).toBe(
    "limits.tool is 30: the least is 1s. A number means milliseconds: did you mean '30s'?",
  );
  expect(refusal('90m', { max: 3_600_000 })).toBe('limits.tool is "90m": the most is 1h.');
});

test('what is formatted is read back as the same, exactly where the unit is whole', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10 ** 10 }), (ms) => {
      const read = parseDuration(formatDuration(ms), 'x');
      const off = Math.abs(read - ms);
      expect(off).toBeLessThanOrEqual(ms % 1_000 === 0 || ms < 1_000 ? 0 : 50);
    }),
  );
});
