import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { claimTask } from '../src/claim-task.ts';
import type { Clock } from '../src/clock.ts';
import type { EffectFinding } from '../src/events.ts';
import { ledgerSession } from '../src/ledger-session.ts';
import type { TaskLease } from '../src/task-lease.ts';
import { bench, finish, granted, KINDS, REQUESTS, TIMING, type Bench } from './lease-bench.ts';
import { ANSWER_LOST, LOST, type Travel } from './slow-ledger.ts';
import { claim, intend } from './task-events.ts';

const { leaseMs: L, marginMs: J } = TIMING;

async function held(): Promise<Bench & { readonly lease: TaskLease; readonly start: number }> {
  const set = bench();
  const start = set.clock.monotonic();
  return { ...set, start, lease: await granted(set.claimAs('svc/a#1')) };
}

describe('ownership', () => {
  test('is held up to the margin, unknown within it, lost from the confirmed time on, and stays lost', async () => {
    const { clock, lease, start } = await held();
    expect(lease.confirmedUntil).toBe(start + L);
    await clock.advance(L - J - 1);
    expect(lease.ownership()).toBe('held');
    await clock.advance(1);
    expect(lease.ownership()).toBe('unknown');
    await clock.advance(J - 1);
    expect(lease.ownership()).toBe('unknown');
    await clock.advance(1);
    expect(lease.ownership()).toBe('lost');
    expect(lease.lost).toMatchObject({ lost: 'deadline' });
    expect(await lease.apply(REQUESTS.renew, { repeat: true })).toMatchObject({ lost: 'deadline' });
  });

  test('is judged by the clock and not by a timer: after a blocked event loop it is lost at once', async () => {
    const { clock, lease } = await held();
    clock.block(L + 1);
    expect(lease.ownership()).toBe('lost');
  });

  test('is unknown from an unanswered write until the next answer', async () => {
    const { clock, lease, ledger } = await held();
    ledger.travels.put.push(ANSWER_LOST);
    expect(await finish(clock, lease.apply(REQUESTS.renew, { repeat: false }))).toEqual({ unknown: 'timeout' });
    expect(lease.ownership()).toBe('unknown');
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(lease.ownership()).toBe('held');
  });

  test('is unknown after a sleep, while the write that straddled it does not count', async () => {
    const { clock, lease, ledger } = await held();
    ledger.sleepMachine(J / 2);
    expect(lease.ownership()).toBe('held');
    ledger.sleepMachine(1);
    expect(lease.ownership()).toBe('unknown');
    ledger.travels.put.push({ upMs: 0, downMs: 2_000 });
    const straddling = lease.apply(REQUESTS.renew, { repeat: false });
    await clock.advance(1_000);
    ledger.sleepMachine(J);
    expect(await finish(clock, straddling)).toHaveProperty('applied');
    expect(lease.ownership()).toBe('unknown');
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(lease.ownership()).toBe('held');
  });

  test("is unknown while the store's clock is less certain than the margin", async () => {
    const { lease, ledger } = await held();
    ledger.error = { beforeMs: J / 2, afterMs: J / 2 + 1 };
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(lease.ownership()).toBe('unknown');
    ledger.error = { beforeMs: J / 2, afterMs: J / 2 };
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(lease.ownership()).toBe('held');
  });

  test('ends with the write that gives the lease up, without being a loss', async () => {
    const { clock, lease, ledger } = await held();
    await lease.apply(REQUESTS.settle, { repeat: true });
    expect([lease.ownership(), lease.ended, lease.lost]).toEqual(['lost', true, undefined]);
    const sent = ledger.sent.length;
    for (const kind of KINDS) {
      expect(await lease.apply(REQUESTS[kind], { repeat: true })).toMatchObject({ lost: 'released' });
    }
    await clock.advance(2 * L);
    expect([ledger.sent.length, lease.lost]).toEqual([sent, undefined]);
  });

  test('case 34: a wall clock that steps an hour either way loses nothing, and one that answers NaN is trusted with nothing', async () => {
    const { clock, lease, ledger } = await held();
    for (const step of [60_000, -60_000, 3_600_000, -3_600_000, -3_600_000, 3_600_000]) {
      clock.stepWall(step);
      await clock.advance(TIMING.heartbeatMs);
      expect(lease.ownership()).not.toBe('lost');
      expect(await lease.apply(REQUESTS.renew, { repeat: false })).toHaveProperty('applied');
      expect(lease.ownership()).toBe('held');
    }
    const { leaseExpiresAt = 0 } = lease.record;
    expect(leaseExpiresAt).toBe(ledger.time() + L);
    clock.stepWall(Number.NaN);
    expect(lease.ownership()).toBe('unknown');
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(lease.ownership()).toBe('unknown');
  });

  test('case 34: a monotonic clock that answers NaN makes the lease lost', async () => {
    const { clock, ledger } = bench();
    let broken = false;
    const shaky: Clock = { ...clock, monotonic: () => (broken ? Number.NaN : clock.monotonic()) };
    const { type: _type, opId: _opId, leaseMs: _leaseMs, ...asked } = claim();
    const lease = await granted(claimTask(ledgerSession(ledger, shaky), shaky, TIMING, asked));
    broken = true;
    expect(lease.ownership()).toBe('lost');
    broken = false;
    expect(lease.ownership()).toBe('lost');
  });
});

