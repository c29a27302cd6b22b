import { describe, expect, test } from 'vitest';
import type { Lease } from '../src/lease.ts';
import { dropAnswer, failBefore, hang } from '../src/testing/index.ts';
import { brokerBench, FAILED, kinds, settlement, type BrokerBench } from './broker-bench.ts';
import { TIMING } from './lease-bench.ts';

const PERMANENT = { errorClass: 'permanent', code: 'E', message: 'no such customer' } as const;

async function one(bench: BrokerBench): Promise<Lease> {
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0' }]));
  return bench.lease();
}
async function deadLettered(bench: BrokerBench): Promise<void> {
  const lease = await one(bench);
  expect(await bench.done(bench.broker.deadLetter(lease, PERMANENT))).toBe('done');
  await bench.drained();
}

describe('the two halves of a dead-lettering', () => {
  test('the ledger first, then the queue, then the note that it is done', async () => {
    const bench = brokerBench();
    await deadLettered(bench);
    expect(bench.record('t-0')).toMatchObject({ state: 'dead_lettered', deadLetterSent: true, lastError: PERMANENT });
    expect(bench.queue.messages).toEqual([]);
    expect(bench.queue.deadLetters).toMatchObject([
      {
        reason: 'permanent',
        description: 'no such customer',
        attributes: { leaseholdtaskid: 't-0', leaseholdtoken: '1' },
      },
    ]);
  });

  test('a crash between them is mended by the next delivery, which is rejected again and never just acknowledged', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.brokerCalls.on('reject', hang(), { times: 99 });
    await bench.done(bench.broker.deadLetter(lease, PERMANENT));
    await bench.drained();
    expect(bench.record('t-0').deadLetterSent).toBe(false);
    bench.brokerCalls.reset();
    await bench.clock.advance(TIMING.leaseMs);
    expect(kinds(await bench.acquire())).toEqual(['handled: dead-lettered']);
    await bench.drained();
    expect(bench.record('t-0')).toMatchObject({ deadLetterSent: true, attempt: 1 });
    expect([bench.queue.messages.length, bench.queue.deadLetters.length]).toEqual([0, 1]);
    expect(bench.brokerCalls.callsOf('complete')).toEqual([]);
  });

  test('a crash between them after the last attempt runs nothing either, although the message is a copy that bears a token', async () => {
    const bench = brokerBench({ broker: { releaseDelayMs: 0 } });
    const lease = await one(bench);
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true, delayMs: 1_000 }));
    await bench.drained();
    await bench.clock.advance(1_000);
    bench.brokerCalls.on('reject', failBefore('unavailable'), { times: 99 });
    expect(kinds(await bench.acquire({ policy: { attempts: 1 } }))).toEqual(['handled: dead-lettered']);
    bench.brokerCalls.reset();
    await bench.clock.advance(TIMING.leaseMs);
    expect(kinds(await bench.acquire({ policy: { attempts: 1 } }))).toEqual(['handled: dead-lettered']);
    expect(bench.record('t-0')).toMatchObject({ state: 'dead_lettered', attempt: 1, deadLetterSent: true });
  });

  test('without a dead-letter queue the message stays, as far away as the broker can put it', async () => {
    const bench = brokerBench({ broker: { deadLetter: 'none' } });
    await deadLettered(bench);
    expect(bench.record('t-0')).toMatchObject({ state: 'dead_lettered', deadLetterSent: false });
    expect(bench.queue.messages.length).toBe(1);
    expect(bench.brokerCalls.callsOf('complete')).toEqual([]);
    await bench.clock.advance(15 * 60_000);
    expect(kinds(await bench.acquire())).toEqual(['handled: dead-lettered']);
    expect(bench.queue.messages.length).toBe(1);
  });

  test('without a dead-letter queue and without a delay an unreadable message does not come round and round', async () => {
    const bench = brokerBench({ broker: { deadLetter: 'none', releaseDelayMs: 0, sendDelayMs: 0 } });
    bench.put('{');
    const from = bench.clock.monotonic();
    for (let round = 0; round < 3; round++) expect(kinds(await bench.acquire())).toEqual(['handled: undecodable']);
    expect(bench.clock.monotonic() - from).toBeGreaterThanOrEqual(3_000);
  });

  test('a lost answer of the note is no second dead letter', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.ledgerCalls.on('put', dropAnswer(), { nth: 2 });
    await bench.done(bench.broker.deadLetter(lease, PERMANENT));
    await bench.drained();
    expect([bench.record('t-0').deadLetterSent, bench.queue.deadLetters.length]).toEqual([true, 1]);
  });
});

