import { describe, expect, test } from 'vitest';
import { claimTask, type ClaimOutcome } from '../src/claim-task.ts';
import { ledgerSession } from '../src/ledger-session.ts';
import { bench, finish, granted, REQUESTS, TIMING } from './lease-bench.ts';
import { ANSWER_LOST, LOST } from './slow-ledger.ts';
import { claim, RETENTION_MS, START } from './task-events.ts';

const { leaseMs: L, marginMs: J } = TIMING;

test('a first claim is one read of the time and one write', async () => {
  const { clock, ledger, claimAs } = bench();
  const lease = await granted(claimAs('svc/a#1'));
  expect(lease.record).toMatchObject({ fencingToken: 1, attempt: 1, version: 1, leaseExpiresAt: ledger.time() + L });
  expect([ledger.reads, ledger.sent.length, clock.pending]).toEqual([1, 1, 0]);
});

test('claims that begin together read the time once, those that began to read with less patience apart', async () => {
  const { clock, ledger, session, claimAs } = bench();
  ledger.travels.get.push({ upMs: 5, downMs: 5 });
  const { type: _type, opId: _opId, leaseMs: _leaseMs, ...asked } = claim({ owner: 'svc/a#1' });
  const claims = Array.from({ length: 10 }, (_, n) =>
    claimTask(session, clock, TIMING, { ...asked, taskId: `t-${n}` }),
  );
  const outcomes = await finish(clock, Promise.all(claims));
  expect(outcomes.every((outcome) => 'lease' in outcome)).toBe(true);
  expect([ledger.reads, ledger.sent.length]).toEqual([1, 10]);
  // Another session knows nothing of it, and nobody waits for longer than for an answer of its own.
  ledger.travels.get.push(LOST, { upMs: 5, downMs: 5 });
  const fresh = ledgerSession(ledger, clock);
  const patient = fresh.time('t-0', 60_000);
  expect(await finish(clock, fresh.time('t-1', 1_000))).toHaveProperty('latest');
  await finish(clock, patient);
  await granted(claimAs('svc/b#2', { taskId: 't-b' }));
});

test('case 13: a claim that was stored and whose answer was lost is recognised, not taken for another owner', async () => {
  const { clock, ledger, claimAs } = bench();
  const sentAt = clock.monotonic();
  ledger.travels.put.push(ANSWER_LOST);
  const lease = await granted(finish(clock, claimAs('svc/a#1')));
  expect(lease.record).toMatchObject({ fencingToken: 1, attempt: 1, version: 1 });
  expect(lease.confirmedUntil).toBe(sentAt + L);
  expect(ledger.sent.length).toBe(2);
});

test('case 13: the same where the claim found that the task has to end', async () => {
  const { clock, ledger, claimAs } = bench();
  await (await granted(claimAs('svc/a#1'))).apply(REQUESTS.release, { repeat: true });
  ledger.travels.put.push(ANSWER_LOST);
  const outcome = await finish(clock, claimAs('svc/b#2', { attempts: 1 }));
  expect(outcome).toMatchObject({ ended: { state: 'dead_lettered', version: 3 } });
});

test('without an answer within the margin it is unknown, and what lands later lapses by itself, unstretched', async () => {
  const { clock, ledger, claimAs } = bench();
  ledger.travels.put.push({ upMs: 40_000, downMs: 0 }, LOST, LOST, LOST, LOST);
  const began = clock.monotonic();
  const sentAt = ledger.time();
  expect(await finish(clock, claimAs('svc/a#1'))).toEqual({ unknown: 'timeout' });
  ledger.travels.put.length = 0;
  expect(clock.monotonic() - began).toBeLessThanOrEqual(1.5 * J);
  await clock.advance(40_000);
  expect(ledger.record('task-1')).toMatchObject({ leaseOwner: 'svc/a#1', leaseExpiresAt: sentAt + L });
  expect(await claimAs('svc/b#2')).toMatchObject({ refused: { refused: 'busy' } });
  await clock.advance(L - (clock.monotonic() - began));
  expect((await granted(claimAs('svc/b#2'))).token).toBe(2);
});

