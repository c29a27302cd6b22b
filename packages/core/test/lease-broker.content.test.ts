import { expect, test } from 'vitest';
import type { LeaseholdEvent } from '../src/channel.ts';
import type { BrokerDriver } from '../src/driver.ts';
import { cloudEvents } from '../src/envelope.ts';
import { LeaseholdError } from '../src/errors.ts';
import { sha256 } from '../src/json.ts';
import type { Acquired, Lease } from '../src/lease.ts';
import { createTaskClient } from '../src/task-client.ts';
import { brokerBench, FAILED, kinds, settlement, type BrokerBench } from './broker-bench.ts';
import { TIMING } from './lease-bench.ts';

const MARKER = 'marker-7f3a';
/** How else the marker could be spelled. */
const TRACES = [
  MARKER,
  Buffer.from(MARKER).toString('base64'),
  Buffer.from(MARKER).toString('hex'),
  encodeURIComponent(MARKER),
];

/** A driver whose handles and errors hold what must not be seen. */
function marked(driver: BrokerDriver): BrokerDriver {
  const plain = (handle: unknown): unknown => (handle as { readonly plain: unknown }).plain;
  const failing = (): Promise<never> =>
    Promise.reject(new Error(`${MARKER}: credentials`, { cause: { body: MARKER } }));
  return {
    ...driver,
    capabilities: driver.capabilities,
    async receive(ask, signal) {
      const deliveries = await driver.receive(ask, signal);
      return deliveries.map((delivery) => ({ ...delivery, handle: { secret: MARKER, plain: delivery.handle } }));
    },
    complete: (handles, signal) => driver.complete(handles.map(plain), signal),
    reject: (handle, why, signal) => driver.reject(plain(handle), why, signal),
    release: failing,
    extend: failing,
    send: (messages, signal) => (messages.length === 1 ? failing() : driver.send(messages, signal)),
    classify: (error) => (error instanceof Error && error.message.includes(MARKER) ? 'denied' : driver.classify(error)),
  };
}

const leaseIn = (acquired: readonly Acquired[]): Lease => {
  const found = acquired.find((one): one is Lease => one.kind === 'lease');
  if (!found) throw new Error('no lease');
  return found;
};

async function everything(bench: BrokerBench): Promise<void> {
  const { broker, done } = bench;
  const input = { [MARKER]: MARKER };
  const task = (index: number): { readonly type: string; readonly input: unknown; readonly taskId: string } => ({
    type: 'charge',
    input,
    taskId: `t-${index}`,
  });
  await done(broker.enqueue([task(0), task(1)]));
  await done(broker.enqueue([task(2)]));
  bench.put(`{"${MARKER}`);
  bench.put(
    JSON.stringify({ specversion: '1.0', id: 'x', source: 'leasehold', type: 'charge', data: { [MARKER]: 0 } }).replace(
      ':0}',
      ':1e999}',
    ),
  );
  bench.put(JSON.stringify({ specversion: '1.0', id: 'y', source: 'leasehold', type: 'codec', data: MARKER }));
  const acquired = await bench.acquire();
  expect(kinds(acquired).filter((kind) => kind === 'handled: undecodable').length).toBe(3);
  const lease = leaseIn(acquired);
  await done(broker.renew(lease, { stage: 'external_call', reason: MARKER }));
  bench.ledgerCalls.on('put', () => Promise.reject(new Error(MARKER)));
  await done(broker.renew(lease, { stage: 'external_call', reason: MARKER }));
  await done(
    broker.settle(
      lease,
      settlement(lease, {
        result: { inline: MARKER },
        next: [{ taskId: 'n', type: 'mail', idempotencyKey: 'k', input: MARKER }],
      }),
    ),
  );
  const other = leaseIn(acquired.filter((one) => one !== lease));
  await done(broker.release(other, { error: { ...FAILED, message: MARKER }, failure: true }));
  await bench.drained();
  await bench.clock.advance(TIMING.leaseMs);
  for (const again of await bench.acquire()) {
    if (again.kind === 'lease') await done(broker.deadLetter(again, { ...FAILED, message: MARKER }));
  }
  await bench.drained();
  await done(broker.close());
}

test('case 48: a marker in bodies, handles, results, checkpoints and errors of codec, driver and store is in no event', async () => {
  const ours = cloudEvents();
  const bench = brokerBench({
    wrap: marked,
    codec: {
      decode(message) {
        const decoded = ours.decode(message);
        if (decoded.type === 'codec') throw new Error(`cannot read ${JSON.stringify(decoded.payload)}`);
        return decoded;
      },
      encode: (task) => ours.encode(task),
    },
  });
  await everything(bench);
  const names = new Set(bench.events.map(({ name }) => name));
  const expected: readonly LeaseholdEvent['name'][] = [
    'task_claimed',
    'heartbeat_ok',
    'heartbeat_unknown',
    'task_settled',
    'task_released',
    'task_dead_lettered',
    'broker_call_failed',
    'task_replayed',
  ];
  expect(expected.filter((name) => !names.has(name))).toEqual([]);
  const seen = JSON.stringify(bench.events);
  expect(TRACES.filter((trace) => seen.includes(trace))).toEqual([]);
});

test('case 48: an event names a payload by its hash, and the hash alone', async () => {
  const bench = brokerBench();
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: MARKER, taskId: 't-0' }]));
  await bench.lease();
  expect(bench.events).toMatchObject([{ name: 'task_claimed', payloadHash: sha256(JSON.stringify(MARKER)) }]);
});

test('case 48: an error for the caller bears the cause beside its text, never in it', async () => {
  const bench = brokerBench();
  bench.ledgerCalls.on('get', () => Promise.reject(new Error(MARKER)), { times: 9 });
  const client = createTaskClient({ ledger: bench.broker.ledger.driver, clock: bench.clock });
  const error: unknown = await bench.done(client.status('t-0')).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(LeaseholdError);
  expect((error as Error).message).not.toContain(MARKER);
  expect((error as Error).cause).toBeInstanceOf(Error);
});
