import fc from 'fast-check';
import { expect, test } from 'vitest';
import { serviceClock } from '../src/service-clock.ts';

const SECOND = 1_000;

/** A service with a true time, and a container whose clocks go their own ways. */
function world({ ppm = 0, wall = 0, monotonic = 0, trueTime = 1_700_000_000_123 } = {}) {
  let now = trueTime;
  let mono = monotonic;
  let stepped = wall;
  return {
    clock: {
      monotonic: () => mono,
      wall: () => mono + stepped,
      timer: () => ({ cancel: () => undefined }),
    },
    get trueTime() {
      return now;
    },
    /** Time goes by, as the service counts it. */
    pass(ms: number) {
      now += ms;
      mono += ms * (1 + ppm / 1e6);
    },
    /** The container's wall clock is set. */
    step(ms: number) {
      stepped += ms;
    },
    /** The machine sleeps: its monotonic clock stands still. */
    sleep(ms: number) {
      now += ms;
      stepped += ms;
    },
    /** The service's own clock is set. */
    jump(ms: number) {
      now += ms;
    },
    /** The Date header of a host whose clock is `skewMs` off. */
    date: (skewMs = 0) => Math.floor((now + skewMs) / SECOND) * SECOND,
  };
}

type World = ReturnType<typeof world>;

/** One call: dated by the service somewhere between sending and arrival; the machine may sleep before and after that. */
function call(
  at: World,
  time: ReturnType<typeof serviceClock>,
  { out = 5, back = 5, skew = 0, sleepOut = 0, sleepBack = 0 } = {},
): void {
  const sent = time.sending();
  at.pass(out);
  at.sleep(sleepOut);
  const date = at.date(skew);
  at.sleep(sleepBack);
  at.pass(back);
  time.observe(date, sent);
}

test('the true time is never excluded, whatever the drift, the skew of hosts, round trips, sleeps within and between calls, and steps of the wall clock', () => {
  const trip = { out: fc.nat(400), back: fc.nat(400), skew: fc.integer({ min: -20, max: 20 }) };
  const sleep = fc.integer({ min: 0, max: 86_400_000 });
  const event = fc.oneof(
    { weight: 4, arbitrary: fc.record(trip) },
    { weight: 1, arbitrary: fc.record({ ...trip, sleepOut: sleep, sleepBack: sleep }) },
    { weight: 3, arbitrary: fc.record({ pass: fc.oneof(fc.nat(3_000), fc.nat(900_000)) }) },
    { weight: 1, arbitrary: fc.record({ step: fc.integer({ min: -3_600_000, max: 3_600_000 }) }) },
    { weight: 1, arbitrary: fc.record({ sleep }) },
  );
  const start = fc.record({
    ppm: fc.integer({ min: -950, max: 950 }),
    wall: fc.integer({ min: -1e12, max: 1e12 }),
    monotonic: fc.nat(1e9),
    trueTime: fc.integer({ min: 1_700_000_000_000, max: 1_700_000_010_000 }),
  });
  let judged = 0;
  fc.assert(
    fc.property(start, fc.array(event, { minLength: 1, maxLength: 60 }), (given, events) => {
      const at = world(given);
      const time = serviceClock(at.clock);
      for (const each of events) {
        if ('out' in each) call(at, time, each);
        else if ('pass' in each) at.pass(each.pass);
        else if ('step' in each) at.step(each.step);
        else at.sleep(each.sleep);
        const now = time.now();
        if (!now) continue;
        judged++;
        // A sleep below the margin goes unnoticed; it is as large as what hosts may differ by.
        expect(now.earliest).toBeLessThanOrEqual(at.trueTime + 20);
        expect(now.latest).toBeGreaterThanOrEqual(at.trueTime - 20);
        if (events.every((other) => !('sleep' in other || 'sleepOut' in other))) {
          expect(now.earliest).toBeLessThanOrEqual(at.trueTime);
          expect(now.latest).toBeGreaterThanOrEqual(at.trueTime);
        }
      }
    }),
    { numRuns: 1_500 },
  );
  expect(judged).toBeGreaterThan(4_000);
});

