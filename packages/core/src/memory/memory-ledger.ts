import type { LedgerCapabilities, LedgerDriver, PutExpectation } from '../driver.ts';
import type { Clock } from '../clock.ts';
import { badOption, LeaseholdError } from '../errors.ts';
import { checkNames, type OptionNames } from '../option-names.ts';
import { setOwn, type Json } from '../json.ts';
import { isLapsed, isLive, isNewerSchema, type StoreTime, type TaskRecord } from '../record.ts';
import { matchesQuery } from '../ledger-query.ts';
import { checkRecord, recordFromWire, recordToWire } from '../record-codec.ts';
import { badRequest, checkCall, classifyMemoryError } from './memory-errors.ts';
import { memoryClock, type MemoryClock } from './memory-clock.ts';

/** The state of a ledger in memory: several drivers on one state are several processes on one table. */
export interface MemoryTable {
  /** Every record, as stored. */
  readonly records: readonly TaskRecord[];
}

/** How a ledger in memory behaves. */
export interface MemoryLedgerOptions {
  /** The table to work on, for several drivers on one table; default a new one. */
  readonly table?: MemoryTable;
  /** Where the table's time comes from. A table keeps the clock of its first driver. Default the machine's. */
  readonly clock?: Clock;
  readonly name?: string;
  /** How far the store's time may be off either way: `earliest` is now less this, `latest` now plus this. Default 0. */
  readonly clockErrorMs?: number;
  /** Default 1. */
  readonly minLeaseMs?: number;
  /** The most UTF-8 bytes a record takes as JSON. Default 400 KiB. */
  readonly maxRecordBytes?: number;
}

const OPTIONS: OptionNames<MemoryLedgerOptions> = {
  table: true,
  clock: true,
  name: true,
  clockErrorMs: true,
  minLeaseMs: true,
  maxRecordBytes: true,
};

/** A ledger in memory. */
export interface MemoryLedger extends LedgerDriver {
  readonly table: MemoryTable;
}

class TableState implements MemoryTable {
  /** Copies of ours: nothing is shared with what a caller holds. */
  readonly rows = new Map<string, TaskRecord>();
  readonly clock: (clock: Clock | undefined) => MemoryClock = memoryClock();

  get records(): readonly TaskRecord[] {
    return [...this.rows.values()].map(copyOf);
  }

  read(taskId: string): TaskRecord | undefined {
    const row = this.rows.get(taskId);
    return row && copyOf(row);
  }
}

/** A table in memory, empty. Pass it to several `memoryLedger` to let them share it. */
export function memoryTable(): MemoryTable {
  return new TableState();
}

/**
 * A ledger in memory: linearizable, since every call takes effect at once, but not durable. Judges live and lapsed by its own time,
 * which follows the clock's monotonic side.
 *
 * Rejects with `record-too-large` beyond `maxRecordBytes`, and with `bad-request` a record no reader could use; nothing is written then.
 */
export function memoryLedger(options: MemoryLedgerOptions = {}): MemoryLedger {
  checkNames(options, OPTIONS);
  const { table = memoryTable(), clock, name = 'memory', clockErrorMs = 0 } = options;
  if (!(table instanceof TableState)) throw badOption('table', table, 'pass what memoryTable() gave.');
  const time = table.clock(clock);
  const capabilities: LedgerCapabilities = {
    clockErrorMs: 2 * clockErrorMs,
    minLeaseMs: options.minLeaseMs ?? 1,
    maxRecordBytes: options.maxRecordBytes ?? 400 * 1024,
    list: 'index',
  };
  let closed = false;
  const begin = (signal: AbortSignal): StoreTime => {
    checkCall(name, closed, signal);
    const now = time.now();
    return { earliest: now - clockErrorMs, latest: now + clockErrorMs };
  };

  return {
    specVersion: 1,
    name,
    capabilities,
    table,
    async put(next, lease, expect, signal) {
      const now = begin(signal);
      const expiry = lease && Math.min(now.latest + lease.ms, lease.notBeyond ?? Infinity);
      const stamped = expiry === undefined ? next : { ...next, leaseExpiresAt: expiry };
      const row = toRow(stamped, capabilities.maxRecordBytes);
      const current = table.rows.get(next.taskId);
      if (!holds(expect, current, now)) return { ok: false, current: current && copyOf(current), now };
      table.rows.set(next.taskId, row);
      return { ok: true, record: copyOf(row), now };
    },
    async get(taskId, signal) {
      const now = begin(signal);
      return { record: table.read(taskId), now };
    },
    async list(query, signal) {
      const now = begin(signal);
      if (!(query.limit >= 1)) throw badRequest('limit', `is ${query.limit}: ask for at least one record.`);
      const past = query.cursor === undefined ? undefined : fromCursor(query.cursor);
      const found = table.records
        .filter((record) => matchesQuery(record, query, now) && (past === undefined || order(past, record) < 0))
        .sort(order);
      const records = found.slice(0, query.limit);
      const last = records.at(-1);
      return { records, now, ...(last && found.length > records.length ? { cursor: toCursor(last) } : {}) };
    },
    classify: classifyMemoryError,
    async close() {
      closed = true;
    },
  };
}

