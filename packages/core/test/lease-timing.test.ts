import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { backoffDelay } from '../src/backoff.ts';
import { isLeaseholdError } from '../src/errors.ts';
import { beatDelay, leaseTiming, rescaleTiming, type LeaseOption, type LeaseTiming } from '../src/lease-timing.ts';
import { TIMING } from './lease-bench.ts';

function refusal(
  option: LeaseOption,
  bounds = {},
): { readonly code: string; readonly field: string | undefined; readonly message: string } {
  try {
    leaseTiming(option, 'lease', bounds);
  } catch (error) {
    if (isLeaseholdError(error)) return { code: error.code, field: error.field, message: error.message };
    throw error;
  }
  return expect.unreachable(`${JSON.stringify(option)} was accepted`);
}

test('the default is 90 s with a beat every 30 s, a margin of 20 s and one beat that may be missed', () => {
  expect(leaseTiming()).toEqual(TIMING);
  expect(leaseTiming('90s')).toEqual(TIMING);
  expect(leaseTiming({ length: '90s', heartbeat: '30s', margin: '20s', tolerate: 1 })).toEqual(TIMING);
});

test('case 3: short leases get a beat and a margin of their own; zero is refused', () => {
  expect([5_000, 2_000, 1_000, 3].map((length) => leaseTiming(length))).toEqual([
    { leaseMs: 5_000, heartbeatMs: 1_666, marginMs: 1_111, tolerate: 1 },
    { leaseMs: 2_000, heartbeatMs: 666, marginMs: 444, tolerate: 1 },
    { leaseMs: 1_000, heartbeatMs: 333, marginMs: 222, tolerate: 1 },
    { leaseMs: 3, heartbeatMs: 1, marginMs: 1, tolerate: 1 },
  ]);
  for (const length of [0, '0s', -1, '-1s']) expect(refusal(length).code).toBe('bad-option');
});

describe('a lease that a missed beat would lose', () => {
  test('is refused with the numbers', () => {
    expect(refusal({ length: '30s', heartbeat: '30s' })).toEqual({
      code: 'lease-timing',
      field: 'lease',
      message: expect.stringContaining(
        'L = 30000 ms is not longer than R*H + J = 1 * 30000 + 6666 = 36666 ms',
      ) as string,
    });
    expect(refusal({ length: '30s', heartbeat: '10s', margin: '30s', tolerate: 0 }).message).toContain(
      'the margin would lose it',
    );
  });

  test('is exactly one with L <= R*H + J', () => {
    const ms = fc.integer({ min: 1, max: 5_000 });
    fc.assert(
      fc.property(ms, ms, ms, fc.nat(4), (length, heartbeat, margin, tolerate) => {
        const option = { length, heartbeat, margin, tolerate };
        const fits = length > tolerate * heartbeat + margin;
        const found = fits ? leaseTiming(option) : refusal(option).code;
        expect(found).toEqual(
          fits ? { leaseMs: length, heartbeatMs: heartbeat, marginMs: margin, tolerate } : 'lease-timing',
        );
      }),
    );
  });
});

test('a margin that the clock error or the batching would use up is refused, and the length that is offered instead is accepted', () => {
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 100_000 }), fc.nat(30_000), (length, uncertaintyMs) => {
      const fits = Math.floor((length * 2) / 9) > uncertaintyMs || (length < 5 && uncertaintyMs === 0);
      if (fits) {
        expect(leaseTiming(length, 'lease', { uncertaintyMs }).leaseMs).toBe(length);
        return;
      }
      const { code, message } = refusal(length, { uncertaintyMs });
      expect(code).toBe('lease-timing');
      const [, offered = ''] = /at least ([\d.]+(?:ms|s|m|h|d)) /.exec(message) ?? [];
      expect(leaseTiming(offered, 'lease', { uncertaintyMs }).marginMs).toBeGreaterThan(uncertaintyMs);
    }),
  );
});

