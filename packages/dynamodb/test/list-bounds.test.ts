import { expect, test } from 'vitest';
import type { QueryCommandInput } from '@aws-sdk/client-dynamodb';
import type { Item } from '../src/attribute.ts';
import { listRecords, type Listing } from '../src/ledger-list.ts';
import { namesOf } from '../src/options.ts';
import { recordToItem } from '../src/record-item.ts';
import type { Service } from '../src/service.ts';
import { claimed, never } from './machine.ts';

const TASKS = 5_000;
const START = 1_700_000_000_000;

/** An index with so many running tasks, all of them live, and a table that counts its reads. */
function bigTable(): { readonly listing: Listing; readonly reads: () => number; readonly widest: () => number } {
  const names = namesOf({ table: 'big' });
  const records = new Map(
    Array.from({ length: TASKS }, (_, at) => [
      `t${at}`,
      claimed(`t${at}`, { createdAt: START + at, leaseExpiresAt: START * 2 }),
    ]),
  );
  const { partition, sort } = names.index;
  const entries = [...records.values()].map((record) => recordToItem(record, names));
  const newestFirst = entries.toSorted((one, other) => ((one[sort]?.S ?? '') < (other[sort]?.S ?? '') ? 1 : -1));
  let [reads, underWay, widest] = [0, 0, 0];
  const query = ({ ExpressionAttributeValues: values, Limit = 0 }: QueryCommandInput): object => {
    const found = newestFirst.filter(
      (item: Item) =>
        item[partition]?.S === values?.[':lane']?.S && (item[sort]?.S ?? '') < (values?.[':after']?.S ?? ''),
    );
    const Items = found.slice(0, Limit);
    return { Items, ...(found.length > Limit && { LastEvaluatedKey: Items.at(-1) }) };
  };
  const remote = {
    send: (command: { readonly input: QueryCommandInput }) => Promise.resolve(query(command.input)),
    now: () => ({ earliest: START, latest: START }),
  } as unknown as Service;
  return {
    listing: {
      remote,
      names,
      byIndex: true,
      async read(taskId) {
        reads++;
        widest = Math.max(widest, ++underWay);
        await Promise.resolve();
        underWay--;
        return records.get(taskId);
      },
    },
    reads: () => reads,
    widest: () => widest,
  };
}

test('a list that finds nothing among many open tasks stops after a part of them, and its cursor goes on', async () => {
  for (const limit of [100, 1]) {
    const { listing, reads, widest } = bigTable();
    let cursor: string | undefined;
    let before = 0;
    let pages = 0;
    do {
      const page = await listRecords(
        listing,
        { lapsed: true, limit, ...(cursor !== undefined && { cursor }) },
        never(),
      );
      expect(page.records).toEqual([]);
      // One call has ten seconds.
      expect(reads() - before).toBeLessThan(2_100);
      before = reads();
      cursor = page.cursor;
      pages++;
    } while (cursor !== undefined);
    // Each task was looked at, and none twice.
    expect([reads(), pages]).toEqual([TASKS, 3]);
    expect(widest()).toBe(16);
  }
});