test('one answer gives a second and the round trip; answers at other parts of a second narrow it down', () => {
  const at = world();
  const time = serviceClock(at.clock);
  expect(time.now()).toBeUndefined();
  call(at, time, { out: 10, back: 30 });
  const width = (): number => {
    const now = time.now();
    return now ? now.latest - now.earliest : Number.NaN;
  };
  expect(width()).toBeGreaterThan(1_000);
  expect(width()).toBeLessThanOrEqual(1_082);
  for (let answers = 0; answers < 20; answers++) {
    at.pass(1_050);
    call(at, time);
  }
  expect(width()).toBeLessThan(150);
});

test('after a sleep while an answer was on its way the time is as vague as the sleep was long, until the next answer', () => {
  for (const when of ['sleepOut', 'sleepBack']) {
    const at = world();
    const time = serviceClock(at.clock);
    call(at, time);
    call(at, time, { [when]: 600_000 });
    const vague = time.now();
    expect(vague?.earliest).toBeLessThanOrEqual(at.trueTime);
    expect(vague?.latest).toBeGreaterThanOrEqual(at.trueTime);
    expect(vague && vague.latest - vague.earliest).toBeGreaterThan(600_000);
    call(at, time);
    const now = time.now();
    expect(now?.earliest).toBeLessThanOrEqual(at.trueTime);
    expect(now?.latest).toBeGreaterThanOrEqual(at.trueTime);
    expect(now && now.latest - now.earliest).toBeLessThan(1_100);
  }
});

test('what is known widens with age', () => {
  const at = world();
  const time = serviceClock(at.clock);
  call(at, time);
  at.pass(100_000);
  const now = time.now();
  expect(now && now.latest - now.earliest).toBeGreaterThanOrEqual(1_000 + 200);
});

test('a service whose clock was set is followed with the next answer', () => {
  for (const step of [-7_000, 7_000]) {
    const at = world();
    const time = serviceClock(at.clock);
    for (let answers = 0; answers < 5; answers++) call(at, time);
    at.jump(step);
    call(at, time);
    const now = time.now();
    expect(now?.earliest).toBeLessThanOrEqual(at.trueTime);
    expect(now?.latest).toBeGreaterThanOrEqual(at.trueTime);
  }
});

test('after a step of the wall clock, which may have been a sleep, nothing is known until the next answer; NaN is never known', () => {
  const at = world();
  const time = serviceClock(at.clock);
  call(at, time);
  expect(time.now()).toBeDefined();
  at.step(500);
  expect(time.now()).toBeUndefined();
  call(at, time);
  expect(time.now()).toBeDefined();
  at.step(Number.NaN);
  expect(time.now()).toBeUndefined();
  call(at, time);
  expect(time.now()).toBeUndefined();
});

test.each(['before', 'after'])(
  'a process that is stopped %s it reads the wall clock does not take the pause for a step',
  (when) => {
    const at = world();
    let pauses = 0;
    const pause = (now: string): void => {
      if (when === now && pauses-- > 0) at.pass(300);
    };
    const wall = (): number => {
      pause('before');
      const read = at.clock.wall();
      pause('after');
      return read;
    };
    const time = serviceClock({ ...at.clock, wall });
    call(at, time);
    for (const times of [1, 2, 5]) {
      pauses = times;
      const now = time.now();
      expect(now?.earliest).toBeLessThanOrEqual(at.trueTime);
      expect(now?.latest).toBeGreaterThanOrEqual(at.trueTime);
    }
  },
);

test('a Date header that is none changes nothing', () => {
  const at = world();
  const time = serviceClock(at.clock);
  time.observe(Number.NaN, time.sending());
  expect(time.now()).toBeUndefined();
  call(at, time);
  const before = time.now();
  time.observe(Date.parse('yesterday'), time.sending());
  expect(time.now()).toEqual(before);
});
