import { describe, expect, test } from 'vitest';
import { cloudEvents, type TaskCodec } from '../src/envelope.ts';
import type { Lease } from '../src/lease.ts';
import type { FollowUp } from '../src/record.ts';
import { delayAnswer, dropAnswer, failBefore } from '../src/testing/index.ts';
import { batches, brokerBench, FAILED, kinds, OWNER, settlement, type BrokerBench } from './broker-bench.ts';
import { TIMING } from './lease-bench.ts';
import { RETENTION_MS } from './task-events.ts';

async function one(bench: BrokerBench, fields: { readonly groupId?: string } = {}): Promise<Lease> {
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0', ...fields }]));
  return bench.lease();
}
const puts = (bench: BrokerBench): number => bench.ledgerCalls.callsOf('put').length;
const PERMANENT = { errorClass: 'permanent', code: 'E', message: 'no such customer' } as const;

describe('what a task costs the ledger', () => {
  test('without effects: two writes', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    await bench.done(bench.broker.settle(lease, settlement(lease)));
    await bench.drained();
    expect([puts(bench), bench.ledgerCalls.callsOf('get').length]).toEqual([2, 1]);
  });

  test('with one effect: three, since what was read back rides on the settle', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    const details = { key: 'k', system: 'crm' };
    await bench.done(
      lease.task.apply({ type: 'intend', effect: 'create', details, leaseMs: TIMING.leaseMs }, { repeat: true }),
    );
    lease.task.carryFinding('create', { status: 'verified', externalId: 'c-7', externalStatus: 'open' });
    expect(await bench.done(bench.broker.settle(lease, settlement(lease)))).toBe('settled');
    await bench.drained();
    expect(puts(bench)).toBe(3);
    expect(bench.record('t-0').effects['create']).toMatchObject({ status: 'verified', externalId: 'c-7' });
  });
});

describe('a duplicate of a task that somebody works on', () => {
  test('is busy: never acknowledged, never copied, and still there when the owner is gone', async () => {
    const bench = brokerBench();
    await one(bench);
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0' }]));
    const [busy] = await bench.acquire();
    expect(busy).toMatchObject({ kind: 'busy', taskId: 't-0' });
    expect(busy?.kind === 'busy' && busy.waitMs).toBeGreaterThan(TIMING.leaseMs - 1_000);
    await bench.drained();
    expect(bench.brokerCalls.callsOf('complete')).toEqual([]);
    expect(batches(bench.brokerCalls, 'send').length).toBe(2);
    expect(bench.queue.messages.length).toBe(2);
    expect(bench.events.map(({ name }) => name)).toContain('duplicate_delivery');
    await bench.clock.advance(TIMING.leaseMs + 1_000);
    expect(kinds(await bench.acquire())).toEqual(['lease', 'busy']);
    expect(bench.record('t-0')).toMatchObject({ fencingToken: 2, failures: 1 });
  });

  test('can be parked and handed back', async () => {
    const bench = brokerBench();
    await one(bench);
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0' }]));
    const [busy] = await bench.acquire();
    if (busy?.kind !== 'busy') throw new Error('not busy');
    await bench.clock.advance(60_000);
    expect(await bench.done(bench.broker.extend(busy, 90_000))).toBe('done');
    await bench.clock.advance(60_000);
    expect(bench.queue.inFlight.length).toBe(1);
    expect(await bench.done(bench.broker.handBack(busy.held, 5_000))).toBe('done');
  });
});

describe('a replay', () => {
  const next: readonly FollowUp[] = [0, 1].map((index) => ({
    taskId: `t-0:next:${index}`,
    type: 'mail',
    idempotencyKey: `k-${index}`,
    input: { index },
  }));

  test('of a settled task sends what its owner did not get to send, then acknowledges', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.brokerCalls.on('send', failBefore('unavailable'), { times: 99 });
    await bench.done(bench.broker.settle(lease, settlement(lease, { next })));
    await bench.drained();
    expect(bench.record('t-0').next).toEqual(next);
    expect(bench.brokerCalls.callsOf('complete')).toEqual([]);
    bench.brokerCalls.reset();
    await bench.clock.advance(TIMING.leaseMs);
    const [replay] = await bench.acquire({ max: 1 });
    expect(replay).toMatchObject({ kind: 'replay', receipt: { status: 'done', token: 1 } });
    await bench.drained();
    expect(bench.record('t-0')).not.toHaveProperty('next');
    expect(bench.queue.messages.map(({ attributes }) => attributes['leaseholdtaskid'])).toEqual([
      't-0:next:0',
      't-0:next:1',
    ]);
    expect(bench.events.filter(({ name }) => name === 'follow_ups_sent')).toMatchObject([{ count: 2 }]);
  });

  test('of a settled task whose follow-ups were sent and not noted sends them again, and the record is rid of them', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    // The settle is the first write from here, the note the second.
    bench.ledgerCalls.on('put', failBefore('unavailable'), { nth: 2 });
    await bench.done(bench.broker.settle(lease, settlement(lease, { next })));
    await bench.drained();
    expect(bench.record('t-0').next).toEqual(next);
    expect(bench.brokerCalls.callsOf('complete')).toEqual([]);
    await bench.clock.advance(TIMING.leaseMs);
    expect(kinds(await bench.acquire({ max: 1 }))).toContain('replay');
    await bench.drained();
    expect(bench.record('t-0')).not.toHaveProperty('next');
    expect(bench.brokerCalls.callsOf('complete').length).toBe(1);
  });

  test('whose codec throws stays unacknowledged, and the rest of the batch runs', async () => {
    const ours = cloudEvents();
    const codec: TaskCodec = {
      decode: (message) => ours.decode(message),
      encode(task) {
        if (task.type === 'mail') throw new TypeError('no such format');
        return ours.encode(task);
      },
    };
    const bench = brokerBench({ codec });
    const lease = await one(bench);
    await bench.done(bench.broker.settle(lease, settlement(lease, { next })));
    await bench.drained();
    await bench.clock.advance(TIMING.leaseMs);
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: 2, taskId: 't-1' }]));
    expect(kinds(await bench.acquire())).toEqual(['replay', 'lease']);
    expect(bench.queue.messages.length).toBe(2);
    const [failed, sent] = await bench.done(
      bench.broker.enqueue([
        { type: 'mail', input: 1 },
        { type: 'charge', input: 1 },
      ]),
    );
    expect([failed, sent]).toMatchObject([{ ok: false, code: 'bad-task' }, { ok: true }]);
  });
});