describe('confirmedUntil', () => {
  test('counts from the first sending, whatever answer confirms it', async () => {
    const { clock, lease, ledger } = await held();
    await clock.advance(5_000);
    const sentAt = clock.monotonic();
    ledger.travels.put.push(LOST, ANSWER_LOST);
    await finish(clock, lease.apply(REQUESTS.renew, { repeat: true }));
    expect(clock.monotonic()).toBeGreaterThan(sentAt + J);
    expect(lease.confirmedUntil).toBe(sentAt + L);
  });

  test('is no later than that when the clock was read slowly, so that the store was asked for more', async () => {
    const { clock, session, ledger } = bench();
    ledger.travels.get.push({ upMs: 4_000, downMs: 0 });
    const { type: _type, opId: _opId, leaseMs: _leaseMs, ...asked } = claim();
    const claiming = claimTask(session, clock, TIMING, asked);
    ledger.travels.put.push(ANSWER_LOST);
    const lease = await granted(finish(clock, claiming));
    const [first] = ledger.sent;
    expect(first?.lease?.notBeyond).toBeGreaterThan((first?.storeAt ?? 0) + L);
    expect(lease.confirmedUntil).toBe((first?.at ?? 0) + L);
  });

  test('is what the store shows where it granted less', async () => {
    const { lease, ledger, clock } = await held();
    const put = ledger.put.bind(ledger);
    ledger.put = (next, stamp, expectation, signal) =>
      put(next, stamp && { ...stamp, ms: L - 7_000 }, expectation, signal);
    await clock.advance(1_000);
    const sentAt = clock.monotonic();
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(lease.confirmedUntil).toBe(sentAt + L - 7_000);
  });
});

describe('lost is final', () => {
  test('I3: taken over, an owner that slept writes nothing more, even where the new owner bears its own name', async () => {
    const { clock, lease, ledger, claimAs } = await held();
    // A short sleep goes unnoticed here, and is enough for the store to find the lease over.
    await clock.advance(L - 500);
    ledger.sleepMachine(900);
    const next = await granted(claimAs('svc/a#1'));
    expect(lease.ownership()).toBe('unknown');
    expect(await lease.apply(REQUESTS.renew, { repeat: true })).toMatchObject({ lost: 'taken-over' });
    const sent = ledger.sent.length;
    for (const kind of KINDS) {
      expect(await lease.apply(REQUESTS[kind], { repeat: true })).toMatchObject({ lost: 'taken-over' });
    }
    expect(ledger.sent.length).toBe(sent);
    expect(next.ownership()).toBe('held');
  });

  test('a long sleep is found out before anything is sent', async () => {
    const { lease, ledger } = await held();
    ledger.sleepMachine(L + 1);
    const sent = ledger.sent.length;
    expect(await lease.apply(REQUESTS.renew, { repeat: true })).toMatchObject({ lost: 'expired' });
    expect(ledger.sent.length).toBe(sent);
  });

  test('what is found lost while the time is read is not sent', async () => {
    const { clock, lease, ledger } = await held();
    await clock.advance(L - 3_000);
    clock.stepWall(3_600_000);
    ledger.travels.get.push({ upMs: 5_000, downMs: 0 });
    const sent = ledger.sent.length;
    expect(await finish(clock, lease.apply(REQUESTS.renew, { repeat: true }))).toMatchObject({ lost: 'deadline' });
    expect(ledger.sent.length).toBe(sent);
  });

  test('watchers hear of it once, and nothing after they left', async () => {
    const { clock, lease } = await held();
    let calls = 0;
    const watcher = { leaseChanged: (): void => void calls++ };
    lease.watch(watcher);
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(calls).toBe(1);
    await clock.advance(L);
    expect([lease.ownership(), lease.ownership(), calls]).toEqual(['lost', 'lost', 2]);
    lease.unwatch(watcher);
    await lease.apply(REQUESTS.renew, { repeat: false });
    expect(calls).toBe(2);
  });
});

