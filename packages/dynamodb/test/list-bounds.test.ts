import { expect, test } from 'vitest';
import { ScanCommand, type QueryCommandInput, type ScanCommandInput } from '@aws-sdk/client-dynamodb';
import { virtualClock, type LedgerQuery, type VirtualClock } from '@leasehold/core';
import type { Item } from '../src/attribute.ts';
import { listRecords, type Listing } from '../src/ledger-list.ts';
import { namesOf } from '../src/options.ts';
import { recordToItem } from '../src/record-item.ts';
import type { Service } from '../src/service.ts';
import { claimed, never } from './machine.ts';

const TASKS = 5_000;
const START = 1_700_000_000_000;

interface BigTable {
  readonly listing: Listing;
  readonly clock: VirtualClock;
  readonly reads: () => number;
  readonly widest: () => number;
}

/** A table with so many running tasks, all of them live, and their index; it counts its reads, and each call takes a round trip. */
function bigTable({ tripMs = 0, tasks = TASKS } = {}): BigTable {
  const clock = virtualClock();
  // What is asked at once takes one trip together.
  let trip: Promise<void> | undefined;
  const travel = (): Promise<void> =>
    (trip ??= new Promise(setImmediate).then(() => {
      trip = undefined;
      clock.block(tripMs);
    }));
  const names = namesOf({ table: 'big' });
  const records = new Map(
    Array.from({ length: tasks }, (_, at) => [
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
  const scan = ({ ExclusiveStartKey: start, Limit = 0 }: ScanCommandInput): object => {
    const from = start ? 1 + entries.findIndex((item) => item[names.partition]?.S === start[names.partition]?.S) : 0;
    const Items = entries.slice(from, from + Limit);
    reads += Items.length;
    return { Items, ...(from + Limit < entries.length && { LastEvaluatedKey: Items.at(-1) }) };
  };
  const remote = {
    async send(command: { readonly input: QueryCommandInput }) {
      await travel();
      return command instanceof ScanCommand ? scan(command.input) : query(command.input);
    },
    now: () => ({ earliest: START, latest: START }),
  } as unknown as Service;
  return {
    clock,
    listing: {
      remote,
      clock,
      names,
      byIndex: true,
      async read(taskId) {
        reads++;
        widest = Math.max(widest, ++underWay);
        await travel();
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

test.each([
  ['the index', 100, TASKS],
  ['the index', 1_000, 500],
  ['the index', 2_500, 50],
  ['the table', 2_500, TASKS],
])(
  'a list by %s, over a line of %i ms, gives a cursor in time and goes on until all was looked at',
  async (by, tripMs, tasks) => {
    const { listing, clock, reads } = bigTable({ tripMs, tasks });
    const query: LedgerQuery = { lapsed: true, limit: 100 };
    let cursor: string | undefined;
    do {
      const [began, before] = [clock.monotonic(), reads()];
      const asked = cursor === undefined ? query : { ...query, cursor };
      const page = await listRecords({ ...listing, byIndex: by === 'the index' }, asked, never());
      // A call that is late ends with what was under way, and got on all the same.
      expect(clock.monotonic() - began).toBeLessThanOrEqual(4_000 + 2 * tripMs);
      if (page.cursor !== undefined) expect(reads()).toBeGreaterThan(before);
      ({ cursor } = page);
    } while (cursor !== undefined);
    expect(reads()).toBe(tasks);
  },
);
