import { describe, expect, test } from 'vitest';
import { stowResult } from '../src/content.ts';
import type { Lease } from '../src/lease.ts';
import type { Json } from '../src/json.ts';
import { delayAnswer, dropAnswer, failEntries, hang, hangDeaf, unconfirmedEntries } from '../src/testing/index.ts';
import { batches, brokerBench, FAILED, kinds, settlement, type BrokerBench } from './broker-bench.ts';

async function enqueued(bench: BrokerBench, count: number): Promise<readonly Lease[]> {
  const tasks = Array.from({ length: count }, (_, index) => ({ type: 'charge', input: index, taskId: `t-${index}` }));
  await bench.done(bench.broker.enqueue(tasks));
  const leases: Lease[] = [];
  for (let taken = 0; taken < count; taken += 10) {
    for (const one of await bench.acquire()) if (one.kind === 'lease') leases.push(one);
  }
  expect(leases.length).toBe(count);
  return leases;
}

test('case 9: a settle waits for the renewal that is on its way; nothing fails, nothing is rejected', async () => {
  const bench = brokerBench();
  const [lease] = (await enqueued(bench, 1)) as [Lease];
  bench.ledgerCalls.on('put', delayAnswer(500));
  const beat = bench.broker.renew(lease, { stage: 'external_call', reason: 'page 1' });
  await bench.clock.advance(100);
  const settled = bench.broker.settle(lease, settlement(lease));
  expect(await bench.done(Promise.all([beat, settled]))).toEqual(['held', 'settled']);
  await bench.drained();
  expect(bench.queue.messages).toEqual([]);
  expect(bench.events.map(({ name }) => name)).toEqual(['task_claimed', 'heartbeat_ok', 'task_settled']);
  expect(bench.clock.pending).toBe(0);
});

test('case 11: a release while a renewal is pending leaves no timer, and the ledger stays released', async () => {
  const bench = brokerBench();
  const [lease] = (await enqueued(bench, 1)) as [Lease];
  bench.ledgerCalls.on('put', delayAnswer(200));
  const beat = bench.broker.renew(lease, { stage: 'external_call', reason: 'page 1' });
  await bench.clock.advance(100);
  const released = bench.broker.release(lease, { error: FAILED, failure: true });
  expect(await bench.done(Promise.all([beat, released]))).toEqual(['held', 'done']);
  await bench.drained();
  expect(bench.clock.pending).toBe(0);
  const { version } = bench.record('t-0');
  await bench.clock.advance(300_000);
  expect(bench.record('t-0')).toMatchObject({ state: 'queued', version });
});

test('case 13: a first claim that was stored and whose answer was dropped gives one lease, not none and not two', async () => {
  const bench = brokerBench();
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0' }]));
  bench.ledgerCalls.on('put', dropAnswer());
  expect((await bench.lease()).token).toBe(1);
  expect(bench.record('t-0')).toMatchObject({ attempt: 1, version: 1 });
});

describe('case 15: an acknowledgement without an answer', () => {
  test('that was applied is followed by no release and no rejection', async () => {
    const bench = brokerBench({ broker: { staleHandle: 'silent' } });
    const [lease] = (await enqueued(bench, 1)) as [Lease];
    bench.brokerCalls.on('complete', dropAnswer(60_000));
    expect(await bench.done(bench.broker.settle(lease, settlement(lease)))).toBe('settled');
    await bench.drained();
    expect(bench.brokerCalls.callsOf('complete').length).toBe(2);
    expect([bench.brokerCalls.callsOf('release'), bench.brokerCalls.callsOf('reject')]).toEqual([[], []]);
    expect(bench.queue.messages).toEqual([]);
  });

  test('that was lost is reconciled from the ledger when the message comes again, and the handler is not rerun', async () => {
    const bench = brokerBench();
    const [lease] = (await enqueued(bench, 1)) as [Lease];
    bench.brokerCalls.on('complete', hang(), { times: 99 });
    await bench.done(bench.broker.settle(lease, settlement(lease)));
    await bench.drained();
    expect(bench.brokerCalls.callsOf('release')).toEqual([]);
    bench.brokerCalls.reset();
    await bench.clock.advance(100_000);
    const [again] = await bench.acquire();
    expect(again).toMatchObject({ kind: 'replay', receipt: { token: 1, status: 'done' } });
    await bench.drained();
    expect(bench.queue.messages).toEqual([]);
    expect(bench.record('t-0').attempt).toBe(1);
  });
});