test('a settle that was abandoned and landed counts when it is asked for again', async () => {
  const { clock, lease, ledger } = await held();
  ledger.travels.put.push(ANSWER_LOST);
  expect(await finish(clock, lease.apply(REQUESTS.settle, { repeat: false }))).toEqual({ unknown: 'timeout' });
  expect(await lease.apply(REQUESTS.settle, { repeat: true })).toMatchObject({
    applied: { state: 'settled', version: 2 },
  });
});

test('a write that the rules refuse leaves the lease standing and shows what it was judged by', async () => {
  const { clock, lease, ledger } = await held();
  ledger.travels.put.push(ANSWER_LOST);
  await finish(clock, lease.apply(REQUESTS.intend, { repeat: false }));
  expect(await lease.apply(REQUESTS.settle, { repeat: true })).toMatchObject({ refused: { refused: 'effect-open' } });
  expect(lease.record.effects['create']?.status).toBe('intended');
  expect([lease.lost, ledger.record('task-1')?.version]).toEqual([undefined, 2]);
});

test('an unanswered write is repeated until the confirmed time is over, and not beyond', async () => {
  const { clock, lease, ledger, start } = await held();
  ledger.travels.put.push(...Array.from({ length: 50 }, () => LOST));
  const outcome = await finish(clock, lease.apply(REQUESTS.settle, { repeat: true }));
  expect(outcome).toEqual({ unknown: 'timeout' });
  expect(ledger.sent.at(-1)?.at).toBeLessThan(start + L);
  expect(ledger.sent.length).toBeGreaterThan(5);
});

test('cases 9 and 11: a settle or release asked for while a beat is on its way waits for it; no timer is left', async () => {
  for (const kind of ['settle', 'release'] as const) {
    const { clock, lease, ledger } = await held();
    ledger.travels.put.push({ upMs: 100, downMs: 400 }, { upMs: 10, downMs: 10 });
    const beat = lease.apply(REQUESTS.renew, { repeat: false });
    const end = lease.apply(REQUESTS[kind], { repeat: true });
    expect(lease.writing).toBe(true);
    expect(await finish(clock, beat)).toHaveProperty('applied');
    expect(await finish(clock, end)).toHaveProperty('applied');
    expect([ledger.mostWaiting, clock.pending, lease.writing]).toEqual([1, 0, false]);
    expect(ledger.record('task-1')?.version).toBe(3);
  }
});

test('what is carried is written, however many writes are lost, and later facts are never replaced by earlier ones', async () => {
  const findings = fc.constantFrom<EffectFinding>({ status: 'absent' }, { status: 'in_doubt' });
  const fact = fc.oneof(
    fc.record({ reason: fc.string({ maxLength: 3 }) }),
    fc.record({ effect: fc.constantFrom('a', 'b', '__proto__'), finding: findings }),
  );
  const step = fc.record({
    facts: fc.array(fact, { maxLength: 3 }),
    route: fc.constantFrom<Travel>({ upMs: 20, downMs: 20 }, ANSWER_LOST, LOST, { upMs: 11_000, downMs: 0 }),
    early: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
      const { clock, lease, ledger } = await held();
      for (const name of ['a', 'b', '__proto__']) {
        const { opId: _opId, owner: _owner, token: _token, ...request } = intend(name);
        await lease.apply(request, { repeat: true });
      }
      const last = new Map<string, string>(['a', 'b', '__proto__'].map((name) => [name, 'intended']));
      let reason: string | undefined;
      for (const { facts, route, early } of steps) {
        ledger.travels.put.push(route);
        const carry = (): void => {
          for (const each of facts) {
            if ('effect' in each) {
              last.set(each.effect, each.finding.status);
              lease.carryFinding(each.effect, each.finding);
              expect(lease.carriedFinding(each.effect)).toBe(each.finding);
            } else {
              reason = each.reason;
              lease.carryProgress('external_call', each.reason);
            }
          }
        };
        if (early) carry();
        const writing = lease.apply(REQUESTS.renew, { repeat: false });
        // While a write is on its way, the facts it does not bear yet must outlive its answer.
        await clock.advance(10);
        if (!early) carry();
        await finish(clock, writing);
        ledger.travels.put.length = 0;
        await lease.apply(REQUESTS.renew, { repeat: false });
      }
      await lease.apply(REQUESTS.renew, { repeat: true });
      await lease.apply(REQUESTS.renew, { repeat: true });
      const { effects, renewalReason } = lease.record;
      expect(Object.entries(effects).map(([name, { status }]) => [name, status])).toEqual([...last]);
      expect(renewalReason).toBe(reason);
      expect(lease.carriedFinding('a')).toBeUndefined();
    }),
    { numRuns: 150 },
  );
});
