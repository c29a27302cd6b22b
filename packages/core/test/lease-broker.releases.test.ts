import { describe, expect, test } from 'vitest';
import type { BrokerDriver } from '../src/driver.ts';
import type { Lease } from '../src/lease.ts';
import { dropAnswer, failBefore, hang } from '../src/testing/index.ts';
import { batches, brokerBench, FAILED, kinds, type BrokerBench } from './broker-bench.ts';

async function one(bench: BrokerBench, fields: { readonly groupId?: string } = {}): Promise<Lease> {
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0', ...fields }]));
  return bench.lease();
}
describe('a release', () => {
  test('waits in place where the broker keeps the delay', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    expect(await bench.done(bench.broker.release(lease, { error: FAILED, failure: true, delayMs: 30_000 }))).toBe(
      'done',
    );
    await bench.drained();
    expect([batches(bench.brokerCalls, 'send').length, bench.brokerCalls.callsOf('complete').length]).toEqual([1, 0]);
    await bench.clock.advance(29_000);
    expect(await bench.acquire()).toEqual([]);
    await bench.clock.advance(1_000);
    expect((await bench.lease()).record).toMatchObject({ fencingToken: 2, failures: 1, attempt: 2 });
  });

  test('is a delayed copy elsewhere: sent and confirmed before the old message is acknowledged, bearing id and token', async () => {
    const bench = brokerBench({ broker: { releaseDelayMs: 0 } });
    const lease = await one(bench, { groupId: 'fair-1' });
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true, delayMs: 30_000 }));
    await bench.drained();
    const order = bench.brokerCalls.calls.map(({ method }) => method).filter((method) => method !== 'receive');
    expect(order).toEqual(['send', 'send', 'complete']);
    const [, [copy] = []] = batches(bench.brokerCalls, 'send');
    expect(copy).toMatchObject({
      attributes: { leaseholdtaskid: 't-0', leaseholdtoken: '1' },
      deduplicationId: 't-0:1',
      delayMs: 30_000,
      groupId: 'fair-1',
    });
    await bench.clock.advance(30_000);
    expect((await bench.lease()).token).toBe(2);
  });

  test('leaves the old message where the copy is not confirmed', async () => {
    const bench = brokerBench({ broker: { releaseDelayMs: 0 } });
    const lease = await one(bench);
    bench.brokerCalls.on('send', failBefore('denied'));
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true, delayMs: 30_000 }));
    await bench.drained();
    expect(bench.brokerCalls.callsOf('complete')).toEqual([]);
    expect(bench.queue.messages.length).toBe(1);
  });

  test('stays in place, in its order, where there is one', async () => {
    const bench = brokerBench({ broker: { ordering: true, releaseDelayMs: 0 } });
    const lease = await one(bench, { groupId: 'g' });
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true, delayMs: 30_000 }));
    await bench.drained();
    expect(bench.brokerCalls.calls.map(({ method }) => method)).toEqual(['send', 'receive', 'release']);
  });

  test('whose first answer was lost is recognised, and the broker is told', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.ledgerCalls.on('put', dropAnswer());
    expect(await bench.done(bench.broker.release(lease, { error: FAILED, failure: true }))).toBe('done');
    await bench.drained();
    expect(bench.brokerCalls.callsOf('release').length).toBe(1);
    expect(bench.record('t-0')).toMatchObject({ state: 'queued', version: 2, failures: 1 });
  });

  test('tells the broker nothing while the ledger does not answer', async () => {
    const bench = brokerBench();
    const lease = await one(bench);
    bench.ledgerCalls.on('put', hang(), { times: 99 });
    expect(await bench.done(bench.broker.release(lease, { error: FAILED, failure: true }))).toBe('unknown');
    await bench.drained();
    expect(bench.brokerCalls.callsOf('release')).toEqual([]);
  });

  test('that asks for a longer delay than the broker keeps is copied again when it comes early, and never lost to deduplication', async () => {
    // A broker that drops what bears a deduplication id it has seen, and says yes all the same.
    const seen = new Set<string>();
    const deduplicating = (driver: BrokerDriver): BrokerDriver => ({
      ...driver,
      capabilities: driver.capabilities,
      async send(messages, signal) {
        const fresh = messages.filter(({ deduplicationId: id }) => id === undefined || !seen.has(id));
        for (const { deduplicationId: id } of messages) if (id !== undefined) seen.add(id);
        const sent = fresh.length > 0 ? await driver.send(fresh, signal) : [];
        return messages.map((message) => sent[fresh.indexOf(message)] ?? { messageId: 'dropped' });
      },
    });
    const bench = brokerBench({ broker: { releaseDelayMs: 0, sendDelayMs: 60_000 }, wrap: deduplicating });
    const lease = await one(bench);
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true, delayMs: 150_000 }));
    await bench.drained();
    for (const kind of ['handled: not-yet', 'handled: not-yet', 'lease']) {
      await bench.clock.advance(60_000);
      expect(kinds(await bench.acquire())).toEqual([kind]);
      await bench.drained();
      expect(bench.queue.messages.length).toBe(1);
    }
  });
});

test('a hand-off is a copy with nothing counted against it; with ordering it goes back in place', async () => {
  const bench = brokerBench();
  const lease = await one(bench);
  expect(await bench.done(bench.broker.handOff(lease, { reason: 'the function ends', progressed: true }))).toBe('done');
  await bench.drained();
  const [message] = bench.queue.messages;
  expect(message).toMatchObject({ deliveries: 0, attributes: { leaseholdtaskid: 't-0', leaseholdtoken: '1' } });
  expect((await bench.lease()).record).toMatchObject({ fencingToken: 2, failures: 0 });
  const ordered = brokerBench({ broker: { ordering: true } });
  const first = await one(ordered, { groupId: 'g' });
  await ordered.done(ordered.broker.handOff(first, { reason: 'the function ends', progressed: false }));
  await ordered.drained();
  expect([ordered.queue.messages.length, ordered.brokerCalls.callsOf('complete').length]).toEqual([1, 0]);
  expect((await ordered.lease()).record.failures).toBe(1);
});
