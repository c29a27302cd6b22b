import assert from 'node:assert/strict';
import type { LedgerDriver, LedgerQuery } from '@leasehold/core';
import type { LedgerCase, LedgerHarness } from './conformance-case.ts';
import { after, claimed, create, listed, put, same, shortLease } from './ledger-steps.ts';
import { attempt, never, outlast } from './waiting.ts';

/** Records for people and sweeps: filters that combine, and pages that miss nothing. */
export const listCases: readonly LedgerCase[] = [
  {
    name: 'each filter finds exactly its records: values within one field with or, fields with and',
    async run(harness) {
      const driver = await harness.open();
      await fill(harness, driver);
      const found = async (query: Omit<LedgerQuery, 'limit' | 'cursor'>): Promise<string> =>
        (await listed(driver, { ...query, limit: 100 }))
          .map((record) => record.taskId)
          .sort()
          .join(' ');
      assert.equal(await found({}), 'dead done gone late live lost waiting');
      assert.equal(await found({ states: ['running'] }), 'late live lost');
      assert.equal(await found({ states: ['settled', 'dead_lettered'] }), 'dead done');
      assert.equal(await found({ stages: ['commit'] }), 'late');
      assert.equal(await found({ stages: ['commit', 'verify'] }), 'gone late');
      assert.equal(await found({ taskTypes: ['charge'] }), 'late live');
      assert.equal(await found({ taskTypes: ['charge', 'notify'] }), 'gone late live');
      assert.equal(await found({ agentRunId: 'run-1' }), 'done late');
      assert.equal(await found({ agentRunId: 'run-%' }), '');
      assert.equal(await found({ errorClass: 'timeout' }), 'dead late');
      assert.equal(await found({ lapsed: true }), 'late lost');
      assert.equal(await found({ lapsed: true, taskTypes: ['charge'] }), 'late');
      assert.equal(await found({ states: ['running', 'settled'], agentRunId: 'run-1', errorClass: 'timeout' }), 'late');
      assert.equal(await found({ states: ['settled'], errorClass: 'timeout' }), '');
    },
  },
  {
    name: 'a listed record is the record',
    async run(harness) {
      const driver = await harness.open();
      const stored = await create(driver, claimed('中 one', { extra: { ttl: 1 }, effects: {} }), 60_000);
      const [only] = await listed(driver, { limit: 10 });
      same(only, stored, 'as listed');
    },
  },
  {
    name: 'pages follow one another until every record was given once',
    async run(harness) {
      const driver = await harness.open();
      const ids = Array.from({ length: 11 }, (_, index) => `task ${index}`);
      // Several share one instant, as records of one burst do.
      for (const [index, id] of ids.entries())
        await create(driver, claimed(id, { updatedAt: 1_700_000_000_000 + Math.floor(index / 4) }), 60_000);
      for (const limit of [1, 3, 11, 50]) {
        const found = (await listed(driver, { limit })).map((record) => record.taskId);
        assert.deepEqual(found.sort(), [...ids].sort(), `with a limit of ${limit}`);
      }
      const filtered = await listed(driver, { limit: 2, taskTypes: ['contract'], states: ['running'] });
      assert.equal(filtered.length, 11);
      assert.deepEqual(await listed(driver, { limit: 2, states: ['settled'] }), []);
    },
  },
  {
    name: 'records that are dealt with page by page, and so leave the list, hide no others',
    async run(harness) {
      const driver = await harness.open();
      const ids = Array.from({ length: 9 }, (_, index) => `task ${index}`);
      for (const [index, id] of ids.entries())
        await create(driver, claimed(id, { updatedAt: 1_700_000_000_000 + index }), 60_000);
      const seen: string[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < 50; page++) {
        const got = await driver.list(
          { states: ['running'], limit: 2, ...(cursor === undefined ? {} : { cursor }) },
          never(),
        );
        for (const record of got.records) {
          seen.push(record.taskId);
          const settled = after(record, { state: 'settled', updatedAt: 1_700_000_001_000 + page });
          await put(driver, settled, undefined, { version: 1, lease: 'any' });
        }
        cursor = got.cursor;
        if (cursor === undefined) break;
      }
      assert.deepEqual(seen.sort(), ids);
    },
  },
  {
    name: 'a cursor that is not one is refused as a bad request',
    async run(harness) {
      const driver = await harness.open();
      const outcome = await attempt(driver.list({ limit: 5, cursor: 'not a cursor' }, never()));
      assert.ok('error' in outcome, 'a made-up cursor was answered');
      assert.equal(driver.classify(outcome.error), 'invalid');
    },
  },
];

/** One record of every kind a filter can ask for; `late` and `lost` have lapsed when this resolves. */
async function fill(harness: LedgerHarness, driver: LedgerDriver): Promise<void> {
  const leaseMs = shortLease(harness, driver);
  const error = { errorClass: 'timeout', code: 'timeout', message: 'x' };
  await create(
    driver,
    claimed('late', { taskType: 'charge', agentRunId: 'run-1', stage: 'commit', lastError: error }),
    leaseMs,
  );
  await create(driver, claimed('lost'), leaseMs);
  await create(driver, claimed('live', { taskType: 'charge', agentRunId: 'run-2' }), leaseMs * 100);
  await create(driver, claimed('gone', { state: 'cancelled', taskType: 'notify', stage: 'verify' }), leaseMs);
  const free = [
    claimed('done', { state: 'settled', stage: 'settled', agentRunId: 'run-1' }),
    claimed('dead', { state: 'dead_lettered', lastError: error }),
    claimed('waiting', { state: 'waiting_human', lastError: { ...error, errorClass: 'timeout-other' } }),
  ];
  for (const record of free) await put(driver, record, undefined, { version: 0 });
  await outlast(harness, leaseMs, driver.capabilities.clockErrorMs);
}
