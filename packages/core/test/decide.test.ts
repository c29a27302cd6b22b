import { describe, expect, test } from 'vitest';
import {
  answer,
  askHuman,
  at,
  beginClose,
  cancel,
  checkpoint,
  claim,
  deadLetter,
  endClose,
  handOff,
  intend,
  LEASE_MS,
  raiseToken,
  release,
  renew,
  RETENTION_MS,
  settle,
  START,
  sweep,
} from './task-events.ts';
import { after, applied, finding, LATER, refused } from './task-play.ts';

test('a refusal says how long the task is busy, and how long its retry is away, from the earliest possible now', () => {
  expect(refused(after(claim()), claim(), at(10_000, 500)).waitMs).toBe(LEASE_MS - 10_000 + 500);
  expect(refused(after(claim(), release({ delayMs: 60_000 })), claim(), at(1_001, 500)).waitMs).toBe(
    60_000 - 1_000 + 500,
  );
});

test('expiry is judged at the safe end: nobody takes over what may be live, and no clock that answers nonsense ends a lease', () => {
  const record = after([claim(), at(0)]);
  expect(refused(record, claim(), { earliest: START + LEASE_MS - 1, latest: START + LEASE_MS + 400 }).refused).toBe(
    'busy',
  );
  expect(
    applied(record, claim(), { earliest: START + LEASE_MS, latest: START + LEASE_MS + 400 }).next.fencingToken,
  ).toBe(2);
  expect(refused(record, claim(), { earliest: Number.NaN, latest: Number.NaN }).refused).toBe('busy');
});

test('a takeover is conditional on the lease being over, judged by the store when it writes', () => {
  const outcome = applied(after(claim()), claim({ owner: 'svc/b#2' }), LATER);
  expect(outcome).toMatchObject({ expect: { version: 1, lease: 'lapsed' }, leaseMs: LEASE_MS });
  expect(applied(after(claim(), release()), claim())).toMatchObject({ expect: { version: 2, lease: 'any' } });
});

test('a first claim writes token 1, attempt 1 and version 1 in one write that expects no record', () => {
  const {
    next,
    leaseMs,
    expect: condition,
  } = applied(undefined, claim({ agentRunId: 'run-1', traceId: 'abc', deadlineMs: 5_000 }), at(0, 20));
  expect({ leaseMs, condition }).toEqual({ leaseMs: LEASE_MS, condition: { version: 0 } });
  expect(next).toMatchObject({
    version: 1,
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    state: 'running',
    stage: 'preflight',
  });
  expect(next).toMatchObject({ agentRunId: 'run-1', traceId: 'abc', deadlineAt: START + 5_020, payloadHash: 'hash-1' });
  expect(next).not.toHaveProperty('leaseExpiresAt');
});

describe('attempts and the deadline are examined at a claim', () => {
  test('the last failure closes the task at its next claim, with a new token, so that a copy that bears the old one is no redrive', () => {
    const record = after(claim({ attempts: 1 }), release({ delayMs: 0 }));
    const { next, leaseMs } = applied(record, claim({ attempts: 1, carriedToken: 1 }));
    expect(next).toMatchObject({ state: 'dead_lettered', fencingToken: 2, attempt: 1, deadLetterSent: false });
    expect(next.lastError).toMatchObject({
      errorClass: 'attempts-exhausted',
      message: '1 of 1 attempts failed (last: retryable: the provider was down)',
    });
    expect(leaseMs).toBeUndefined();
    expect(refused(next, claim({ carriedToken: 1 })).refused).toBe('dead-lettered');
  });

  test('an owner that died counts as a failure and is named', () => {
    const { next } = applied(after(claim({ attempts: 1 })), claim({ attempts: 1 }), LATER);
    expect(next).toMatchObject({ state: 'dead_lettered', failures: 1 });
    expect(next.lastError?.message).toContain('the lease of svc/a#1 ended');
  });

  test('drain, hand-off with progress, busy and human waits do not count', () => {
    const record = after(
      claim(),
      release({ failure: false }),
      claim(),
      handOff({ token: 2 }),
      claim(),
      askHuman({ token: 3 }),
      answer(),
      claim(),
    );
    expect(record).toMatchObject({ attempt: 4, failures: 0, fencingToken: 4 });
  });

  test('a passed deadline dead-letters, and with an open effect grants for closing only', () => {
    const past = at(LEASE_MS + 60_000);
    const dead = applied(after([claim({ deadlineMs: 60_000 }), at(0)]), claim({ deadlineMs: 60_000 }), past).next;
    expect(dead).toMatchObject({ state: 'dead_lettered', lastError: { errorClass: 'deadline' } });
    const closer = applied(
      after([claim({ deadlineMs: 60_000 }), at(0)], intend('create')),
      claim({ deadlineMs: 60_000 }),
      past,
    ).next;
    expect(closer).toMatchObject({
      state: 'running',
      fencingToken: 2,
      closing: { to: 'dead_lettered', errorClass: 'deadline' },
    });
  });

  test('the deadline counts from the first claim, and anew from the one that follows a reopening', () => {
    const record = after([claim({ deadlineMs: 60_000 }), at(0)], release(), claim({ deadlineMs: 60_000 }));
    expect(record.deadlineAt).toBe(START + 60_000);
    const dead = after(claim({ deadlineMs: 60_000 }), deadLetter(), { type: 'reopen', opId: 'x' });
    expect(dead).not.toHaveProperty('deadlineAt');
    expect(applied(dead, claim({ deadlineMs: 60_000 }), LATER).next.deadlineAt).toBe(LATER.latest + 60_000);
  });
});

