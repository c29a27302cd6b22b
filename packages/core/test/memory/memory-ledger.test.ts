import { describe, expect, test } from 'vitest';
import { isLeaseholdError, virtualClock, type Json, type TaskRecord } from '@leasehold/core';
import { memoryLedger, memoryTable } from '@leasehold/core/memory';
import { record } from './sample-record.ts';

const never = new AbortController().signal;
const next = (stored: TaskRecord, change: Partial<TaskRecord> = {}): TaskRecord => ({
  ...stored,
  version: stored.version + 1,
  ...change,
});

describe('time', () => {
  test('field case 34: stepping the wall clock moves neither stamps nor judgements', async () => {
    const clock = virtualClock();
    const ledger = memoryLedger({ clock });
    const start = clock.wall();
    const first = await ledger.put(record('a'), { ms: 60_000 }, { version: 0 }, never);
    expect(first).toMatchObject({ ok: true, record: { leaseExpiresAt: start + 60_000 } });
    for (const step of [3_600_000, -7_200_000, 60_000]) {
      clock.stepWall(step);
      const { now } = await ledger.get('a', never);
      expect(now).toEqual({ earliest: start, latest: start });
    }
    expect(await ledger.put(next(record('a')), undefined, { version: 1, lease: 'live' }, never)).toMatchObject({
      ok: true,
    });
  });

  test('within the clock error a lease is neither live nor lapsed: no side may act', async () => {
    const clock = virtualClock();
    const ledger = memoryLedger({ clock, clockErrorMs: 500 });
    expect(ledger.capabilities.clockErrorMs).toBe(1_000);
    const put = await ledger.put(record('a'), { ms: 10_000 }, { version: 0 }, never);
    const expiry = clock.wall() + 500 + 10_000;
    expect(put).toMatchObject({ ok: true, record: { leaseExpiresAt: expiry } });
    const verdicts: string[] = [];
    for (let passed = 0; passed <= 12_000; passed += 500) {
      const stored = (await ledger.get('a', never)).record as TaskRecord;
      const ask = async (lease: 'live' | 'lapsed') =>
        (await ledger.put(next(stored), undefined, { version: stored.version, lease }, never)).ok ? lease : '';
      verdicts.push((await ask('live')) || (await ask('lapsed')) || 'neither');
      await clock.advance(500);
    }
    // Up to expiry - error it is live, from expiry + error on it has lapsed.
    expect(verdicts.join()).toBe(
      [...Array.from({ length: 20 }, () => 'live'), 'neither', 'neither', 'lapsed', 'lapsed', 'lapsed'].join(),
    );
  });
});

test('nothing is shared with what a caller holds', async () => {
  const ledger = memoryLedger();
  const given = record('a', { result: { inline: { list: [1] } } });
  const outcome = await ledger.put(given, undefined, { version: 0 }, never);
  const seen = [
    given,
    outcome.ok ? outcome.record : given,
    (await ledger.get('a', never)).record ?? given,
    ...(await ledger.list({ limit: 1 }, never)).records,
    ...ledger.table.records,
  ];
  expect(new Set(seen).size).toBe(5);
  for (const found of seen) {
    Object.assign(found.history, { 0: 'changed' });
    Object.assign(found.result ?? {}, { inline: 'changed' });
  }
  expect((await ledger.get('a', never)).record).toMatchObject({ history: [], result: { inline: { list: [1] } } });
});

test('lists come newest update first, equal ones by id, across pages', async () => {
  const table = memoryTable();
  const ledger = memoryLedger({ table });
  const updates: Record<string, number> = { c: 5, a: 5, d: 9, b: 1, e: 5 };
  for (const [id, updatedAt] of Object.entries(updates)) {
    await ledger.put(record(id, { updatedAt }), undefined, { version: 0 }, never);
  }
  const found: string[] = [];
  for (let cursor: string | undefined, pages = 0; pages < 3; pages++) {
    const page = await memoryLedger({ table }).list({ limit: 2, ...(cursor === undefined ? {} : { cursor }) }, never);
    found.push(page.records.map(({ taskId }) => taskId).join(''));
    cursor = page.cursor;
  }
  expect(found).toEqual(['da', 'ce', 'b']);
});

test('what no reader could use is refused with its field, and the message says that nothing was written', async () => {
  const ledger = memoryLedger({ maxRecordBytes: 2_000 });
  const reasons: Record<string, string> = {};
  const bad: readonly TaskRecord[] = [
    record('large', { checkpoint: { inline: '中'.repeat(700) } }),
    record('infinite', { checkpoint: { inline: { deep: [Infinity] } } }),
    record('bigint', { checkpoint: { inline: { deep: [1n] } as unknown as Json } }),
    record('token', { fencingToken: 2 ** 53 }),
    record('state', { state: 'asleep' as 'queued' }),
  ];
  for (const one of bad) {
    await ledger.put(one, undefined, { version: 0 }, never).catch((error: unknown) => {
      if (!isLeaseholdError(error) || !/nothing was written/i.test(error.message)) throw error;
      reasons[one.taskId] = `${error.code} ${ledger.classify(error)}`;
    });
  }
  expect(reasons).toEqual({
    large: 'record-too-large invalid',
    infinite: 'bad-request invalid',
    bigint: 'bad-request invalid',
    token: 'bad-request invalid',
    state: 'bad-request invalid',
  });
  expect(ledger.table.records).toEqual([]);
});
