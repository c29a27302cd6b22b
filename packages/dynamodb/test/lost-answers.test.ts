import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { claimTask, createLeaseBroker, leaseTiming, ledgerSession, type LedgerDriver } from '@leasehold/core';
import { memoryBroker } from '@leasehold/core/memory';
import { kinds, type Fault } from '@leasehold/emulators';
import { createWorker, defineTask } from '@leasehold/worker';
import { after, claimed, machine, never, type Machine, type Table } from './machine.ts';

let one: Machine;
let table: Table;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  one.server.faults.reset();
  table = await one.table({ table: 'lost-answers' });
});
afterEach(() => table.dispose());

/** What the service does and the emulator leaves out: a refusal brings the item it was refused for. */
const showItem: Fault = async (call) => {
  const answer = await call.apply();
  if (answer.status === 200) return answer;
  const { TableName, Item: item } = call.request.json as { TableName: string; Item: Record<string, object> };
  const body = Buffer.from(JSON.stringify({ TableName, Key: { pk: item['pk'] }, ConsistentRead: true }));
  const headers = { ...call.request.headers, 'x-amz-target': 'DynamoDB_20120810.GetItem' };
  const read = await call.apply({ ...call.request, operation: 'GetItem', headers, body });
  const json = { ...answer.json, Item: read.json['Item'] };
  const { 'x-amz-crc32': _, ...rest } = answer.headers;
  return { ...answer, headers: rest, body: Buffer.from(JSON.stringify(json)), json };
};

const CLAIM = {
  ...{ taskId: 't', owner: 'me', taskType: 'test', idempotencyKey: 'k', payloadHash: 'a'.repeat(64) },
  ...{ attempts: 5, retentionMs: 86_400_000 },
};
const timing = leaseTiming(90_000);
const claim = (ledger: LedgerDriver) => claimTask(ledgerSession(ledger, one.clock), one.clock, timing, CLAIM);

describe.each([
  ['as the service does, a refusal brings the item', true],
  ['a refusal brings no item', false],
])('where %s', (_, shows) => {
  const refusalsShow = (): void => {
    if (shows) one.server.faults.on('PutItem', showItem, { times: Infinity });
  };

  test('field case 13: a claim that was stored and repeated by the SDK is ours: it takes the lease, once', async () => {
    const ledger = table.ledger({ client: one.client(4) });
    await ledger.get('t', never());
    one.server.faults.reset();
    const lost = one.server.faults.on('PutItem', kinds.dropAnswer());
    refusalsShow();
    const outcome = await claim(ledger);
    expect(lost.hits).toBe(1);
    expect(one.server.faults.calls('PutItem')).toBeGreaterThan(1);
    expect(one.server.faults.calls('GetItem')).toBe(shows ? 1 : 2);
    expect(outcome).toHaveProperty('lease');
    expect((await ledger.get('t', never())).record).toMatchObject({ fencingToken: 1, version: 1 });
  });

  test('a refusal says what stands there, whoever wrote it', async () => {
    const ledger = table.ledger();
    const won = await ledger.put(claimed('t'), { ms: 60_000 }, { version: 0 }, never());
    refusalsShow();
    const outcome = await ledger.put(claimed('t', { opId: 'second' }), { ms: 60_000 }, { version: 0 }, never());
    expect(outcome).toMatchObject({ ok: false, current: won.ok && won.record });
  });

  test('field case 13: a hold that was taken and repeated by the SDK is new, and its response is stored once', async () => {
    const guard = table.guard({ client: one.client(4) });
    await guard.look({ scope: 'first', token: 1, key: 'k' }, never());
    const hold = { scope: 's', key: 'k', hold: 'h' };
    const ask = { ...hold, token: 3, requestHash: 'r', holdMs: 30_000, retentionMs: 60_000 };
    const response = { status: 201, headers: { a: 'b' }, body: new Uint8Array([1, 2, 3]) };
    one.server.faults.on('PutItem', kinds.dropAnswer());
    refusalsShow();
    expect(await guard.begin(ask, never())).toEqual({ new: 'h' });
    one.server.faults.reset();
    one.server.faults.on('PutItem', kinds.dropAnswer());
    refusalsShow();
    expect(await guard.finish(hold, response, never())).toBe(true);
    expect(await guard.begin({ ...ask, hold: 'other' }, never())).toEqual({ previous: response });
  });
});