describe('case 20: what a task means', () => {
  const shuffled = { z: 1, Z: [1, 2], é: { b: 1, a: 2 } };

  test('does not depend on the order of keys: the same task sent again is a duplicate', async () => {
    const bench = brokerBench();
    const ordered = { é: { a: 2, b: 1 }, Z: [1, 2], z: 1 };
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: shuffled, taskId: 't-0' }]));
    const lease = await bench.lease();
    await bench.done(bench.broker.settle(lease, settlement(lease)));
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: ordered, taskId: 't-0' }]));
    expect(kinds(await bench.acquire())).toEqual(['replay']);
  });

  test('does depend on the order of arrays: another task under the same id is dead-lettered, never acknowledged', async () => {
    const bench = brokerBench();
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: shuffled, taskId: 't-0' }]));
    const lease = await bench.lease();
    await bench.done(bench.broker.settle(lease, settlement(lease)));
    await bench.drained();
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: { ...shuffled, Z: [2, 1] }, taskId: 't-0' }]));
    expect(kinds(await bench.acquire())).toEqual(['handled: task-id-reused']);
    expect(bench.queue.deadLetters.map(({ reason }) => reason)).toEqual(['task-id-reused']);
  });
});

describe('case 21: of a batch of ten acknowledgements', () => {
  test('two that failed are tried again, and those alone', async () => {
    const bench = brokerBench();
    const leases = await enqueued(bench, 10);
    bench.brokerCalls.on(
      'complete',
      failEntries('throttled', (index) => index === 2 || index === 7),
    );
    await bench.done(Promise.all(leases.map((lease) => bench.broker.settle(lease, settlement(lease)))));
    await bench.drained();
    const [first, second, ...rest] = batches(bench.brokerCalls, 'complete');
    expect([first?.length, second, rest]).toEqual([10, [first?.[2], first?.[7]], []]);
    expect(bench.queue.messages).toEqual([]);
  });

  test('all are unconfirmed where the answer lists no successes', async () => {
    const bench = brokerBench({ broker: { staleHandle: 'silent' } });
    const leases = await enqueued(bench, 10);
    bench.brokerCalls.on('complete', unconfirmedEntries());
    await bench.done(Promise.all(leases.map((lease) => bench.broker.settle(lease, settlement(lease)))));
    await bench.drained();
    expect(batches(bench.brokerCalls, 'complete').map((batch) => batch.length)).toEqual([10, 10]);
  });
});

test('case 22: 23 messages settled at once are acknowledged in calls of 10, 10 and 3, each handle once', async () => {
  const bench = brokerBench();
  const leases = await enqueued(bench, 23);
  await bench.done(Promise.all(leases.map((lease) => bench.broker.settle(lease, settlement(lease)))));
  await bench.drained();
  const calls = batches(bench.brokerCalls, 'complete');
  expect(calls.map((batch) => batch.length)).toEqual([10, 10, 3]);
  expect(new Set(calls.flat()).size).toBe(23);
});

test('case 26: a close with five acknowledgements queued and one on its way ends after six confirmations; one after it is refused', async () => {
  const bench = brokerBench({ broker: { maxBatch: { send: 10, receive: 10, handles: 1 } } });
  const leases = await enqueued(bench, 7);
  const last = leases[6] as Lease;
  bench.brokerCalls.on('complete', delayAnswer(300), { times: 6 });
  for (const lease of leases.slice(0, 6)) await bench.done(bench.broker.settle(lease, settlement(lease)));
  await bench.done(bench.broker.close());
  const confirmed = bench.brokerCalls.callsOf('complete').filter(({ ended }) => ended && 'value' in ended);
  expect(confirmed.length).toBe(6);
  expect(bench.queue.messages.length).toBe(1);
  expect(await bench.done(bench.broker.handBack(last.held, 0))).toEqual({ failed: 'unavailable' });
  expect(bench.clock.pending).toBe(0);
});

test('case 27: a client that hangs when it is closed holds up nobody, and its late rejection is counted', async () => {
  const bench = brokerBench();
  bench.brokerCalls.on('close', hangDeaf(60_000));
  const began = bench.clock.monotonic();
  await bench.done(bench.broker.close());
  expect(bench.clock.monotonic() - began).toBeLessThanOrEqual(5_000);
  expect(bench.ledgerCalls.callsOf('close').length).toBe(1);
  await bench.clock.advance(60_000);
  expect(bench.events.map(({ name }) => name)).toEqual(['warning', 'late_answer']);
});