describe('what cannot be worked on here', () => {
  test('older than the ledger: dead-lettered, never created anew', async () => {
    const bench = brokerBench();
    await one(bench);
    const body = JSON.stringify({ specversion: '1.0', id: 't-9', source: 'leasehold', type: 'charge', data: 1 });
    bench.put(body, { leaseholdtaskid: 't-9', leaseholdtoken: '4' });
    expect(kinds(await bench.acquire())).toEqual(['handled: older-than-ledger']);
    expect(bench.queue.deadLetters).toMatchObject([
      { reason: 'older-than-ledger', attributes: { leaseholdtoken: '4' } },
    ]);
    bench.put(body);
    await bench.clock.advance(RETENTION_MS);
    expect(kinds(await bench.acquire())).toContain('handled: older-than-ledger');
  });

  test('a record of a newer major version is left as it is, its message given back and counted', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    const newer = { ...lease.record, schemaVersion: '2.0', version: 2, extra: { shape: 'unknown' } };
    await bench.broker.ledger.put(newer, undefined, { version: 1, lease: 'any' }, 1_000);
    const before = bench.record('t-0');
    await bench.done(bench.broker.handBack(lease.held, 0));
    expect(kinds(await bench.acquire())).toEqual(['handled: newer-schema']);
    expect(await bench.done(bench.broker.settle(lease, settlement(lease)))).toMatchObject({ lost: 'newer-schema' });
    expect(bench.record('t-0')).toEqual(before);
    expect(bench.queue.messages.length).toBe(1);
    expect(bench.events.at(-1)).toMatchObject({ reason: 'newer-schema' });
  });

  test('a type that is not ours, and one that has to wait, are given back unclaimed; a rule that throws harms no other', async () => {
    const bench = brokerBench();
    await bench.done(bench.broker.enqueue(['a', 'b', 'c', 'd'].map((type) => ({ type, input: 1, taskId: type }))));
    const policy = { timing: TIMING, attempts: 3, retentionMs: RETENTION_MS };
    const acquired = await bench.done(
      bench.broker.acquire({
        max: 10,
        leaseMs: TIMING.leaseMs,
        waitMs: 0,
        owner: OWNER,
        policy({ taskType }) {
          if (taskType === 'a') return 'refuse';
          if (taskType === 'b') return { deferMs: 2_000 };
          if (taskType === 'c') throw new Error('no such rule');
          return policy;
        },
      }),
    );
    expect(kinds(acquired)).toEqual(['handled: refused-type', 'handled: deferred', 'handled: unanswered', 'lease']);
    expect(bench.table.records.map(({ taskId }) => taskId)).toEqual(['d']);
  });

  test('a delivery whose lease is over is dropped unstarted', async () => {
    const bench = brokerBench();
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0' }]));
    const [held] = await bench.broker.receive({ max: 1, leaseMs: 30_000, waitMs: 0 });
    if (!held) throw new Error('nothing received');
    await bench.clock.advance(30_000);
    const policy = { timing: TIMING, attempts: 3, retentionMs: RETENTION_MS };
    expect(await bench.done(bench.broker.adopt(held, { owner: OWNER, policy: () => policy }))).toMatchObject({
      why: 'lapsed-delivery',
    });
    expect(bench.table.records).toEqual([]);
  });
});

describe('an extension and the end of a delivery', () => {
  test('one that has not left is called off', async () => {
    const bench = brokerBench({ broker: { staleHandle: 'silent' } });
    const lease = await one(bench);
    await bench.done(bench.broker.renew(lease, { stage: 'external_call', reason: 'page 1' }));
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true }));
    await bench.drained();
    expect(bench.brokerCalls.calls.map(({ method }) => method)).toEqual(['send', 'receive', 'release']);
  });

  test('one on its way is waited for, and not tried again', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.brokerCalls.on('extend', delayAnswer(3_000));
    await bench.done(bench.broker.renew(lease, { stage: 'external_call', reason: 'page 1' }));
    await bench.clock.advance(1_000);
    const began = bench.clock.monotonic();
    await bench.done(bench.broker.settle(lease, settlement(lease)));
    await bench.drained();
    const [completed] = bench.brokerCalls.callsOf('complete');
    expect((completed?.at ?? 0) - began).toBeGreaterThanOrEqual(2_000);
    expect(bench.queue.messages).toEqual([]);
  });

  test('a renewal whose broker half fails is an event and no loss', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.brokerCalls.on('extend', dropAnswer(0, 'denied'), { times: 9 });
    expect(await bench.done(bench.broker.renew(lease, { stage: 'commit', reason: 'page 1' }))).toBe('held');
    await bench.drained();
    expect(lease.ownership).toBe('held');
    expect(bench.events.at(-1)).toMatchObject({ name: 'broker_call_failed', errorCode: 'denied' });
    expect(await bench.done(bench.broker.deadLetter(lease, PERMANENT))).toBe('done');
  });
});
