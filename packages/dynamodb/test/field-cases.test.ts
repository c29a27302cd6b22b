import { createRequire } from 'node:module';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { createLeaseBroker, type LedgerDriver } from '@leasehold/core';
import { memoryBroker } from '@leasehold/core/memory';
import { kinds } from '@leasehold/emulators';
import { createWorker, defineTask, type AnyTask, type InputSchema, type TaskContext } from '@leasehold/worker';
import { after, claimed, machine, never, type Machine, type Table } from './machine.ts';

const anything: InputSchema<unknown> = {
  '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
};

let one: Machine;
let table: Table;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  table = await one.table({ table: 'field-cases' });
  one.server.faults.reset();
});
afterEach(() => table.dispose());

const define = (run: (input: unknown, ctx: TaskContext) => Promise<unknown>, lease = '90s'): AnyTask =>
  defineTask({ type: 'work', input: anything, lease, run: run as () => Promise<never> });

/** Lets a worker run a task named `task` until something holds, and stops it. */
async function work(
  ledger: LedgerDriver,
  task: AnyTask,
  holds: () => boolean | Promise<boolean>,
  ms = 60_000,
): Promise<void> {
  const broker = createLeaseBroker({ driver: memoryBroker({ clock: one.clock }), ledger, clock: one.clock });
  await broker.enqueue([{ type: 'work', input: {}, idempotencyKey: 'k', taskId: 'task' }]);
  const worker = createWorker({ broker, tasks: [task] });
  const running = worker.run();
  expect(await one.time.until(holds, ms)).toBe(true);
  let stopped = false;
  void worker.stop().then(() => (stopped = true));
  expect(await one.time.until(() => stopped, 60_000)).toBe(true);
  await running;
}

const settled = (ledger: LedgerDriver) => async (): Promise<boolean> =>
  (await ledger.get('task', never())).record?.state === 'settled';

test('field case 45: results with undefined, class instances or no JSON form are completed once', async () => {
  class Money {
    readonly amount = 5;
    readonly of = undefined;
  }
  for (const result of [
    { a: undefined, money: new Money() },
    new Money(),
    [undefined],
    { at: new Date(0) },
    7n,
    () => 1,
  ]) {
    await table.dispose();
    table = await one.table({ table: 'field-cases' });
    const ledger = table.ledger();
    let ran = 0;
    await work(
      ledger,
      define(async () => (ran++, result)),
      settled(ledger),
    );
    expect(ran).toBe(1);
  }
});

test('field case 45: of a result of 450 kB the digest is kept, and the receipt commits', async () => {
  const ledger = table.ledger();
  let ran = 0;
  await work(
    ledger,
    define(async () => (ran++, { text: 'x'.repeat(450_000) })),
    settled(ledger),
  );
  expect(ran).toBe(1);
  const { record } = await ledger.get('task', never());
  expect(record?.result).toMatchObject({ bytes: 450_011 });
  expect(JSON.stringify(record?.result)).toMatch(/"sha256":"[0-9a-f]{64}"/);
  expect(record?.settlementReceipt?.status).toBe('done');
});

test('field case 45: a record whose time for the clean-up has passed is still what it is: claimable, or settled', async () => {
  const ledger = table.ledger();
  const past = 1_000;
  const free = await ledger.put(
    claimed('free', { state: 'queued', expiresAt: past }),
    undefined,
    { version: 0 },
    never(),
  );
  if (!free.ok) throw new Error('refused');
  expect((await table.item('task#free'))?.['ttl']).toEqual({ N: '1' });
  const taken = after(free.record, { state: 'running', fencingToken: 2 });
  expect(await ledger.put(taken, { ms: 60_000 }, { version: 1, lease: 'lapsed' }, never())).toMatchObject({ ok: true });
  // Held: the service must not throw it away.
  expect((await table.item('task#free'))?.['ttl']).toBeUndefined();
  await ledger.put(claimed('done', { state: 'settled', expiresAt: past }), undefined, { version: 0 }, never());
  expect(await ledger.put(claimed('done'), { ms: 1_000 }, { version: 0 }, never())).toMatchObject({
    ok: false,
    current: { state: 'settled' },
  });
});

