import { QueryCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { LeaseholdError, matchesQuery } from '@leasehold/core';
import type { Clock, LedgerPage, LedgerQuery, TaskRecord } from '@leasehold/core';
import type { Item } from './attribute.ts';
import { isCorrupt, laneOf, OPEN_STATES, recordFromItem, SHARDS } from './record-item.ts';
import type { Service } from './service.ts';
import type { TableNames } from './table-names.ts';

/** What a list needs of its ledger. */
export interface Listing {
  readonly remote: Service;
  readonly names: TableNames;
  readonly byIndex: boolean;
  readonly clock: Clock;
  read(taskId: string, key: Item, signal: AbortSignal): Promise<TaskRecord | undefined>;
}

/** One partition of the index, read from its newest entry on. */
interface Lane {
  readonly value: string;
  entries: Item[];
  ended: boolean;
  after: string;
}

/** Where a list goes on: below a place of the index, or after a key of the table, which may be another item's. */
type Cursor = { readonly at: string } | { readonly key: readonly string[] };

/** Entries read of one lane at a time, at least. */
const STEP = 10;
/** Items read at once. */
const READS = 16;
const SCAN_STEP = 1_000;
/** A call goes on for that long at most, over a slow line: whoever lists waits some 10 s for a page. */
const MOST_MS = 4_000;
/** A call looks at so many items at most; a page may then be short, or empty, and still have a cursor. */
const MOST_ITEMS = 20_000;
/** Where each item is a read of its own. */
const MOST_READS = 2_000;
/** After every lane's entries, which begin with digits. */
const NEWEST = '~';

/**
 * One page. Queries that can only find open tasks are answered from the index, newest task first, and read each record from the table;
 * all others by reading the table. A page is short, and still has a cursor, after many items that did not match or
 * some seconds.
 */
export async function listRecords(listing: Listing, query: LedgerQuery, signal: AbortSignal): Promise<LedgerPage> {
  if (!Number.isInteger(query.limit) || query.limit < 1) {
    throw new LeaseholdError('bad-request', `limit is ${query.limit}; write a whole number from 1.`, {
      field: 'limit',
    });
  }
  const cursor = query.cursor === undefined ? undefined : parseCursor(query.cursor);
  const states = query.lapsed ? ['running'] : query.states;
  const open = listing.byIndex && states !== undefined && states.every((state) => OPEN_STATES.includes(state));
  // A cursor goes on as it began, whatever the index option is by now.
  const byIndex = cursor ? 'at' in cursor : open;
  if (byIndex && !open) throw wrongCursor();
  return byIndex
    ? listOpen(listing, query, states as readonly string[], cursor && 'at' in cursor ? cursor.at : NEWEST, signal)
    : listAll(listing, query, cursor && 'key' in cursor ? cursor.key : undefined, signal);
}

async function listOpen(
  listing: Listing,
  query: LedgerQuery,
  states: readonly string[],
  after: string,
  signal: AbortSignal,
): Promise<LedgerPage> {
  const { names, remote } = listing;
  const isLate = lateAfter(listing.clock, MOST_MS);
  const lanes = [...new Set(states)].flatMap((state) =>
    Array.from({ length: SHARDS }, (_, shard): Lane => {
      return { value: laneOf(names, state, shard), entries: [], ended: false, after };
    }),
  );
  const step = Math.max(STEP, Math.ceil((2 * query.limit) / Math.max(1, lanes.length)));
  const records: TaskRecord[] = [];
  // An entry that changes its lane meanwhile may show up in both.
  const seen = new Set<string>();
  let last = after;
  for (let looked = 0; looked === 0 || (looked < MOST_READS && !isLate());) {
    const some: Item[] = [];
    // Where not everything matches there will be more to read than was asked for.
    const most = looked === 0 ? Math.min(READS, query.limit) : READS;
    while (some.length < most && (some.length === 0 || !isLate())) {
      await refill(listing, lanes, step, signal);
      const entry = takeNewest(lanes, names);
      if (!entry) break;
      some.push(entry);
    }
    if (some.length === 0) return { records, now: remote.now() };
    looked += some.length;
    const found = await Promise.all(some.map((entry) => readEntry(listing, entry, signal)));
    const now = remote.now();
    for (const [place, record] of found.entries()) {
      last = placeOf(some[place] as Item, names);
      if (!record || seen.has(record.taskId) || !matchesQuery(record, query, now)) continue;
      seen.add(record.taskId);
      records.push(record);
      if (records.length === query.limit) return { records, now, cursor: JSON.stringify({ at: last }) };
    }
  }
  return { records, now: remote.now(), cursor: JSON.stringify({ at: last }) };
}

/** Reads on in every lane that has nothing in hand: only then is the newest of all known. */
async function refill(listing: Listing, lanes: readonly Lane[], step: number, signal: AbortSignal): Promise<void> {
  const { remote, names } = listing;
  const empty = lanes.filter((lane) => lane.entries.length === 0 && !lane.ended);
  for (let at = 0; at < empty.length; at += READS) {
    await Promise.all(
      empty.slice(at, at + READS).map(async (lane) => {
        const { Items: entries = [], LastEvaluatedKey: more } = await remote.send(
          new QueryCommand({
            TableName: names.table,
            IndexName: names.index.name,
            KeyConditionExpression: '#lane = :lane AND #at < :after',
            ExpressionAttributeNames: { '#lane': names.index.partition, '#at': names.index.sort },
            ExpressionAttributeValues: { ':lane': { S: lane.value }, ':after': { S: lane.after } },
            ScanIndexForward: false,
            Limit: step,
          }),
          signal,
        );
        lane.entries = [...entries];
        lane.ended = more === undefined;
        const end = entries.at(-1);
        if (end) lane.after = placeOf(end, names);
      }),
    );
  }
}

function takeNewest(lanes: readonly Lane[], names: TableNames): Item | undefined {
  let newest: Lane | undefined;
  for (const lane of lanes) {
    const [entry] = lane.entries;
    const [best] = newest?.entries ?? [];
    if (entry && (!best || placeOf(entry, names) > placeOf(best, names))) newest = lane;
  }
  return newest?.entries.shift();
}

function placeOf(entry: Item, names: TableNames): string {
  return entry[names.index.sort]?.S ?? '';
}

async function readEntry(listing: Listing, entry: Item, signal: AbortSignal): Promise<TaskRecord | undefined> {
  const taskId = listing.names.idOf('task', entry);
  if (taskId === undefined) return undefined;
  try {
    return await listing.read(taskId, listing.names.key('task', taskId), signal);
  } catch (error) {
    // A record that cannot be read must not hide the others: get reports it.
    if (isCorrupt(error)) return undefined;
    throw error;
  }
}

async function listAll(
  { remote, names, clock }: Listing,
  query: LedgerQuery,
  after: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<LedgerPage> {
  const isLate = lateAfter(clock, MOST_MS);
  const records: TaskRecord[] = [];
  const keys = [names.partition, names.sort].filter((name) => name !== undefined);
  const cursorOf = (item: Item): string => JSON.stringify({ key: keys.map((name) => item[name]?.S ?? '') });
  let start: Item | undefined = after && Object.fromEntries(keys.map((name, at) => [name, { S: after[at] ?? '' }]));
  for (let looked = 0; ;) {
    const page = await remote.send(
      new ScanCommand({
        TableName: names.table,
        ConsistentRead: true,
        FilterExpression: 'begins_with(#key, :ours)',
        ExpressionAttributeNames: { '#key': names.partition },
        ExpressionAttributeValues: { ':ours': { S: `${names.prefix}task#` } },
        Limit: SCAN_STEP,
        ...(start && { ExclusiveStartKey: start }),
      }),
      signal,
    );
    const now = remote.now();
    looked += page.ScannedCount ?? SCAN_STEP;
    for (const item of page.Items ?? []) {
      const taskId = names.idOf('task', item);
      const record = taskId === undefined ? undefined : readable(item, taskId, names);
      if (!record || !matchesQuery(record, query, now)) continue;
      records.push(record);
      if (records.length === query.limit) {
        return { records: newestFirst(records), now, cursor: cursorOf(item) };
      }
    }
    start = page.LastEvaluatedKey;
    if (!start) return { records: newestFirst(records), now };
    if (looked >= MOST_ITEMS || isLate()) return { records: newestFirst(records), now, cursor: cursorOf(start) };
  }
}

function lateAfter(clock: Clock, ms: number): () => boolean {
  const start = clock.monotonic();
  return () => clock.monotonic() - start >= ms;
}

function readable(item: Item, taskId: string, names: TableNames): TaskRecord | undefined {
  try {
    return recordFromItem(item, taskId, names);
  } catch (error) {
    if (isCorrupt(error)) return undefined;
    throw error;
  }
}

function newestFirst(records: readonly TaskRecord[]): readonly TaskRecord[] {
  return [...records].sort((one, other) => other.updatedAt - one.updatedAt);
}

function parseCursor(text: string): Cursor {
  try {
    const cursor = JSON.parse(text) as Partial<Record<'at' | 'key', unknown>> | null;
    if (typeof cursor?.at === 'string') return { at: cursor.at };
    if (Array.isArray(cursor?.key) && cursor.key.every((part: unknown) => typeof part === 'string')) {
      return { key: cursor.key };
    }
  } catch (cause) {
    throw wrongCursor(cause);
  }
  throw wrongCursor();
}

function wrongCursor(cause?: unknown): LeaseholdError {
  return new LeaseholdError(
    'bad-request',
    'cursor is not one that this list gave; pass a cursor back unchanged with the same query, or none to begin at the start.',
    { field: 'cursor', ...(cause !== undefined && { cause }) },
  );
}