test('a lease below what the ledger can keep apart is refused, with a guess at the unit', () => {
  expect(refusal(90, { minLeaseMs: 1_000 }).message).toBe(
    "lease is 90ms, but this ledger cannot keep leases below 1s apart. A number means milliseconds: did you mean '90s'?",
  );
});

test.each([-1, 0.5, Number.NaN, Infinity])('a number of misses of %s is refused by name', (tolerate) => {
  expect(refusal({ length: '90s', tolerate })).toMatchObject({ code: 'bad-option', field: 'lease.tolerate' });
});

test('each figure is refused under its own name', () => {
  expect(refusal({ length: '' }).field).toBe('lease.length');
  expect(refusal({ length: '90s', heartbeat: '30' }).field).toBe('lease.heartbeat');
  expect(refusal({ length: '90s', margin: 0 }).field).toBe('lease.margin');
});

test('where less was granted the proportions stay; longer ones are not stretched', () => {
  expect(rescaleTiming(TIMING, 45_000)).toEqual({
    leaseMs: 45_000,
    heartbeatMs: 15_000,
    marginMs: 10_000,
    tolerate: 1,
  });
  expect(rescaleTiming(TIMING, 90_000)).toBe(TIMING);
  expect(rescaleTiming(TIMING, 600_000)).toBe(TIMING);
  fc.assert(
    fc.property(
      fc.integer({ min: 9, max: 1_000_000 }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      (length, share) => {
        const timing = leaseTiming(length);
        const scaled = rescaleTiming(timing, length * share);
        expect(scaled.leaseMs).toBeLessThanOrEqual(Math.max(1, length * share));
        for (const ms of [scaled.leaseMs, scaled.heartbeatMs, scaled.marginMs])
          expect(Number.isInteger(ms) && ms >= 1).toBe(true);
        const sound = scaled.leaseMs > scaled.tolerate * scaled.heartbeatMs + scaled.marginMs;
        expect(sound || scaled.leaseMs < 9).toBe(true);
      },
    ),
  );
});

describe('the next beat', () => {
  const short: LeaseTiming = leaseTiming('5s');

  test('case 2: comes by half of the remaining time, at once with 300 ms left, and never after a negative delay', () => {
    expect(beatDelay(TIMING, 90_000, () => 0)).toBe(30_000);
    expect(beatDelay(TIMING, 50_000, () => 0)).toBe(25_000);
    expect(beatDelay(short, 300)).toBe(0);
    expect(beatDelay(short, -10_000)).toBe(0);
  });

  test('whatever remains and whatever the jitter', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 3, max: 1_000_000 }),
        fc.double({ min: -1_000, max: 2_000_000, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        (length, remaining, random) => {
          const timing = leaseTiming(length);
          const delay = beatDelay(timing, remaining, () => random);
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThanOrEqual(timing.heartbeatMs);
          expect(delay).toBeLessThanOrEqual(Math.max(0, remaining / 2));
          const early = remaining <= timing.marginMs ? 0 : Math.min(timing.heartbeatMs * 0.9, remaining / 2);
          expect(delay).toBeGreaterThanOrEqual(early);
        },
      ),
    );
  });
});

test('backoff grows, is capped, and lies between half of it and all of it', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.integer({ min: 1, max: 100_000 }),
      fc.integer({ min: 0, max: 2_000 }),
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (firstMs, maxMs, attempt, random) => {
        const full = Math.min(maxMs, firstMs * 2 ** Math.max(0, attempt - 1));
        const delay = backoffDelay({ firstMs, maxMs }, attempt, () => random);
        expect(Number.isInteger(delay)).toBe(true);
        expect(delay).toBeGreaterThanOrEqual(Math.floor(full / 2));
        expect(delay).toBeLessThanOrEqual(Math.ceil(full));
      },
    ),
  );
  expect([1, 2, 3, 4, 5].map((attempt) => backoffDelay({ firstMs: 100, maxMs: 1_000 }, attempt, () => 1))).toEqual([
    100, 200, 400, 800, 1_000,
  ]);
  expect(backoffDelay({ firstMs: 100, maxMs: 10_000, factor: 3 }, 3, () => 1)).toBe(900);
});