describe('redrive', () => {
  test("by the provider's own button: the message bears the current token, so the task runs again from where it was", async () => {
    const bench = brokerBench();
    await deadLettered(bench);
    expect(bench.queue.redrive()).toBe(1);
    const lease = await bench.lease();
    expect(lease.record).toMatchObject({ fencingToken: 2, attempt: 2, failures: 0 });
    expect(await bench.done(bench.broker.settle(lease, settlement(lease)))).toBe('settled');
    await bench.drained();
    expect(bench.queue.messages).toEqual([]);
  });

  test('of a task whose attempts were exhausted works as well', async () => {
    const bench = brokerBench();
    await one(bench);
    await bench.clock.advance(TIMING.leaseMs);
    expect(kinds(await bench.acquire({ policy: { attempts: 1 } }))).toEqual(['handled: dead-lettered']);
    await bench.drained();
    bench.queue.redrive();
    expect((await bench.lease({ policy: { attempts: 1 } })).record).toMatchObject({ failures: 0, attempt: 2 });
  });

  test('of an older dead letter does not reopen what was dead-lettered since', async () => {
    const bench = brokerBench();
    await deadLettered(bench);
    const stale = bench.queue.deadLetters[0];
    bench.queue.redrive();
    const lease = await bench.lease();
    await bench.done(bench.broker.deadLetter(lease, PERMANENT));
    await bench.drained();
    bench.put(new TextDecoder().decode(stale?.body), stale?.attributes);
    expect(kinds(await bench.acquire())).toEqual(['handled: dead-lettered']);
    expect(bench.record('t-0')).toMatchObject({ state: 'dead_lettered', attempt: 2 });
  });
});

describe('closing a task with an open effect', () => {
  async function open(bench: BrokerBench): Promise<Lease> {
    const lease = await one(bench);
    const details = { key: 'k', system: 'crm' };
    await bench.done(
      lease.task.apply({ type: 'intend', effect: 'create', details, leaseMs: TIMING.leaseMs }, { repeat: true }),
    );
    return lease;
  }

  test('a dead-lettering is refused until the effect was read back under a new token', async () => {
    const bench = brokerBench();
    const lease = await open(bench);
    expect(await bench.done(bench.broker.deadLetter(lease, PERMANENT))).toMatchObject({
      refused: { refused: 'effect-open' },
    });
    const closing = { to: 'dead_lettered', reason: PERMANENT.message, errorClass: 'permanent' } as const;
    expect(await bench.done(bench.broker.beginClose(lease, closing))).toBe('done');
    expect([lease.token, lease.ownership]).toEqual([2, 'held']);
    expect(await bench.done(bench.broker.endClose(lease))).toMatchObject({ refused: { refused: 'effect-open' } });
    lease.task.carryFinding('create', { status: 'in_doubt' });
    expect(await bench.done(bench.broker.endClose(lease))).toBe('done');
    await bench.drained();
    expect(bench.record('t-0')).toMatchObject({
      state: 'dead_lettered',
      effects: { create: { status: 'in_doubt', token: 2 } },
    });
    expect(bench.queue.deadLetters).toMatchObject([{ attributes: { leaseholdtoken: '2' } }]);
  });

  test('whose closer dies is closed by the next claimant, under its token', async () => {
    const bench = brokerBench();
    const lease = await open(bench);
    await bench.done(bench.broker.beginClose(lease, { to: 'cancelled', reason: 'r', errorClass: 'cancelled' }));
    await bench.clock.advance(TIMING.leaseMs + 1_000);
    const heir = await bench.lease();
    expect(heir.record).toMatchObject({ fencingToken: 3, closing: { to: 'cancelled' } });
    heir.task.carryFinding('create', { status: 'absent' });
    expect(await bench.done(bench.broker.endClose(heir))).toBe('done');
    await bench.drained();
    expect([bench.record('t-0').state, bench.queue.messages.length]).toEqual(['cancelled', 0]);
    expect(await bench.done(bench.broker.settle(lease, settlement(lease)))).toMatchObject({ lost: 'deadline' });
  });
});
