// A worker of the kill test: takes and completes tasks through the drivers until it is killed.
import { setTimeout as pause } from 'node:timers/promises';
import type { Delivery, TaskRecord } from '@leasehold/core';
import { sqliteBroker, sqliteGuard, sqliteLedger } from '@leasehold/sqlite';
import { never } from './machine.ts';
import { after, claimed } from './stored-record.ts';

const [file = '', leaseText] = process.argv.slice(2);
const leaseMs = Number(leaseText);
// Whoever started us is gone, perhaps killed itself.
process.stdin.on('end', () => process.exit(0)).resume();
const broker = sqliteBroker({ file });
const ledger = sqliteLedger({ file });
const guard = sqliteGuard({ file });

/** Leaves a gap for the kill to fall into. */
const gap = (): Promise<void> => pause(Math.random() * 8);

async function claim(taskId: string, delivery: Delivery<string>): Promise<TaskRecord | undefined> {
  const owner = `worker#${process.pid}`;
  const first = await ledger.put(claimed(taskId, { leaseOwner: owner }), { ms: leaseMs }, { version: 0 }, never());
  if (first.ok) return first.record;
  const { current } = first;
  if (!current) throw new Error(`the claim of ${taskId} was refused by nothing`);
  if (current.state === 'settled') {
    await broker.complete([delivery.handle], never());
    return undefined;
  }
  const token = current.fencingToken + 1;
  const next = after(current, { fencingToken: token, attempt: current.attempt + 1, leaseOwner: owner });
  const takeover = await ledger.put(next, { ms: leaseMs }, { version: current.version, lease: 'lapsed' }, never());
  if (takeover.ok) return takeover.record;
  // Somebody else holds it.
  await broker.release([delivery.handle], 100, never());
  return undefined;
}

async function run(delivery: Delivery<string>): Promise<void> {
  const taskId = new TextDecoder().decode(delivery.body);
  await gap();
  const mine = await claim(taskId, delivery);
  if (!mine) return;
  await gap();
  const { fencingToken: token } = mine;
  const ask = { scope: taskId, token, key: 'effect', requestHash: 'same', retentionMs: 86_400_000 };
  const verdict = await guard.transact(
    ask,
    (db) => {
      db.prepare('INSERT INTO effects (task_id, token) VALUES (?, ?)').run(taskId, token);
      return { status: 201, headers: {}, body: new Uint8Array() };
    },
    never(),
  );
  if (typeof verdict !== 'object' || 'stale' in verdict) return;
  await gap();
  const { leaseExpiresAt: _, ...rest } = mine;
  const settled = after(rest, { state: 'settled', stage: 'settled' });
  const outcome = await ledger.put(settled, undefined, { version: mine.version, lease: 'live' }, never());
  if (!outcome.ok) return;
  await gap();
  await broker.complete([delivery.handle], never());
}

process.stdout.write('opening\n');
await ledger.open(never());
process.stdout.write('ready\n');
for (;;) {
  const taken = await broker.receive({ max: 3, leaseMs, waitMs: 1_000 }, never());
  await Promise.all(taken.map(run));
}
