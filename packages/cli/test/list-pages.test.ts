import { expect, test } from 'vitest';
import type { LedgerPage, LedgerQuery, TaskRecord } from '@leasehold/core';
import { listPages } from '../src/list-pages.ts';

/** A store that looks at three records a call, of which those that fit are few. */
function store(fits: readonly boolean[]) {
  return {
    async list({ limit, cursor }: LedgerQuery): Promise<LedgerPage> {
      const records: TaskRecord[] = [];
      let at = Number(cursor ?? 0);
      for (const end = at + 3; at < Math.min(end, fits.length) && records.length < limit; at++)
        if (fits[at]) records.push({ taskId: `t${at}` } as TaskRecord);
      return { records, now: { earliest: 0, latest: 0 }, ...(at < fits.length && { cursor: String(at) }) };
    },
  };
}

test('what fits is found behind pages that had nothing, up to the limit', async () => {
  const fits = Array.from({ length: 20 }, (_, at) => at % 7 === 6);
  const ids = async (limit: number) => {
    const { records, cursor } = await listPages(store(fits), { limit });
    return [records.map(({ taskId }) => taskId).join(' '), cursor !== undefined];
  };
  expect(await ids(1)).toEqual(['t6', true]);
  expect(await ids(2)).toEqual(['t6 t13', true]);
  expect(await ids(50)).toEqual(['t6 t13', false]);
});