describe('case 36: of the bodies [valid, "{", "", valid]', () => {
  const body = (id: string): string =>
    JSON.stringify({ specversion: '1.0', id, source: 'leasehold', type: 'charge', data: 1 });

  test('two run, and exactly two are dead-lettered, each with its reason', async () => {
    const bench = brokerBench();
    for (const text of [body('t-0'), '{', '', body('t-1')]) bench.put(text);
    expect(kinds(await bench.acquire())).toEqual(['lease', 'handled: undecodable', 'handled: undecodable', 'lease']);
    expect(bench.queue.deadLetters.map(({ reason, description }) => [reason, description])).toEqual([
      ['undecodable', 'body is not JSON.'],
      ['undecodable', 'body is empty; send a JSON document.'],
    ]);
  });

  test('none is deleted where there is no dead-letter queue: the two come back, as late as the broker can', async () => {
    const bench = brokerBench({ broker: { deadLetter: 'none', releaseDelayMs: 60_000 } });
    for (const text of [body('t-0'), '{', '', body('t-1')]) bench.put(text);
    const acquired = await bench.acquire();
    expect(acquired.map((one) => one.kind === 'handled' && one.acknowledged)).toEqual([false, false, false, false]);
    expect(bench.queue.messages.length).toBe(4);
    await bench.clock.advance(59_000);
    expect(await bench.acquire()).toEqual([]);
    await bench.clock.advance(1_000);
    expect(kinds(await bench.acquire())).toEqual(['handled: undecodable', 'handled: undecodable']);
  });
});

test('case 38: messages are measured in bytes, attributes included, and one that is too large fails alone', async () => {
  const bench = brokerBench({ broker: { maxBatchBytes: 262_144 } });
  const input = '中'.repeat(80_000);
  const outcomes = await bench.done(
    bench.broker.enqueue([
      { type: 'charge', input, taskId: 't-0' },
      { type: 'charge', input: '中'.repeat(90_000), taskId: 't-1' },
      { type: 'charge', input, taskId: 't-2' },
      { type: 'charge', input, taskId: 't-3' },
    ]),
  );
  expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true, true]);
  expect(outcomes[1]).toMatchObject({
    taskId: 't-1',
    code: 'bad-task',
    message: expect.stringContaining('262144') as string,
  });
  expect(batches(bench.brokerCalls, 'send').map((batch) => batch.length)).toEqual([1, 1, 1]);
});

describe('case 45: the completion counts', () => {
  class Ticket {
    readonly #secret = 1;
    readonly id = 7;
    peek(): number {
      return this.#secret;
    }
  }
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  const results: readonly (readonly [string, unknown, unknown])[] = [
    ['450 kB', 'x'.repeat(450_000), { bytes: 450_002, sha256: expect.any(String) as string }],
    ['nothing', undefined, undefined],
    ['a class instance', new Ticket(), { inline: { id: 7 } }],
    ['an object with undefined in it', { a: undefined, b: [undefined] }, { inline: { b: [null] } }],
    ['a cycle', cycle, { omitted: expect.stringContaining('$.self') as string }],
    ['a bigint', 1n, { omitted: expect.any(String) as string }],
  ];
  test.each(results)('whatever the result is: %s', async (_, value, kept) => {
    const bench = brokerBench();
    const [lease] = (await enqueued(bench, 1)) as [Lease];
    const result = await stowResult(value, { signal: new AbortController().signal });
    expect(await bench.done(bench.broker.settle(lease, settlement(lease, { ...(result && { result }) })))).toBe(
      'settled',
    );
    await bench.drained();
    expect(bench.record('t-0').result).toEqual(kept);
    expect(bench.queue.messages).toEqual([]);
  });

  test('names that stores reserve are names like any other', async () => {
    const bench = brokerBench();
    const input: Json = { ttl: 1, state: 2, owner: 3, ['__proto__']: 4 };
    await bench.done(bench.broker.enqueue([{ type: 'ttl', input, taskId: 'ttl' }]));
    const lease = await bench.lease();
    expect(lease.message.payload).toEqual(input);
    expect(await bench.done(bench.broker.settle(lease, settlement(lease, { result: { inline: input } })))).toBe(
      'settled',
    );
    expect(bench.record('ttl').result).toEqual({ inline: input });
  });
});

test('case 49: a thousand empty polls are no event, and leave nothing behind', async () => {
  const bench = brokerBench();
  for (let poll = 0; poll < 1_000; poll++) {
    expect(await bench.broker.receive({ max: 10, leaseMs: 90_000, waitMs: 0 })).toEqual([]);
  }
  expect([bench.events, bench.clock.pending]).toEqual([[], 0]);
});
