import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { sleep, systemClock, virtualClock } from '../src/clock.ts';
import { storeClock } from '../src/store-clock.ts';

describe("the machine's clock", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] }));
  afterEach(() => void vi.useRealTimers());

  test('keeps delays beyond 2^31 ms, and never fires early or twice', () => {
    const clock = systemClock();
    const longest = 2 ** 31 - 1;
    let fired = 0;
    clock.timer(2 * longest + 1_000, () => fired++);
    vi.advanceTimersByTime(longest);
    vi.advanceTimersByTime(longest);
    vi.advanceTimersByTime(990);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(20);
    expect(fired).toBe(1);
    vi.advanceTimersByTime(3 * longest);
    expect([fired, vi.getTimerCount()]).toEqual([1, 0]);
  });

  test('can be called off between two laps of a long delay', () => {
    const clock = systemClock();
    const timer = clock.timer(2 ** 32, () => expect.unreachable('fired'));
    vi.advanceTimersByTime(2 ** 31 + 5);
    timer.cancel();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('fires at once for nothing and less than nothing', () => {
    const clock = systemClock();
    const order: string[] = [];
    clock.timer(-5, () => order.push('past'));
    clock.timer(0, () => order.push('now'));
    vi.advanceTimersByTime(1);
    expect(order).toEqual(['past', 'now']);
  });

  test('goes by monotonic time: a step of the wall clock moves no timer', () => {
    const clock = systemClock();
    let fired = false;
    clock.timer(60_000, () => (fired = true));
    const before = clock.monotonic();
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(clock.monotonic() - before).toBeLessThan(1);
    vi.advanceTimersByTime(59_000);
    expect(fired).toBe(false);
    vi.advanceTimersByTime(1_002);
    expect(fired).toBe(true);
  });
});

test('a sleep that is called off rejects with the reason and leaves neither timer nor listener', async () => {
  const clock = virtualClock();
  const stop = new AbortController();
  const sleeping = sleep(clock, 1_000, stop.signal);
  stop.abort(new Error('enough'));
  await expect(sleeping).rejects.toThrow('enough');
  await expect(sleep(clock, 1_000, stop.signal)).rejects.toThrow('enough');
  expect(clock.pending).toBe(0);
});

describe('what is known of the time of a store', () => {
  test('is nothing before an answer', () => {
    expect(storeClock(virtualClock()).estimate(0)).toBeUndefined();
  });

  test('is an interval around the true time, for any drift up to 1000 ppm and however long the answer took', async () => {
    for (const rate of [0.999, 1, 1.001]) {
      for (const [upMs, downMs] of [
        [0, 0],
        [3_000, 10],
        [10, 3_000],
      ] as const) {
        const clock = virtualClock();
        const start = clock.monotonic();
        const truth = (): number => 5_000_000 + (clock.monotonic() - start) * rate;
        const known = storeClock(clock);
        const sent = known.sending();
        await clock.advance(upMs);
        const answer = { earliest: truth() - 5, latest: truth() + 5 };
        await clock.advance(downMs);
        known.observe(answer, sent);
        for (const later of [0, 1_000, 60_000, 3_600_000]) {
          await clock.advance(later);
          const { earliest, latest } = known.estimate(clock.monotonic()) ?? {
            earliest: Number.NaN,
            latest: Number.NaN,
          };
          expect(earliest).toBeLessThanOrEqual(truth());
          expect(latest).toBeGreaterThanOrEqual(truth());
        }
      }
    }
  });

  test('is nothing any more once the wall moved against the monotonic clock: the machine may have slept', () => {
    for (const step of [1_001, -1_001, 3_600_000, Number.NaN]) {
      const clock = virtualClock();
      const known = storeClock(clock);
      known.observe({ earliest: 10, latest: 10 }, known.sending());
      expect(known.estimate(clock.monotonic())).toEqual({ earliest: 10, latest: 10 });
      clock.stepWall(step);
      expect(known.estimate(clock.monotonic())).toBeUndefined();
      clock.stepWall(-step);
    }
  });

  test('is nothing where the machine slept while the answer was on its way', () => {
    const clock = virtualClock();
    const known = storeClock(clock);
    const sent = known.sending();
    clock.stepWall(600_000);
    known.observe({ earliest: 10, latest: 10 }, sent);
    expect(known.estimate(clock.monotonic())).toBeUndefined();
    known.observe({ earliest: 600_010, latest: 600_010 }, known.sending());
    expect(known.estimate(clock.monotonic())).toEqual({ earliest: 600_010, latest: 600_010 });
  });

  test('is the newest answer, not the one that came last', async () => {
    const clock = virtualClock();
    const known = storeClock(clock);
    const early = known.sending();
    await clock.advance(1_000);
    known.observe({ earliest: 2_000, latest: 2_000 }, known.sending());
    known.observe({ earliest: 1_000, latest: 1_000 }, early);
    expect(known.estimate(clock.monotonic())?.latest).toBe(2_000);
  });
});