describe('redrive', () => {
  const dead = after(
    claim(),
    intend('create'),
    checkpoint({ carry: finding('create', 'verified').carry }),
    deadLetter(),
  );

  test('the message that was dead-lettered last reopens the task: failures reset; token, effects and checkpoint kept', () => {
    const { next } = applied(dead, claim({ carriedToken: 1, deadlineMs: 1_000 }));
    expect(next).toMatchObject({
      state: 'running',
      fencingToken: 2,
      attempt: 2,
      failures: 0,
      deadlineAt: START + 1_100,
    });
    expect(next.effects['create']?.status).toBe('verified');
    expect(next.checkpoint).toEqual({ inline: { page: 3 } });
    expect([next.deadLetterSent, next.expiresAt]).toEqual([undefined, undefined]);
  });

  test.each([undefined, 0, 2, 7])('a message that bears token %s does not', (carriedToken) => {
    expect(refused(dead, claim(carriedToken === undefined ? {} : { carriedToken })).refused).toBe('dead-lettered');
  });

  test.each([
    ['swept', after(claim(), release(), sweep())],
    ['swept while it ran', after(claim(), [sweep(), LATER])],
    ['rejected by a person', after(claim(), askHuman(), answer({ approve: false }))],
  ])('a task that was %s is not reopened by a copy from before', (_, record) => {
    expect(record.state).toBe('dead_lettered');
    expect(refused(record, claim({ carriedToken: 1 })).refused).toBe('dead-lettered');
  });
});

describe('cancel', () => {
  test('before the first claim it leaves a tombstone that stops whatever bears the id, other payloads too', () => {
    const tombstone = after(cancel());
    expect(tombstone).toMatchObject({
      state: 'cancelled',
      version: 1,
      fencingToken: 0,
      expiresAt: START + RETENTION_MS,
    });
    expect(refused(tombstone, claim({ payloadHash: 'whatever', taskType: 'whatever' })).refused).toBe('cancelled');
  });

  test("it ends the holder's right at its next write", () => {
    expect(refused(after(claim(), cancel()), renew()).refused).toBe('cancelled');
  });

  test('with an effect open it is a request, which the next claimant closes if the holder died', () => {
    const closer = after(claim(), intend('a'), cancel(), [claim(), LATER]);
    expect(closer).toMatchObject({
      state: 'running',
      cancelRequested: true,
      fencingToken: 2,
      closing: { to: 'cancelled' },
    });
    const ended = applied(closer, endClose({ token: 2, ...finding('a', 'absent') }), LATER).next;
    expect(ended).toMatchObject({ state: 'cancelled', effects: { a: { status: 'absent', token: 2 } } });
  });

  test('a verified effect wins: the closer goes on, further effects may start, and the task settles', () => {
    const closer = after(
      claim(),
      intend('a'),
      cancel(),
      [claim(), LATER],
      [endClose({ token: 2, ...finding('a', 'verified') }), LATER],
    );
    expect(closer).toMatchObject({ state: 'running', effects: { a: { status: 'verified' } } });
    expect([closer.closing, closer.cancelRequested]).toEqual([undefined, undefined]);
    const settled = after(
      claim(),
      intend('a'),
      cancel(),
      renew(finding('a', 'verified')),
      intend('b'),
      settle(finding('b', 'verified')),
    );
    expect(settled.state).toBe('settled');
  });

  test('a verified effect does not keep a task alive whose attempts are exhausted', () => {
    const record = after(claim({ attempts: 1 }), intend('a'), cancel(), [claim({ attempts: 1 }), LATER]);
    expect(record.closing?.to).toBe('cancelled');
    const { next } = applied(
      { ...record, effects: { a: { ...record.effects['a'], status: 'verified' } as never } },
      claim({ attempts: 1 }),
      at(3 * LEASE_MS),
    );
    expect(next).toMatchObject({ state: 'dead_lettered', lastError: { errorClass: 'attempts-exhausted' } });
  });
});