test('field case 45: no name is written out in an expression, and every read that decides is consistent', async () => {
  const [ledger, guard] = [table.ledger(), table.guard()];
  await ledger.open(never());
  const made = await ledger.put(claimed('a'), { ms: 60_000 }, { version: 0 }, never());
  if (!made.ok) throw new Error('refused');
  await ledger.put(after(made.record), { ms: 60_000 }, { version: 1, lease: 'live' }, never());
  await ledger.put(after(made.record), { ms: 60_000 }, { version: 1, lease: 'lapsed' }, never());
  await ledger.list({ limit: 5, states: ['running'] }, never());
  await ledger.list({ limit: 5 }, never());
  await guard.begin(
    { scope: 's', key: 'k', hold: 'h', token: 1, requestHash: 'r', holdMs: 1, retentionMs: 1 },
    never(),
  );
  await guard.finish({ scope: 's', key: 'k', hold: 'other' }, 'free', never());
  const operations = new Set(one.server.faults.log.map(({ operation }) => operation));
  expect([...operations].sort()).toEqual(['DescribeTable', 'GetItem', 'PutItem', 'Query', 'Scan']);
  for (const { operation, request } of one.server.faults.log) {
    const { json } = request;
    for (const field of ['ConditionExpression', 'KeyConditionExpression', 'FilterExpression', 'ProjectionExpression']) {
      const names = JSON.stringify(json[field] ?? '').replace(/attribute_(?:not_)?exists|begins_with|AND|OR/g, '');
      expect(names.match(/(?<![#:\w])[A-Za-z]\w*/g), `${operation} ${field}`).toBeNull();
    }
    if (operation === 'GetItem' || operation === 'Scan') expect(json['ConsistentRead']).toBe(true);
  }
});

test('field case 46: throttled twice, then OK: the lease is kept and the work done', async () => {
  const ledger = table.ledger();
  let ran = 0;
  const throttled = one.server.faults.on('PutItem', kinds.failBefore('throttled'), { nth: 2, times: 2 });
  await work(
    ledger,
    define(async () => ({ ran: ++ran })),
    settled(ledger),
  );
  expect([throttled.hits, ran]).toEqual([2, 1]);
  expect((await ledger.get('task', never())).record).toMatchObject({ fencingToken: 1, attempt: 1, failures: 0 });
});

test('field case 46: credentials that expired are asked for again, by the client itself', async () => {
  let asked = 0;
  const credentials = async () => {
    asked++;
    // The SDK renews what is about to expire; its own clock is the machine's.
    return { accessKeyId: `key-${asked}`, secretAccessKey: 'secret', expiration: new Date(Date.now() + 1_000) };
  };
  const ledger = table.ledger({ credentials });
  for (let read = 0; read < 3; read++) await ledger.get('task', never());
  expect(asked).toBeGreaterThan(1);
  const used = one.server.faults.log.map(
    ({ request }) => /Credential=(key-\d+)/.exec(String(request.headers['authorization']))?.[1],
  );
  expect(new Set(used).size).toBeGreaterThan(1);
});

test('field case 46: with credentials expired for good a lease that cannot be renewed aborts on time, and nothing is written after', async () => {
  const ledger = table.ledger();
  const startedAt = one.clock.monotonic();
  let abortedAt = 0;
  let cause: unknown;
  const task = define(
    (_, { signal }) =>
      new Promise((resolve) => {
        one.server.faults.on('PutItem', kinds.failBefore('expired'), { times: Infinity });
        signal.addEventListener('abort', () => {
          abortedAt = one.clock.monotonic();
          cause = signal.reason as unknown;
          resolve({ late: true });
        });
      }),
    '30s',
  );
  await work(ledger, task, () => abortedAt > 0, 120_000);
  expect(abortedAt - startedAt).toBeLessThanOrEqual(30_000 + 1_000);
  expect(cause).toMatchObject({ reason: 'lost' });
  one.server.faults.reset();
  expect((await ledger.get('task', never())).record).toMatchObject({ state: 'running', version: 1 });
});

test('a client of the user is used as it is, left open, and left without our middleware; one that shows no time is named', async () => {
  const client: DynamoDBClient = one.client();
  const before = client.middlewareStack.identify();
  const ledger = table.ledger({ client });
  await ledger.get('task', never());
  await ledger.close();
  expect(client.middlewareStack.identify()).toEqual(before);
  const item = { pk: { S: 'mine' } };
  await client.send(new PutItemCommand({ TableName: 'field-cases', Item: item }));
  const blind = table.ledger({ client: { send: () => Promise.resolve({}) } });
  await expect(blind.get('task', never())).rejects.toMatchObject({ code: 'unavailable', field: 'client' });
});

test('field case 50: a client of a second copy of the SDK is as good', async () => {
  const load = createRequire(import.meta.url);
  for (const file of Object.keys(load.cache)) if (file.includes('client-dynamodb')) delete load.cache[file];
  const second = load('@aws-sdk/client-dynamodb') as { readonly DynamoDBClient: typeof DynamoDBClient };
  expect(second.DynamoDBClient).not.toBe(DynamoDBClient);
  const { endpoint, region, credentials } = one.server;
  const client = new second.DynamoDBClient({ endpoint, region, credentials });
  const [ledger, guard] = [table.ledger({ client }), table.guard({ client })];
  await ledger.open(never());
  expect(await ledger.put(claimed('a'), { ms: 60_000 }, { version: 0 }, never())).toMatchObject({ ok: true });
  expect(await ledger.put(claimed('a'), { ms: 60_000 }, { version: 0 }, never())).toMatchObject({ ok: false });
  const ask = { scope: 's', key: 'k', hold: 'h', token: 1, requestHash: 'r', holdMs: 1_000, retentionMs: 1_000 };
  expect(await guard.begin(ask, never())).toEqual({ new: 'h' });
  client.destroy();
});
