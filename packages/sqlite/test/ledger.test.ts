import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LedgerQuery, TaskState } from '@leasehold/core';
import { sqliteLedger, type SqliteLedger } from '@leasehold/sqlite';
import { BY_RUN, BY_STATE } from '../src/ledger-list.ts';
import { FREE_HELD } from '../src/store-clock.ts';
import { CLAIM, CLAIM_ONE, NEXT_DUE, PROMOTE } from '../src/message-queue.ts';
import { machine, never, type Machine } from './machine.ts';
import { after, claimed } from './stored-record.ts';

let one: Machine;
let ledger: SqliteLedger;
beforeEach(() => {
  one = machine();
  ledger = sqliteLedger(one.process());
});
afterEach(async () => {
  await ledger.close();
  one.dispose();
});

const lease = { ms: 60_000 };

function sql(text: string): void {
  const db = new DatabaseSync(one.file);
  db.exec(text);
  db.close();
}

async function idsOf(query: LedgerQuery): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await ledger.list({ ...query, ...(cursor !== undefined && { cursor }) }, never());
    ids.push(...page.records.map((record) => record.taskId));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return ids;
}

test('a record that cannot be read is reported as corrupt, hides no other, and is never overwritten by a first claim', async () => {
  for (const id of ['good', 'no json', 'no state', 'better'])
    await ledger.put(claimed(id), lease, { version: 0 }, never());
  sql(`UPDATE leasehold_task SET document = '{"schema' WHERE task_id = 'no json'`);
  sql(`UPDATE leasehold_task SET document = json_remove(document, '$.state') WHERE task_id = 'no state'`);
  for (const id of ['no json', 'no state']) {
    const read = ledger.get(id, never());
    await expect(read).rejects.toThrow(id);
    await expect(read).rejects.toMatchObject({ code: 'record-corrupt' });
    await expect(ledger.put(claimed(id), lease, { version: 0 }, never())).rejects.toMatchObject({
      code: 'record-corrupt',
    });
  }
  expect((await idsOf({ limit: 1 })).sort()).toEqual(['better', 'good']);
  const corrupt = await ledger.corrupt();
  expect(corrupt.map(({ taskId, error }) => `${taskId}: ${error.code}`)).toEqual([
    'no json: record-corrupt',
    'no state: record-corrupt',
  ]);
  expect((await ledger.put(after(claimed('good'), {}), undefined, { version: 1, lease: 'any' }, never())).ok).toBe(
    true,
  );
});

test('pages are newest update first, whatever the states, and go on past many that do not match', async () => {
  const states: TaskState[] = ['queued', 'running', 'settled'];
  const puts = Array.from({ length: 700 }, (_, index) => {
    const state = states[index % 3] as TaskState;
    return ledger.put(
      claimed(`task ${index}`, { state, updatedAt: 5_000 - index, taskType: index % 100 ? 'common' : 'rare' }),
      undefined,
      { version: 0 },
      never(),
    );
  });
  await Promise.all(puts);
  expect(await idsOf({ limit: 64 })).toEqual(Array.from({ length: 700 }, (_, index) => `task ${index}`));
  expect(await idsOf({ limit: 2, taskTypes: ['rare'] })).toEqual([0, 1, 2, 3, 4, 5, 6].map((n) => `task ${n * 100}`));
  expect(await idsOf({ limit: 500, taskTypes: ['rare'], states: ['settled'] })).toEqual(['task 200', 'task 500']);
});

test('terminal records past their retention are thrown away, a bounded number at a time, and no others', async () => {
  const expired = { state: 'settled' as const, expiresAt: one.clock.wall() + 1_000 };
  const old = Array.from({ length: 250 }, (_, index) =>
    ledger.put(claimed(`old ${index}`, expired), undefined, { version: 0 }, never()),
  );
  await Promise.all(old);
  // Whatever it says of its expiry, a task that is not over stays.
  await ledger.put(claimed('running', { expiresAt: one.clock.wall() + 1 }), lease, { version: 0 }, never());
  await ledger.put(
    claimed('kept', { state: 'settled', expiresAt: one.clock.wall() + 90_000 }),
    undefined,
    { version: 0 },
    never(),
  );
  await one.clock.advance(2_000);
  await ledger.close();
  const counts: number[] = [];
  for (let round = 0; round < 4; round++) {
    // Each process looks at its first write, and again at once while there is more.
    ledger = sqliteLedger(one.process());
    await ledger.put(
      after(claimed('running'), { version: round + 2 }),
      undefined,
      { version: round + 1, lease: 'any' },
      never(),
    );
    counts.push((await idsOf({ limit: 100 })).length);
    await ledger.close();
  }
  expect(counts).toEqual([152, 52, 2, 2]);
  ledger = sqliteLedger(one.process());
  expect((await idsOf({ limit: 100 })).sort()).toEqual(['kept', 'running']);
});

test('the plan of every frequent statement is an index search, so that no cost grows with what is stored', async () => {
  await ledger.open(never());
  const db = new DatabaseSync(one.file);
  const plan = (text: string): string[] => {
    const unbound = text.replaceAll('?', '1');
    return db
      .prepare(`EXPLAIN QUERY PLAN ${unbound}`)
      .all()
      .map((row) => String(row['detail']));
  };
  for (const text of [CLAIM, CLAIM_ONE, NEXT_DUE, PROMOTE, BY_RUN, BY_STATE, FREE_HELD]) {
    const details = plan(text);
    expect(
      details.filter((detail) => detail.startsWith('SCAN') && !detail.endsWith('leasehold_message_held')),
      text,
    ).toEqual([]);
    // A run's own records are sorted; a queue or a state is read in the order of its index.
    if (text !== BY_RUN)
      expect(
        details.filter((detail) => detail.includes('TEMP B-TREE')),
        text,
      ).toEqual([]);
  }
  for (const text of [CLAIM, CLAIM_ONE, NEXT_DUE]) {
    expect(plan(text).join('\n')).toContain('COVERING INDEX leasehold_message_due (queue=?');
  }
  db.close();
});
