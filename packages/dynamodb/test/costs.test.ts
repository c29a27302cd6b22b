import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLeaseBroker, createTaskClient } from '@leasehold/core';
import { memoryBroker } from '@leasehold/core/memory';
import { createTable, dynamoDbGuard, dynamoDbLedger } from '@leasehold/dynamodb';
import { startDynamoDb, type Emulator } from '@leasehold/emulators';
import { createWorker, defineTask, type InputSchema } from '@leasehold/worker';
import { itemBytes, type Item } from '../src/attribute.ts';
import { claimed, never } from './machine.ts';

const anything: InputSchema<unknown> = {
  '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
};
const RECEIVER = 'https://tickets.internal.example.com/api/v2/cases';

const summarise = defineTask({
  type: 'helpdesk.summarise-ticket',
  input: anything,
  run: async () => ({ summaryId: randomUUID(), words: 120 }),
});
const openCase = defineTask({
  type: 'helpdesk.open-case',
  input: anything,
  async run(_, ctx) {
    const opened = { id: randomUUID(), state: 'open' };
    const found = await ctx.effect('create', {
      system: 'crm',
      receiver: 'idempotent',
      targetId: RECEIVER,
      commit: async () => opened,
      readBack: async () => opened,
      receipt: ({ id, state }) => ({ externalId: id, status: state }),
    });
    return { caseId: found.id };
  },
});

let server: Emulator;
beforeAll(async () => {
  server = await startDynamoDb();
});
afterAll(() => server.close());

/** Runs tasks of one type to their end and gives what was written, per task. */
async function writesOf(type: string, count: number): Promise<readonly (readonly Item[])[]> {
  const { endpoint, region, credentials } = server;
  const connection = { endpoint, region, credentials, table: `costs-${randomUUID()}` };
  await createTable(connection);
  const broker = createLeaseBroker({ driver: memoryBroker(), ledger: dynamoDbLedger(connection) });
  const client = createTaskClient({ broker, ledger: dynamoDbLedger(connection) });
  const worker = createWorker({ broker, tasks: [summarise, openCase], concurrency: 5 });
  const running = worker.run();
  server.faults.reset();
  const agentRunId = randomUUID();
  const sent = await client.enqueue(
    Array.from({ length: count }, () => ({ type, input: { ticket: 'T-1' }, agentRunId, idempotencyKey: randomUUID() })),
  );
  const taskIds = sent.map((each) => ('taskId' in each ? each.taskId : ''));
  for (const taskId of taskIds) expect((await client.wait(taskId)).state).toBe('settled');
  await worker.stop();
  await running;
  await broker.close();
  const puts = server.faults.log.filter(({ operation }) => operation === 'PutItem');
  return taskIds.map((taskId) =>
    puts.map(({ request }) => itemIn(request)).filter((item) => item['pk']?.S === `task#${taskId}`),
  );
}

/** The item of a request, its bytes as the SDK had them. */
function itemIn(request: { readonly body: Buffer }): Item {
  const { Item: item } = JSON.parse(request.body.toString(), (name, value: unknown) =>
    name === 'B' ? Buffer.from(String(value), 'base64') : value,
  ) as { readonly Item: Item };
  return item;
}

const units = (item: Item): number => Math.ceil(itemBytes(item) / 1_024);

/** What the index is charged: an entry that comes or goes is a write, one that moves is two. */
function indexUnits(items: readonly Item[]): number {
  let before: string | undefined;
  let sum = 0;
  for (const item of items) {
    const lane = item['lane']?.S;
    if (lane !== before) sum += Number(before !== undefined) + Number(lane !== undefined);
    before = lane;
  }
  return sum;
}

test('a task without effects takes two writes of one unit each, and two of the index', async () => {
  for (const items of await writesOf('helpdesk.summarise-ticket', 6)) {
    expect(items.map(units)).toEqual([1, 1]);
    expect(items.map((item) => item['state']?.S)).toEqual(['running', 'settled']);
    expect(indexUnits(items)).toBe(2);
  }
});

test('a task with one effect takes three writes: one unit each, two at most for the settle', async () => {
  for (const items of await writesOf('helpdesk.open-case', 6)) {
    expect(items).toHaveLength(3);
    expect(items.slice(0, 2).map(units)).toEqual([1, 1]);
    expect(units(items[2] as Item)).toBeLessThanOrEqual(2);
    expect(indexUnits(items)).toBe(2);
  }
});

test('a renewal writes no index', async () => {
  const { endpoint, region, credentials } = server;
  const connection = { endpoint, region, credentials, table: `costs-${randomUUID()}` };
  await createTable(connection);
  const ledger = dynamoDbLedger(connection);
  const record = claimed('renewed');
  server.faults.reset();
  await ledger.put(record, { ms: 60_000 }, { version: 0 }, never());
  for (let version = 1; version < 5; version++) {
    const next = { ...record, version: version + 1, opId: `op ${version}`, updatedAt: version, renewalCount: version };
    expect(await ledger.put(next, { ms: 60_000 }, { version, lease: 'live' }, never())).toMatchObject({ ok: true });
  }
  const items = server.faults.log.flatMap(({ operation, request }) =>
    operation === 'PutItem' ? [itemIn(request)] : [],
  );
  expect(items).toHaveLength(5);
  expect(indexUnits(items)).toBe(1);
  await ledger.close();
});

test('a guarded request takes one write to begin and one to finish, of one unit each, and reads nothing', async () => {
  const { endpoint, region, credentials } = server;
  const connection = { endpoint, region, credentials, table: `costs-${randomUUID()}` };
  await createTable(connection);
  const guard = dynamoDbGuard(connection);
  // The first call looks at the table, and its answer tells the time.
  await guard.look({ scope: 'first', token: 1, key: 'k' }, never());
  server.faults.reset();
  const body = new TextEncoder().encode(JSON.stringify({ id: randomUUID(), state: 'open' }));
  for (let request = 0; request < 5; request++) {
    const hold = { scope: `crm/${randomUUID()}`, key: `${randomUUID()}:create`, hold: randomUUID() };
    const ask = { ...hold, token: 1, requestHash: 'a'.repeat(64), holdMs: 30_000, retentionMs: 2_592_000_000 };
    expect(await guard.begin(ask, never())).toEqual({ new: hold.hold });
    const response = { status: 201, headers: { 'content-type': 'application/json' }, body };
    expect(await guard.finish(hold, response, never())).toBe(true);
  }
  expect(server.faults.log.map(({ operation }) => operation)).toEqual(Array.from({ length: 10 }, () => 'PutItem'));
  for (const { request } of server.faults.log) expect(units(itemIn(request))).toBe(1);
  await guard.close();
});
