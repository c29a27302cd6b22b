import { afterEach, beforeEach, expect, test } from 'vitest';
import { sqliteBroker, sqliteLedger, type SqliteBroker, type SqliteLedger } from '@leasehold/sqlite';
import { machine, never, type Machine } from './machine.ts';
import { claimed } from './stored-record.ts';

// Both on one connection, as they are in a process.
let one: Machine;
let broker: SqliteBroker;
let ledger: SqliteLedger;
beforeEach(() => {
  one = machine();
  const mine = one.process();
  [broker, ledger] = [sqliteBroker(mine), sqliteLedger(mine)];
});
afterEach(async () => {
  await Promise.all([broker.close(), ledger.close()]);
  one.dispose();
});

const message = { body: new Uint8Array([1]), attributes: {} };
const receive = { max: 10, leaseMs: 60_000, waitMs: 0 };

test('field case 26: close waits for what was asked before it, and refuses what comes after it', async () => {
  await broker.send(
    Array.from({ length: 6 }, () => message),
    never(),
  );
  const taken = await broker.receive(receive, never());
  const answered: string[] = [];
  const acks = taken.map(async ({ handle }) =>
    answered.push(...((await broker.complete([handle], never())) as string[])),
  );
  await broker.close();
  expect(answered).toEqual(['done', 'done', 'done', 'done', 'done', 'done']);
  await Promise.all(acks);
  await expect(broker.complete(['1.1'], never())).rejects.toMatchObject({ code: 'closed' });
  await expect(broker.depth()).rejects.toMatchObject({ code: 'closed' });
});

test('the last driver to close waits too, and closes the file', async () => {
  await broker.close();
  await ledger.open(never());
  const put = ledger.put(claimed('task'), { ms: 60_000 }, { version: 0 }, never());
  await ledger.close();
  expect((await put).ok).toBe(true);
  const later = sqliteLedger(one.process());
  expect((await later.get('task', never())).record?.taskId).toBe('task');
  await later.close();
});

test('closing one driver ends its own waits and leaves the others of the file at work', async () => {
  const waiting = broker.receive({ ...receive, waitMs: 3_600_000 }, never());
  const ending = waiting.catch((error: unknown) => error);
  while (one.clock.pending === 0) await ledger.get('task', never());
  await broker.close();
  expect(await ending).toMatchObject({ code: 'closed' });
  expect(one.clock.pending).toBe(0);
  expect((await ledger.put(claimed('task'), { ms: 60_000 }, { version: 0 }, never())).ok).toBe(true);
});

test('a driver made again after the last one closed opens the file again', async () => {
  await broker.send([message], never());
  await Promise.all([broker.close(), ledger.close()]);
  broker = sqliteBroker(one.process());
  expect(await broker.receive(receive, never())).toHaveLength(1);
});
