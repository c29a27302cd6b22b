import { describe, expect, test } from 'vitest';
import type { ContentStore } from '../src/content.ts';
import { stowResult } from '../src/content.ts';
import type { Lease } from '../src/lease.ts';
import { createTaskClient, type TaskClient } from '../src/task-client.ts';
import { taskIdOf } from '../src/envelope.ts';
import type { TaskStatus } from '../src/task-status.ts';
import { dropAnswer, failBefore, hang } from '../src/testing/index.ts';
import { brokerBench, FAILED, kinds, settlement, type BrokerBench } from './broker-bench.ts';
import { TIMING } from './lease-bench.ts';

function clientBench(
  parts: Partial<Parameters<typeof createTaskClient>[0]> = {},
): BrokerBench & { readonly client: TaskClient } {
  const bench = brokerBench();
  const client = createTaskClient({
    broker: bench.broker,
    ledger: bench.broker.ledger.driver,
    clock: bench.clock,
    ...parts,
  });
  return { ...bench, client };
}
async function running(bench: BrokerBench, fields: { readonly agentRunId?: string } = {}): Promise<Lease> {
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0', ...fields }]));
  return bench.lease();
}
async function intended(bench: BrokerBench): Promise<Lease> {
  const lease = await running(bench);
  const details = { key: 'k', system: 'crm' };
  await bench.done(
    lease.task.apply({ type: 'intend', effect: 'create', details, leaseMs: TIMING.leaseMs }, { repeat: true }),
  );
  return lease;
}
const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.unreachable('not rejected'),
    (error: unknown) => error,
  );

describe('status', () => {
  test('is unclaimed before the first claim, since enqueueing writes nothing', async () => {
    const { client, broker, done, ledgerCalls } = clientBench();
    const [sent] = await done(client.enqueue([{ type: 'charge', input: 1 }]));
    expect(sent).toMatchObject({ ok: true });
    expect(await done(client.status(sent?.taskId ?? ''))).toEqual({
      taskId: sent?.taskId,
      state: 'unclaimed',
      live: false,
    });
    expect(ledgerCalls.callsOf('put')).toEqual([]);
    expect(broker.name).toBe('memory');
  });

  test('tells whether the lease still counts, how long, and how old the last progress is', async () => {
    const bench = clientBench();
    const lease = await running(bench);
    await bench.done(bench.broker.renew(lease, { stage: 'external_call', reason: 'page 1' }));
    await bench.clock.advance(40_000);
    const now = await bench.done(bench.client.status('t-0'));
    expect(now).toMatchObject({ state: 'running', live: true, progressAgeMs: 40_000 });
    expect(now.remainingMs).toBe(TIMING.leaseMs - 40_000);
    await bench.clock.advance(60_000);
    expect(await bench.done(bench.client.status('t-0'))).toMatchObject({
      state: 'running',
      live: false,
      remainingMs: 0,
    });
  });

  test('is an error where the ledger does not answer: never a guess', async () => {
    const bench = clientBench();
    bench.ledgerCalls.on('get', hang());
    expect(await bench.done(outcome(bench.client.status('t-0')))).toMatchObject({ code: 'unavailable' });
  });
});

describe('watch', () => {
  test('gives every change once, that a lease ended included, and ends with the task', async () => {
    const bench = clientBench();
    const seen: string[] = [];
    const watching = (async () => {
      for await (const { state, live } of bench.client.watch('t-0')) seen.push(`${state}${live ? ' live' : ''}`);
    })();
    await bench.clock.advance(5_000);
    await running(bench);
    await bench.clock.advance(TIMING.leaseMs + 5_000);
    const again = await bench.lease();
    await bench.clock.advance(5_000);
    await bench.done(bench.broker.settle(again, settlement(again)));
    await bench.done(watching);
    expect(seen).toEqual(['unclaimed', 'running live', 'running', 'running live', 'settled']);
    expect(bench.clock.pending).toBe(0);
  });

  test('asks less often while nothing changes', async () => {
    const bench = clientBench();
    const stop = new AbortController();
    const watching = outcome(
      (async () => {
        for await (const { state } of bench.client.watch('t-0', { signal: stop.signal }))
          expect(state).toBe('unclaimed');
      })(),
    );
    await bench.clock.advance(60_000);
    const asked = bench.ledgerCalls.callsOf('get').length;
    expect(asked).toBeGreaterThan(25);
    expect(asked).toBeLessThan(80);
    stop.abort(new Error('enough'));
    expect(await bench.done(watching)).toMatchObject({ message: 'enough' });
    expect(bench.clock.pending).toBe(0);
  });

  test('outlives lost answers, and ends with the error when they go on', async () => {
    const bench = clientBench();
    const states: TaskStatus['state'][] = [];
    bench.ledgerCalls.on('get', failBefore('throttled'), { times: 4 });
    const watching = outcome(
      (async () => {
        for await (const { state } of bench.client.watch('t-0')) states.push(state);
      })(),
    );
    await bench.clock.advance(10_000);
    expect(states).toEqual(['unclaimed']);
    bench.ledgerCalls.on('get', failBefore('throttled'), { times: 99 });
    expect(await bench.done(watching)).toMatchObject({ code: 'unavailable' });
  });
});