test('case 45: of fifty first claims at once one wins, and each of the others learns who did', async () => {
  const { clock, ledger, claimAs } = bench();
  const claims = Array.from({ length: 50 }, async (_, index) => {
    ledger.travels.put.push({ upMs: 10 + (index % 7), downMs: 5 });
    return claimAs(`svc/${index}#1`);
  });
  const outcomes: readonly ClaimOutcome[] = await finish(clock, Promise.all(claims));
  const owner = ledger.record('task-1')?.leaseOwner;
  expect(outcomes.filter((outcome) => 'lease' in outcome).length).toBe(1);
  const losers = outcomes.filter((outcome) => 'refused' in outcome);
  expect(losers.length).toBe(49);
  for (const loser of losers)
    expect(loser).toMatchObject({ refused: { refused: 'busy' }, record: { leaseOwner: owner } });
  expect(ledger.record('task-1')).toMatchObject({ version: 1, fencingToken: 1 });
});

test('case 28: a lease whose owner was killed is taken over when it is over, with the next token and one failure', async () => {
  const { clock, claimAs } = bench();
  await granted(claimAs('svc/a#1'));
  await clock.advance(L - 1);
  expect(await claimAs('svc/b#2')).toMatchObject({ refused: { refused: 'busy', waitMs: 1 } });
  await clock.advance(1);
  expect((await granted(claimAs('svc/b#2'))).record).toMatchObject({ fencingToken: 2, attempt: 2, failures: 1 });
});

test('a store whose clock cannot tell yet whether the lease is over makes the task busy, and nobody spin', async () => {
  const { clock, ledger, claimAs } = bench();
  await granted(claimAs('svc/a#1'));
  await clock.advance(L + 500);
  const get = ledger.get.bind(ledger);
  // What core reads says "over", what the store finds when it writes says "not certain".
  ledger.get = async (...args) => {
    const read = await get(...args);
    ledger.error = { beforeMs: 1_000, afterMs: 0 };
    return read;
  };
  const sent = ledger.sent.length;
  expect(await claimAs('svc/b#2')).toMatchObject({ refused: { refused: 'busy' } });
  expect(ledger.sent.length - sent).toBeLessThanOrEqual(5);
});

test('a driver that refuses a first claim without saying what stands there makes it busy, and nobody spin', async () => {
  const { ledger, claimAs } = bench();
  let puts = 0;
  ledger.put = async () => {
    puts++;
    return { ok: false, current: undefined, now: { earliest: START, latest: START } };
  };
  expect(await claimAs('svc/a#1')).toMatchObject({ refused: { refused: 'busy' } });
  expect(puts).toBeLessThanOrEqual(5);
});

describe('a message that may be older than the ledger', () => {
  test('is looked up before it is called so: a message sent again bears a token and has its record', async () => {
    const { ledger, claimAs } = bench();
    await (await granted(claimAs('svc/a#1'))).apply(REQUESTS.release, { repeat: true });
    expect((await granted(claimAs('svc/b#2', { carriedToken: 1 }))).token).toBe(2);
    expect(ledger.record('task-1')?.fencingToken).toBe(2);
  });

  test.each([
    ['bears a token', { carriedToken: 1 }],
    ['was sent before the retention', { sentAt: START - RETENTION_MS }],
  ])('and %s without a record is refused, so that tokens never restart', async (_, fields) => {
    const { ledger, claimAs } = bench();
    expect(await claimAs('svc/a#1', fields)).toMatchObject({
      refused: { refused: 'older-than-ledger' },
      record: undefined,
    });
    expect([ledger.sent.length, ledger.reads]).toEqual([0, 2]);
  });
});

test('what another try cannot mend is not tried again', async () => {
  const { ledger, claimAs } = bench();
  let calls = 0;
  ledger.put = async () => {
    calls++;
    throw new Error('no such table');
  };
  ledger.classify = () => 'denied';
  expect(await claimAs('svc/a#1')).toEqual({ unknown: 'denied' });
  expect(calls).toBe(1);
});
