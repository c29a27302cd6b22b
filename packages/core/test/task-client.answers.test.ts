import { describe, expect, test } from 'vitest';
import { failBefore } from '../src/testing/index.ts';
import { type BrokerBench, FAILED } from './broker-bench.ts';
import { clientBench, running } from './client-bench.ts';

describe('people', () => {
  async function asked(bench: BrokerBench): Promise<void> {
    const lease = await running(bench);
    expect(await bench.done(bench.broker.askHuman(lease, 'may I?'))).toBe('done');
    await bench.drained();
    expect([bench.queue.messages, bench.record('t-0').state]).toEqual([[], 'waiting_human']);
  }

  test('a yes sends the parked message again, under the token it waits with', async () => {
    const bench = clientBench();
    await asked(bench);
    expect(await bench.done(bench.client.answer('t-0', { approve: true, reason: 'fine' }))).toMatchObject({
      done: true,
      sent: true,
    });
    expect(bench.queue.messages).toMatchObject([{ attributes: { leaseholdtaskid: 't-0', leaseholdtoken: '1' } }]);
    const { record, message } = await bench.lease();
    expect(record).toMatchObject({
      fencingToken: 2,
      failures: 0,
      human: [{ question: 'may I?', approved: true, reason: 'fine' }],
    });
    expect([message.payload, record.parked]).toEqual([1, undefined]);
  });

  test('a yes whose sending failed is completed by the same answer again', async () => {
    const bench = clientBench();
    await asked(bench);
    bench.brokerCalls.on('send', failBefore('denied'));
    expect(await bench.done(bench.client.answer('t-0', { approve: true, reason: 'fine' }))).toMatchObject({
      done: true,
      sent: false,
    });
    expect(await bench.done(bench.client.answer('t-0', { approve: true, reason: 'fine' }))).toMatchObject({
      done: true,
      sent: true,
    });
    expect((await bench.lease()).token).toBe(2);
  });

  test('a no dead-letters the task; a reopening sends its message again', async () => {
    const bench = clientBench();
    await asked(bench);
    expect(await bench.done(bench.client.answer('t-0', { approve: false, reason: 'no' }))).toMatchObject({
      done: true,
      sent: false,
    });
    expect(bench.record('t-0')).toMatchObject({
      state: 'dead_lettered',
      lastError: { errorClass: 'rejected', message: 'no' },
    });
    expect(await bench.done(bench.client.answer('t-0', { approve: true, reason: 'yes' }))).toMatchObject({
      done: false,
    });
    expect(await bench.done(bench.client.reopen('t-0'))).toMatchObject({ done: true, sent: true });
    expect((await bench.lease()).record).toMatchObject({ state: 'running', failures: 0 });
  });

  test('a reopening of what lies in the dead-letter queue leaves the moving to the broker, and its message is welcome', async () => {
    const bench = clientBench();
    const lease = await running(bench);
    await bench.done(bench.broker.deadLetter(lease, FAILED));
    await bench.drained();
    expect(await bench.done(bench.client.reopen('t-0'))).toMatchObject({ done: true, sent: false });
    bench.queue.redrive();
    expect((await bench.lease()).record).toMatchObject({ fencingToken: 2, failures: 0 });
  });

  test('an answer to a task that asked nobody changes nothing', async () => {
    const bench = clientBench();
    const lease = await running(bench);
    await bench.done(bench.broker.release(lease, { error: FAILED, failure: true }));
    await bench.drained();
    const { version } = bench.record('t-0');
    expect(await bench.done(bench.client.answer('t-0', { approve: true, reason: 'fine' }))).toMatchObject({
      done: false,
      sent: false,
    });
    expect([bench.record('t-0').version, bench.queue.messages.length]).toEqual([version, 1]);
  });
});
