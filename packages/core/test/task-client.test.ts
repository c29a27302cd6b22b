import { describe, expect, test } from 'vitest';
import { type ContentStore, stowResult } from '../src/content.ts';
import type { Lease } from '../src/lease.ts';
import { createTaskClient, type TaskClient } from '../src/task-client.ts';
import { taskIdOf } from '../src/envelope.ts';
import type { TaskStatus } from '../src/task-status.ts';
import { failBefore, hang } from '../src/testing/index.ts';
import { type BrokerBench, FAILED, kinds, settlement } from './broker-bench.ts';
import { clientBench, intended, outcome, running } from './client-bench.ts';
import { TIMING } from './lease-bench.ts';

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
    // The acknowledgement may wait for others, so that one call takes all.
    await bench.drained();
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
    const waiting = bench.client.wait('t-0', { timeoutMs: 600_000 });
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
    expect(await bench.done(waiting)).toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('It goes on') as string,
    });
    expect(bench.clock.monotonic() - began).toBe(30_000);
    bench.ledgerCalls.on('get', hang(), { times: 99 });
    expect(
      await bench.done(outcome(bench.client.wait('t-0', { timeoutMs: 5_000, signal: stop.signal }))),
    ).toMatchObject({ code: 'timeout' });
    expect(bench.clock.pending).toBe(0);
  });

  test('does not say of a task that nobody claimed that it goes on', async () => {
    const bench = clientBench();
    const error = await bench.done(outcome(bench.client.wait('t-0', { timeoutMs: 30_000 })));
    expect(error).toMatchObject({ code: 'timeout', message: expect.stringContaining('nobody enqueued it') as string });
    expect(String(error)).not.toContain('It goes on');
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