describe('wait', () => {
  test('resolves with result, receipt and effects', async () => {
    const bench = clientBench();
    const waiting = bench.client.wait('t-0');
    const lease = await intended(bench);
    lease.task.carryFinding('create', { status: 'verified', externalId: 'c-7', externalStatus: 'open' });
    await bench.done(bench.broker.settle(lease, settlement(lease, { result: { inline: { caseId: 'c-7' } } })));
    const end = await bench.done(waiting);
    expect(end).toMatchObject({
      state: 'settled',
      result: { caseId: 'c-7' },
      receipt: { token: 1 },
      effects: { create: { status: 'verified' } },
    });
    expect(bench.clock.pending).toBe(0);
  });

  test('reads a large result from the content store, and refuses bytes that were changed', async () => {
    const kept = new Map<string, Uint8Array>();
    const store: ContentStore = {
      put: async ({ sha256, bytes }) => {
        kept.set(sha256, bytes);
        return sha256;
      },
      get: async (ref) => kept.get(ref) ?? new Uint8Array(),
    };
    const bench = clientBench({ contentStore: store });
    const lease = await running(bench);
    const result = await stowResult('x'.repeat(10_000), { store, signal: new AbortController().signal });
    await bench.done(bench.broker.settle(lease, settlement(lease, { ...(result && { result }) })));
    expect((await bench.done(bench.client.wait('t-0'))).result).toBe('x'.repeat(10_000));
    for (const ref of kept.keys()) kept.set(ref, new TextEncoder().encode('"y"'));
    expect(await bench.done(outcome(bench.client.wait('t-0')))).toMatchObject({ code: 'unavailable' });
  });

  test.each([
    ['dead_lettered', (bench: BrokerBench, lease: Lease) => bench.broker.deadLetter(lease, FAILED)],
    ['cancelled', (bench: BrokerBench & { readonly client: TaskClient }) => bench.client.cancel('t-0')],
  ] as const)('resolves with %s as well', async (state, act) => {
    const bench = clientBench();
    const waiting = bench.client.wait('t-0');
    const lease = await running(bench);
    await bench.done<unknown>(act(bench, lease));
    expect(await bench.done(waiting)).toMatchObject({ state });
  });

  test('rejects after its time, while the ledger is away too, and leaves no timer and no listener', async () => {
    const bench = clientBench();
    const stop = new AbortController();
    await running(bench);
    const began = bench.clock.monotonic();
    const waiting = outcome(bench.client.wait('t-0', { timeoutMs: 30_000, signal: stop.signal }));
    expect(await bench.done(waiting)).toMatchObject({ code: 'timeout' });
    expect(bench.clock.monotonic() - began).toBe(30_000);
    bench.ledgerCalls.on('get', hang(), { times: 99 });
    expect(
      await bench.done(outcome(bench.client.wait('t-0', { timeoutMs: 5_000, signal: stop.signal }))),
    ).toMatchObject({ code: 'timeout' });
    expect(bench.clock.pending).toBe(0);
  });
});

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

describe('dispatch', () => {
  const steps = [
    { step: 'charge', type: 'charge', input: 1 },
    { step: 'mail', type: 'mail', input: 2 },
  ];

  test('twice starts nothing twice: the ids are those of run and step', async () => {
    const bench = clientBench();
    const once = await bench.done(bench.client.dispatch('run-1', steps));
    const twice = await bench.done(bench.client.dispatch('run-1', steps));
    expect(twice.map(({ taskId }) => taskId)).toEqual(once.map(({ taskId }) => taskId));
    expect(new Set(once.map(({ taskId }) => taskId)).size).toBe(2);
    const other = await bench.done(bench.client.dispatch('run-2', steps));
    expect(other[0]?.taskId).not.toBe(once[0]?.taskId);
    const leases = await bench.acquire({ max: 4 });
    expect(kinds(leases)).toEqual(['lease', 'lease', 'busy', 'busy']);
    expect(bench.record(once[0]?.taskId ?? '')).toMatchObject({
      agentRunId: 'run-1',
      idempotencyKey: expect.any(String) as string,
    });
  });

  test('refuses a plan that names a type nobody registered, before anything is sent', () => {
    const bench = clientBench({ types: ['charge'] });
    expect(() => bench.client.dispatch('run-1', steps)).toThrow(/step mail asks for the type mail.*\(charge\)/);
    expect(bench.brokerCalls.calls).toEqual([]);
  });
});

test('enqueueing without an id takes the id of the meaning, or a new one; without a broker it is refused with the remedy', async () => {
  const bench = clientBench();
  const [keyed, fresh, other] = await bench.done(
    bench.client.enqueue([
      { type: 'a', input: 1, idempotencyKey: 'k' },
      { type: 'a', input: 1 },
      { type: 'a', input: 1 },
    ]),
  );
  expect(keyed?.taskId).toBe(taskIdOf('a', 'k'));
  expect(fresh?.taskId).not.toBe(other?.taskId);
  const blind = createTaskClient({ ledger: bench.broker.ledger.driver, clock: bench.clock });
  expect(() => blind.enqueue([])).toThrow(/broker is missing.*Pass one to createTaskClient/);
});

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
});
