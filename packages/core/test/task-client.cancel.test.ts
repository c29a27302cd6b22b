import { describe, expect, test } from 'vitest';
import type { Lease } from '../src/lease.ts';
import { dropAnswer } from '../src/testing/index.ts';
import { createTaskClient } from '../src/task-client.ts';
import { kinds, settlement } from './broker-bench.ts';
import { clientBench, intended, running } from './client-bench.ts';
import { TIMING } from './lease-bench.ts';

describe('cancel', () => {
  test('before the first claim leaves a tombstone; the message is acknowledged when it comes', async () => {
    const bench = clientBench();
    await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0' }]));
    expect(await bench.done(bench.client.cancel('t-0'))).toEqual([{ taskId: 't-0', outcome: 'cancelled' }]);
    expect(kinds(await bench.acquire())).toEqual(['handled: cancelled']);
    await bench.drained();
    expect(bench.queue.messages).toEqual([]);
    expect(bench.record('t-0')).toMatchObject({ state: 'cancelled', attempt: 0 });
  });

  test("ends the owner's right; with an effect open it is a request that the next claimant carries out", async () => {
    const plain = clientBench();
    const lease = await running(plain);
    expect(await plain.done(plain.client.cancel('t-0'))).toMatchObject([{ outcome: 'cancelled' }]);
    expect(await plain.done(plain.broker.settle(lease, settlement(lease)))).toMatchObject({ lost: 'cancelled' });
    const open = clientBench();
    await intended(open);
    expect(await open.done(open.client.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    expect(await open.done(open.client.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    await open.clock.advance(TIMING.leaseMs + 1_000);
    expect((await open.lease()).record).toMatchObject({ cancelRequested: true, closing: { to: 'cancelled' } });
  });

  test('of a task that waits for a person with an effect open sends its message again, for an owner to read it back', async () => {
    const bench = clientBench();
    const lease = await intended(bench);
    expect(await bench.done(bench.broker.askHuman(lease, 'Does the charge exist?'))).toBe('done');
    await bench.drained();
    expect(bench.queue.messages).toEqual([]);
    expect(await bench.done(bench.client.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    expect((await bench.lease()).record).toMatchObject({ cancelRequested: true, closing: { to: 'cancelled' } });
  });

  test('that could not send a parked message is completed by the next one', async () => {
    const bench = clientBench();
    const lease = await intended(bench);
    await bench.done(bench.broker.askHuman(lease, 'Does the charge exist?'));
    await bench.drained();
    const alone = createTaskClient({ ledger: bench.broker.ledger.driver, clock: bench.clock });
    expect(await bench.done(alone.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    expect(bench.queue.messages).toEqual([]);
    expect(await bench.done(bench.client.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    expect(bench.queue.messages).toHaveLength(1);
  });

  test('of a task whose message its consumer keeps leaves it to the person, who can still end it', async () => {
    const bench = clientBench();
    const lease = await intended(bench);
    const parked = { omitted: "it is its consumer's own" };
    const question = 'Does the charge exist?';
    await bench.done(lease.task.apply({ type: 'ask-human', question, parked }, { repeat: true }));
    expect(await bench.done(bench.client.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    expect(await bench.done(bench.client.cancel('t-0'))).toMatchObject([{ outcome: 'requested' }]);
    const no = await bench.done(bench.client.answer('t-0', { approve: false, reason: 'it does not' }));
    expect(no).toMatchObject({ done: true });
  });

  test('is refused, with the cause, where there is nothing to cancel any more', async () => {
    const bench = clientBench();
    const lease = await running(bench);
    await bench.done(bench.broker.settle(lease, settlement(lease)));
    expect(await bench.done(bench.client.cancel('t-0'))).toMatchObject([{ outcome: 'refused', cause: 'settled' }]);
  });

  test('whose answer was lost is recognised', async () => {
    const bench = clientBench();
    await running(bench);
    bench.ledgerCalls.on('put', dropAnswer());
    expect(await bench.done(bench.client.cancel('t-0'))).toEqual([{ taskId: 't-0', outcome: 'cancelled' }]);
    expect(bench.record('t-0').version).toBe(2);
  });

  test('whose answer was lost counts as requested even if the owner wrote since', async () => {
    const bench = clientBench();
    const lease = await intended(bench);
    bench.ledgerCalls.on('put', dropAnswer(5_000));
    const cancelling = bench.client.cancel('t-0');
    await bench.clock.advance(1_000);
    expect(await bench.done(bench.broker.renew(lease, { stage: 'commit', reason: 'create' }))).toBe('held');
    expect(await bench.done(cancelling)).toEqual([{ taskId: 't-0', outcome: 'requested' }]);
    expect(lease.record.cancelRequested).toBe(true);
  });

  test('of a run reaches every recorded task of it, those included that are written meanwhile, and no other', async () => {
    const bench = clientBench();
    const tasks = Array.from({ length: 130 }, (_, index) => ({
      type: 'charge',
      input: 1,
      taskId: `t-${index}`,
      agentRunId: 'run-1',
    }));
    await bench.done(
      bench.broker.enqueue([...tasks, { type: 'charge', input: 1, taskId: 'other', agentRunId: 'run-2' }]),
    );
    const leases: Lease[] = [];
    for (let call = 0; call < 14; call++) {
      for (const one of await bench.acquire()) if (one.kind === 'lease') leases.push(one);
      await bench.clock.advance(10);
    }
    expect(leases.length).toBe(131);
    const first = leases[0] as Lease;
    // Renewed while the first page is cancelled, the oldest record moves to the front, behind the reader's back.
    bench.ledgerCalls.on('list', async (call) => {
      const page = await call.apply();
      await first.task.apply({ type: 'renew', leaseMs: TIMING.leaseMs }, { repeat: false });
      return page;
    });
    const outcomes = await bench.done(bench.client.cancel({ agentRunId: 'run-1' }, 'the plan changed'));
    expect(outcomes.length).toBe(130);
    expect(bench.table.records.filter(({ state }) => state === 'running').map(({ taskId }) => taskId)).toEqual([
      'other',
    ]);
    expect(bench.record('t-7').lastError?.message).toBe('the plan changed');
  });
});
