import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ClaimOutcome } from '../src/claim-task.ts';
import type { ApplyOutcome, TaskLease } from '../src/task-lease.ts';
import { bench, REQUESTS, TIMING, type Bench } from './lease-bench.ts';
import type { Travel } from './slow-ledger.ts';

const DRIFT = 1e-3;

interface Step {
  readonly kind: 'renew' | 'intend' | 'checkpoint' | 'begin-close' | 'raise-token' | 'wait' | 'take' | 'jolt';
  readonly repeat: boolean;
  readonly ms: number;
  readonly travel: Travel;
  readonly joltMs: number;
}

const travel: fc.Arbitrary<Travel> = fc.record({
  upMs: fc.oneof(fc.constant(0), fc.nat(3_000), fc.nat(60_000), fc.constant('never' as const)),
  downMs: fc.oneof(fc.constant(0), fc.nat(3_000), fc.nat(60_000), fc.constant('never' as const)),
});
const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom(
    'renew',
    'renew',
    'renew',
    'intend',
    'checkpoint',
    'begin-close',
    'raise-token',
    'wait',
    'take',
    'jolt',
  ),
  repeat: fc.boolean(),
  ms: fc.oneof(fc.nat(2_000), fc.nat(35_000), fc.nat(35_000), fc.nat(120_000)),
  travel: fc.oneof(fc.constant({ upMs: 0, downMs: 0 }), fc.constant({ upMs: 40, downMs: 40 }), travel),
  joltMs: fc.oneof(fc.nat(3_000), fc.nat(200_000)),
});
const world = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 20, size: 'max' }),
  rate: fc.double({ min: 1 - DRIFT / 2, max: 1 + DRIFT / 2, noNaN: true }),
  beforeMs: fc.nat(300),
  afterMs: fc.nat(300),
  /** What befalls this machine: an administrator sets its clock, or its lid is closed. */
  jolt: fc.constantFrom('wall', 'sleep'),
});

interface Held {
  readonly lease: TaskLease;
  lostAt: number | undefined;
}

/** What is wrong with the leases at this moment, seen from the store. */
function* wrongNow({ ledger, clock }: Bench, held: readonly Held[], jolt: 'wall' | 'sleep'): Iterable<string> {
  const record = ledger.record('task-1');
  // A sleep of up to half the margin goes unnoticed; the margin is there for it.
  const slack = TIMING.leaseMs * DRIFT + 2 + (jolt === 'sleep' ? TIMING.marginMs / 2 : 0);
  let holders = 0;
  for (const { lease } of held) {
    const ownership = lease.ownership();
    // A higher token of its own: a closing or a raised token that landed and is not answered yet.
    const current =
      record?.state === 'running' && record.leaseOwner === lease.owner && record.fencingToken >= lease.token;
    if (ownership === 'held') {
      holders++;
      if (!current) yield `${lease.owner} holds what ${record?.leaseOwner} holds by the ledger`;
      if ((record?.leaseExpiresAt ?? 0) <= ledger.time()) yield `${lease.owner} holds what lapsed`;
    }
    const sleeping = lease.slept();
    const promised = ledger.time(lease.confirmedUntil);
    if (current && ownership !== 'lost' && !sleeping && promised > (record.leaseExpiresAt ?? 0) + slack) {
      yield `confirmed until ${promised}, granted until ${record.leaseExpiresAt}`;
    }
    if (ownership === 'lost' && clock.monotonic() < lease.confirmedUntil && !lease.lost && !lease.ended)
      yield 'lost without a cause';
  }
  if (holders > 1) yield 'held twice';
  if (ledger.mostWaiting > held.length + 1) yield 'writes of one lease overlap';
}