describe('closing', () => {
  test('takes a new token under a fresh lease, and survives the crash of the closer', () => {
    const decision = applied(after(claim(), intend('a')), beginClose());
    expect(decision).toMatchObject({ leaseMs: LEASE_MS, next: { fencingToken: 2, closing: { to: 'dead_lettered' } } });
    const heir = after(claim(), intend('a'), beginClose(), [claim({ owner: 'svc/b#2' }), LATER]);
    expect(heir).toMatchObject({ fencingToken: 3, leaseOwner: 'svc/b#2', closing: { reason: 'no such customer' } });
    const drained = after(claim(), intend('a'), beginClose(), release({ token: 2 }), claim());
    expect(drained).toMatchObject({ state: 'running', fencingToken: 3, closing: { to: 'dead_lettered' } });
  });

  test('the read-backs may ride on the write that ends it', () => {
    const { next } = applied(
      after(claim(), intend('a'), beginClose()),
      endClose({ token: 2, ...finding('a', 'in_doubt') }),
    );
    expect(next).toMatchObject({ state: 'dead_lettered', fencingToken: 2, effects: { a: { status: 'in_doubt' } } });
  });
});

test("a settle may verify its effect in the same write, keeps what is read back, and bears the owner's token", () => {
  const { next, leaseMs, expect: condition } = applied(after(claim(), intend('a')), settle(finding('a', 'verified')));
  expect(next).toMatchObject({
    state: 'settled',
    stage: 'settled',
    settlementReceipt: { token: 1 },
    effects: { a: { status: 'verified', externalId: 'c-7' } },
  });
  expect({ leaseMs, condition }).toEqual({ leaseMs: undefined, condition: { version: 2, lease: 'live' } });
});

test('an approval keeps the envelope until the task is claimed, so that whoever sends it again may die first', () => {
  const approved = after(claim(), askHuman(), answer());
  expect(approved).toMatchObject({ state: 'queued', parked: { inline: { envelope: 'kept' } } });
  expect(applied(approved, claim()).next).not.toHaveProperty('parked');
});

test('a rejection leaves open effects in doubt', () => {
  const rejected = after(claim(), intend('a'), askHuman(), answer({ approve: false }));
  expect(rejected).toMatchObject({
    state: 'dead_lettered',
    effects: { a: { status: 'in_doubt' } },
    lastError: { errorClass: 'rejected' },
  });
});

test('a token is raised above what the guard knows, and never below our own', () => {
  expect(applied(after(claim()), raiseToken({ above: 7 })).next.fencingToken).toBe(8);
  expect(applied(after(claim()), raiseToken({ above: 0 })).next.fencingToken).toBe(2);
});

test('progress is kept as the last 8 claims; the same claim again is one claim', () => {
  const beats = Array.from({ length: 12 }, (_, page) =>
    renew({ carry: { progress: { stage: 'external_call', reason: `page ${page}` } } }),
  );
  const record = after(
    claim(),
    ...beats,
    renew({ carry: { progress: { stage: 'external_call', reason: 'page 11' } } }),
  );
  expect(record.history.map((entry) => entry.reason)).toEqual([4, 5, 6, 7, 8, 9, 10, 11].map((page) => `page ${page}`));
  expect(record).toMatchObject({
    stage: 'external_call',
    stageEnteredAt: START + 1,
    renewalReason: 'page 11',
    renewalCount: 13,
  });
});