test('field case 13: without retries of the SDK core repeats the claim, and the handler runs once', async () => {
  const broker = createLeaseBroker({
    driver: memoryBroker({ clock: one.clock }),
    ledger: table.ledger(),
    clock: one.clock,
  });
  let ran = 0;
  const task = defineTask({
    type: 'count',
    input: { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } },
    run: async () => ({ ran: ++ran }),
  });
  const worker = createWorker({ broker, tasks: [task] });
  const running = worker.run();
  const lost = one.server.faults.on('PutItem', kinds.dropAnswer());
  await broker.enqueue([{ type: 'count', input: {}, idempotencyKey: 'k', taskId: 'counted' }]);
  const ledger = table.ledger();
  const settled = async (): Promise<boolean> => (await ledger.get('counted', never())).record?.state === 'settled';
  expect(await one.time.until(settled, 60_000)).toBe(true);
  expect([lost.hits, ran]).toEqual([1, 1]);
  expect((await ledger.get('counted', never())).record).toMatchObject({ fencingToken: 1, attempt: 1, version: 2 });
  let stopped = false;
  void worker.stop().then(() => (stopped = true));
  expect(await one.time.until(() => stopped, 60_000)).toBe(true);
  await running;
});

test('I7: a renewal that was held up on its way stamps no more than its sending allowed, and never a lease that was taken over', async () => {
  const [ledger, other] = [table.ledger(), table.ledger()];
  const created = await ledger.put(claimed('late'), { ms: 20_000 }, { version: 0 }, never());
  if (!created.ok) throw new Error('refused');
  const { latest } = created.now;
  const renewal = after(created.record, { renewalCount: 1 });
  const held = one.server.faults.on('PutItem', kinds.applyLater(30_000));
  const stamp = { ms: 20_000, notBeyond: latest + 20_000 };
  await expect(ledger.put(renewal, stamp, { version: 1, lease: 'live' }, never())).rejects.toMatchObject({
    code: 'ECONNRESET',
  });
  expect(held.hits).toBe(1);
  // Lands ten seconds after the lease was over. Nobody had taken it: it is as lapsed as before.
  await one.time.advance(31_000);
  await one.server.settle();
  const { record, now } = await other.get('late', never());
  expect(record?.version).toBe(2);
  expect(record?.leaseExpiresAt).toBeLessThanOrEqual(latest + 20_000);
  expect(record?.leaseExpiresAt).toBeLessThanOrEqual(now.earliest);
  const takeover = after(renewal, { fencingToken: 2, leaseOwner: 'test/2#b' });
  expect(await other.put(takeover, { ms: 60_000 }, { version: 2, lease: 'lapsed' }, never())).toMatchObject({
    ok: true,
  });
  // The next one is held up too, and arrives when somebody else owns the task.
  const next = after(takeover, { fencingToken: 1, opId: 'of the old owner' });
  one.server.faults.on('PutItem', kinds.applyLater(5_000));
  await expect(ledger.put(next, undefined, { version: 3, lease: 'live' }, never())).rejects.toMatchObject({
    code: 'ECONNRESET',
  });
  const mine = after(takeover, { renewalCount: 1 });
  expect(await other.put(mine, { ms: 60_000 }, { version: 3, lease: 'live' }, never())).toMatchObject({ ok: true });
  await one.time.advance(6_000);
  await one.server.settle();
  expect((await other.get('late', never())).record).toMatchObject({ fencingToken: 2, version: 4, renewalCount: 1 });
});
