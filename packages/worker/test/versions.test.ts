import { expect, test } from 'vitest';
import {
  createLeaseBroker,
  createTaskClient,
  hashJson,
  recordFromWire,
  recordToWire,
  subscribe,
  virtualClock,
  type Json,
  type LeaseholdEvent,
  type LedgerDriver,
  type TaskRecord,
} from '@leasehold/core';
import { memoryBroker, memoryLedger, memoryQueue, memoryTable } from '@leasehold/core/memory';
import { createWorker, defineTask } from '@leasehold/worker';

/** A worker of the next minor version: it writes fields that this one does not know, at the top and inside. */
function newerLedger(inner: LedgerDriver): LedgerDriver {
  const newer = (record: TaskRecord): TaskRecord => {
    const wire = { ...recordToWire(record), schema_version: '1.7', region: { name: 'eu', weights: [1, 2] } };
    const effects = Object.entries(
      wire['effects' as keyof typeof wire] as unknown as Record<string, Record<string, Json>>,
    ).map(([name, effect]) => [name, { ...effect, price_cents: 700 }] as const);
    return recordFromWire({ ...wire, effects: Object.fromEntries(effects) });
  };
  return { ...inner, put: (next, lease, expect_, signal) => inner.put(newer(next), lease, expect_, signal) };
}

function scene() {
  const clock = virtualClock();
  const queue = memoryQueue();
  const table = memoryTable();
  const made = new Set<string>();
  const calls: string[] = [];
  let blocked: 'old' | 'new' | undefined;
  const worker = (name: 'old' | 'new') => {
    const ledger = memoryLedger({ table, clock });
    const broker = createLeaseBroker({
      driver: memoryBroker({ queue, clock }),
      ledger: name === 'new' ? newerLedger(ledger) : ledger,
      clock,
    });
    const task = defineTask({
      type: 'charge',
      lease: '9s',
      async run(_input, ctx) {
        await ctx.effect('pay', {
          system: 'bank',
          receiver: 'idempotent',
          commit: ({ idempotencyKey }) => {
            calls.push(`${name}:pay`);
            made.add(idempotencyKey);
          },
          readBack: ({ idempotencyKey }) => (made.has(idempotencyKey) ? { id: 'P-1' } : undefined),
          receipt: (found) => ({ externalId: found.id, status: 'paid' }),
        });
        // Dies between commit and settle.
        if (blocked === name) await new Promise(() => undefined);
        return { by: name };
      },
    });
    return {
      broker,
      worker: createWorker({
        broker,
        tasks: [task],
        signals: false,
        drain: 0,
        abortGrace: 0,
        logger: { warn: () => undefined },
      }),
    };
  };
  const client = () =>
    createTaskClient({
      broker: createLeaseBroker({
        driver: memoryBroker({ queue, clock }),
        ledger: memoryLedger({ table, clock }),
        clock,
      }),
      ledger: memoryLedger({ table, clock }),
      clock,
    });
  return { clock, queue, table, calls, worker, client, block: (name: 'old' | 'new' | undefined) => (blocked = name) };
}

test.each([
  ['new', 'old'],
  ['old', 'new'],
] as const)(
  'a %s worker dies between commit and settle and an %s one ends the task: one effect, one settle, no field lost',
  async (first, second) => {
    const s = scene();
    s.block(first);
    await s.client().enqueue([{ type: 'charge', input: {}, taskId: 't-1' }]);
    const dying = s.worker(first);
    void dying.worker.run();
    await s.clock.advance(1_000);
    expect(s.table.records[0]).toMatchObject({ state: 'running', fencingToken: 1 });
    // Neither renews nor acknowledges any more.
    const stopped = dying.worker.stop();
    await s.clock.advance(60_000);
    await stopped;

    s.block(undefined);
    const ending = s.worker(second);
    void ending.worker.run();
    await s.clock.advance(60_000);
    const [record] = s.table.records;
    expect(record).toMatchObject({ state: 'settled', result: { inline: { by: second } }, schemaVersion: '1.7' });
    expect(record?.extra).toMatchObject({ region: { name: 'eu', weights: [1, 2] } });
    expect(record && recordToWire(record)).toMatchObject({
      effects: { pay: { status: 'verified', price_cents: 700 } },
    });
    expect(s.calls).toEqual([`${first}:pay`]);
    await Promise.all([ending.worker.stop(), s.clock.advance(1_000)]);
    expect(s.queue.messages).toEqual([]);
  },
);

test('a record of a newer major version is left untouched, its message stays, and it is counted', async () => {
  const s = scene();
  const events: LeaseholdEvent[] = [];
  const stop = subscribe((event) => events.push(event));
  await s.client().enqueue([{ type: 'charge', input: {}, taskId: 't-1' }]);
  const foreign = recordFromWire({
    schema_version: '2.0',
    task_id: 't-1',
    task_type: 'charge',
    state: 'hibernating',
    version: 3,
    payload_hash: hashJson({}),
  });
  await memoryLedger({ table: s.table, clock: s.clock }).put(
    foreign,
    undefined,
    { version: 0 },
    new AbortController().signal,
  );
  const before = JSON.stringify(s.table.records);
  const old = s.worker('old');
  void old.worker.run();
  await s.clock.advance(5_000);
  expect(JSON.stringify(s.table.records)).toBe(before);
  expect(s.calls).toEqual([]);
  expect(s.queue.messages).toHaveLength(1);
  expect(events.filter(({ name, reason }) => name === 'task_deferred' && reason === 'newer-schema')).not.toEqual([]);
  await Promise.all([old.worker.stop(), s.clock.advance(60_000)]);
  stop();
});

test('a message older than the retention of the ledger never restarts the tokens of a record that is gone', async () => {
  const clock = virtualClock();
  const queue = memoryQueue();
  const retentionMs = 1_000;
  const parts = () => ({ driver: memoryBroker({ queue, clock }), ledger: memoryLedger({ clock }), clock, retentionMs });
  const runs: number[] = [];
  const task = defineTask({ type: 'charge', lease: '9s', run: (_input, ctx) => void runs.push(ctx.fence) });
  await createLeaseBroker(parts()).enqueue([{ type: 'charge', input: {}, taskId: 't-1' }]);
  await clock.advance(retentionMs + 1);
  // Another table than the one that knew the task: as after its record was cleaned up.
  const worker = createWorker({ broker: createLeaseBroker(parts()), tasks: [task], signals: false });
  void worker.run();
  await clock.advance(5_000);
  expect(runs).toEqual([]);
  expect(queue.deadLetters).toMatchObject([{ reason: 'older-than-ledger' }]);
  await Promise.all([worker.stop(), clock.advance(1_000)]);
});