function holds(expect: PutExpectation, current: TaskRecord | undefined, now: StoreTime): boolean {
  if (expect.version === 0 || current === undefined) return expect.version === 0 && current === undefined;
  if (current.version !== expect.version || !('lease' in expect)) return false;
  if (expect.lease === 'live') return isLive(current, now);
  return expect.lease === 'any' || isLapsed(current, now);
}

/** The record as a reader gets it: with the JSON of what it holds, and none of its objects. */
function copyOf(row: TaskRecord): TaskRecord {
  const copy: Record<string, unknown> = { ...row };
  for (const name of Object.keys(copy)) if (typeof copy[name] === 'object') copy[name] = unshared(copy[name] as Json);
  return copy as unknown as TaskRecord;
}

/** What a copy came across. */
interface Seen {
  /** No fewer than the JSON has, whatever is escaped in it. */
  characters: number;
  /** Something that JSON cannot carry. */
  odd: boolean;
}

/** What JSON makes of a value, in objects of its own. */
function unshared(value: Json | undefined, seen: Seen = { characters: 0, odd: false }): Json {
  seen.characters += 30;
  if (typeof value === 'string') seen.characters += 6 * value.length;
  // A number without an end, or a bigint.
  if (typeof value === 'number' ? !Number.isFinite(value) : typeof (value as unknown) === 'bigint') seen.odd = true;
  if (typeof value !== 'object' || value === null) return value ?? null;
  if (Array.isArray(value)) return value.map((item: Json | undefined) => unshared(item, seen));
  const from = value as Readonly<Record<string, Json | undefined>>;
  const copy: Record<string, Json> = {};
  for (const name of Object.keys(from)) {
    const item = from[name];
    if (item === undefined) continue;
    seen.characters += 6 * name.length;
    setOwn(copy, name, unshared(item, seen));
  }
  return copy;
}

/** The row of a record: what a reader would make of its JSON. Throws for what no reader could use, or is too large. */
function toRow(record: TaskRecord, maxBytes: number): TaskRecord {
  return plainRow(record, maxBytes) ?? anyRow(record, maxBytes);
}

/** The row of an ordinary record, found without its JSON; nothing when there is anything to say about it. */
function plainRow(record: TaskRecord, maxBytes: number): TaskRecord | undefined {
  if (record.extra || isNewerSchema(record)) return undefined;
  try {
    checkRecord(record);
  } catch {
    return undefined;
  }
  const row: Record<string, unknown> = { ...record };
  const seen = { characters: 0, odd: false };
  for (const name in row) {
    const value = row[name] as Json | undefined;
    if (value === undefined) return undefined;
    seen.characters += 6 * name.length + 30;
    if (typeof value === 'string') seen.characters += 6 * value.length;
    else if (typeof value === 'object') row[name] = unshared(value, seen);
  }
  return seen.odd || seen.characters > maxBytes ? undefined : (row as unknown as TaskRecord);
}

function anyRow(record: TaskRecord, maxBytes: number): TaskRecord {
  const wire = recordToWire(record) as Record<string, Json>;
  for (const name of Object.keys(wire)) {
    const odd = unstorable(wire[name] as Json, name);
    if (odd)
      throw badRequest(
        odd.key,
        `of task ${record.taskId} is ${odd.value}, which no store can hold; nothing was written.`,
      );
    wire[name] = unshared(wire[name]);
  }
  const bytes = Buffer.byteLength(JSON.stringify(wire));
  if (bytes > maxBytes) {
    throw new LeaseholdError(
      'record-too-large',
      `The record of task ${record.taskId} is ${bytes} bytes, this ledger takes ${maxBytes}; nothing was written. Keep large content in a content store.`,
      { field: 'record' },
    );
  }
  try {
    return recordFromWire(wire);
  } catch (cause) {
    throw new LeaseholdError(
      'bad-request',
      `Nothing was written, since no reader could use it. ${(cause as Error).message}`,
      { cause },
    );
  }
}

/** The first number that JSON would turn into null. */
function unstorable(
  value: Json | bigint,
  key: string,
): { readonly key: string; readonly value: number | bigint } | undefined {
  if (typeof value === 'bigint') return { key, value };
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : { key, value };
  if (typeof value !== 'object' || value === null) return undefined;
  for (const name of Object.keys(value)) {
    const found = unstorable((value as Readonly<Record<string, Json>>)[name] as Json, name);
    if (found) return found;
  }
  return undefined;
}

type Place = Pick<TaskRecord, 'updatedAt' | 'taskId'>;

/** Newest update first; ids decide between equals. */
function order(one: Place, other: Place): number {
  if (one.updatedAt !== other.updatedAt) return other.updatedAt - one.updatedAt;
  return one.taskId < other.taskId ? -1 : Number(one.taskId > other.taskId);
}

function toCursor({ updatedAt, taskId }: Place): string {
  return Buffer.from(JSON.stringify([updatedAt, taskId])).toString('base64url');
}

function fromCursor(cursor: string): Place {
  try {
    const [updatedAt, taskId] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as readonly [unknown, unknown];
    if (typeof updatedAt === 'number' && typeof taskId === 'string') return { updatedAt, taskId };
  } catch (cause) {
    throw new LeaseholdError('bad-request', 'cursor is none that this ledger gave; start again without one.', {
      field: 'cursor',
      cause,
    });
  }
  throw badRequest('cursor', 'is none that this ledger gave; start again without one.');
}