/** What is wrong with what was sent and what landed, in the end. */
function* wrongInAll({ ledger }: Bench, held: readonly Held[]): Iterable<string> {
  const tokens = new Set<string>();
  for (const { before, after, at, opId } of ledger.landings) {
    if (!after) continue;
    if (after.version !== (before?.version ?? 0) + 1) yield `version ${after.version}`;
    const granting = after.attempt !== (before?.attempt ?? 0);
    if (after.fencingToken < (before?.fencingToken ?? 0)) yield 'a token went back';
    if (granting && after.fencingToken <= (before?.fencingToken ?? 0)) yield 'a grant without a new token';
    if (granting && before?.state === 'running' && (before.leaseExpiresAt ?? 0) > at) yield 'taken from a live owner';
    if (!granting && after.state === 'running' && (before?.leaseExpiresAt ?? 0) <= at)
      yield 'a lapsed lease was written to';
    tokens.add(`${after.leaseOwner}:${after.fencingToken}`);
    // However late it lands: its first sending + L + the error of the clock, which was read within a call of at most J/2 and drifts since.
    const first = ledger.sent.find(({ next }) => next.opId === opId);
    const error = ledger.error.beforeMs + ledger.error.afterMs + TIMING.marginMs / 2 + 1_000;
    const most = (first?.storeAt ?? 0) + TIMING.leaseMs + error;
    const stamped = first?.lease !== undefined && !granting;
    if (stamped && (after.leaseExpiresAt ?? 0) > most) yield `stretched by ${(after.leaseExpiresAt ?? 0) - most} ms`;
  }
  for (const { lease, lostAt } of held) {
    const later = ledger.sent.filter(
      ({ next, at }) => next.leaseOwner === lease.owner && lostAt !== undefined && at > lostAt,
    );
    if (later.length > 0) yield `${lease.owner} wrote after it had lost`;
  }
}

test('over any network: who holds is who the store says, for no longer than it granted, and who lost writes no more', async () => {
  const seen = { held: 0, unknown: 0, lost: 0, taken: 0, applied: 0 };
  await fc.assert(
    fc.asyncProperty(world, async ({ steps, rate, beforeMs, afterMs, jolt }) => {
      const set = bench({ rate });
      const { clock, ledger } = set;
      ledger.error = { beforeMs, afterMs };
      const held: Held[] = [];
      const wrong: string[] = [];
      const look = (): void => {
        for (const one of held) {
          seen[one.lease.ownership()]++;
          if (one.lease.ownership() === 'lost') one.lostAt ??= clock.monotonic();
        }
        wrong.push(...wrongNow(set, held, jolt));
      };
      const pass = async (ms: number): Promise<void> => {
        const until = clock.monotonic() + ms;
        while (clock.monotonic() < until) {
          await clock.advance(Math.min(1_900, until - clock.monotonic()));
          look();
        }
      };
      const claimed = async (): Promise<void> => {
        const outcomes: ClaimOutcome[] = [];
        void set.claimAs(`svc/${held.length}`, { attempts: 99 }).then((outcome) => outcomes.push(outcome));
        while (outcomes.length === 0) await pass(1_900);
        const outcome = outcomes[0] as ClaimOutcome;
        if ('lease' in outcome) held.push({ lease: outcome.lease, lostAt: undefined });
        if ('lease' in outcome && held.length > 1) seen.taken++;
      };
      await claimed();
      const writes: Promise<ApplyOutcome>[] = [];
      for (const { kind, repeat, ms, travel: route, joltMs } of steps) {
        const lease = held.at(-1)?.lease;
        if (kind === 'jolt') {
          if (jolt === 'sleep') ledger.sleepMachine(joltMs);
          else clock.stepWall(joltMs % 2 === 0 ? joltMs : -joltMs);
          look();
        } else if (kind === 'take') {
          ledger.travels.put.push(route);
          await claimed();
        } else if (kind !== 'wait' && lease) {
          ledger.travels.put.push(route);
          writes.push(lease.apply(REQUESTS[kind], { repeat }));
        }
        await pass(ms);
      }
      await pass(100_000);
      const outcomes = await Promise.all(writes);
      seen.applied += outcomes.filter((outcome) => 'applied' in outcome).length;
      expect([...new Set([...wrong, ...wrongInAll(set, held)])]).toEqual([]);
    }),
    { numRuns: 200 },
  );
  for (const [what, times] of Object.entries(seen))
    expect({ what, enough: times > 20 }).toEqual({ what, enough: true });
});
