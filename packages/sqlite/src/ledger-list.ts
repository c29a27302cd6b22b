import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  isLeaseholdError,
  LeaseholdError,
  type LedgerPage,
  type LedgerQuery,
  type TaskRecord,
  type TaskState,
} from '@leasehold/core';
import type { Session } from './commit-queue.ts';
import { readRow, RECORD_COLUMNS, type RecordRow } from './record-row.ts';
import type { FileShare } from './sqlite-file.ts';
import type { StoreInstant } from './store-clock.ts';

/** A stored record that cannot be read, and why. */
export interface CorruptRecord {
  readonly taskId: string;
  readonly error: LeaseholdError;
}

interface ListedRow extends RecordRow {
  readonly state: string;
  readonly updated_at: number;
  readonly stage: string;
  readonly task_type: string;
  readonly error_class: string | null;
}

type Place = readonly [updatedAt: number, taskId: string];

/** Rows of one order that is read in steps: those of one state, or of one run. */
interface Lane {
  readonly read: (session: Session, after: Place) => readonly ListedRow[];
  readonly step: number;
  after: Place;
  rows: ListedRow[];
  ended: boolean;
}

/** The most rows looked at in one go; between two the event loop turns. */
const STEP = 200;
const STATES: readonly TaskState[] = ['queued', 'running', 'waiting_human', 'settled', 'dead_lettered', 'cancelled'];
const COLUMNS = `${RECORD_COLUMNS}, state, updated_at, stage, task_type, error_class`;
const ORDER = `(updated_at, task_id) < (?, ?) ORDER BY updated_at DESC, task_id DESC LIMIT ?`;
/** One state's records, newest update first. */
export const BY_STATE: string = `SELECT ${COLUMNS} FROM leasehold_task WHERE state = ? AND ${ORDER}`;
/** One run's records, newest update first. */
export const BY_RUN: string = `SELECT ${COLUMNS} FROM leasehold_task WHERE agent_run_id = ? AND ${ORDER}`;
const ALL = `SELECT rowid AS place, ${RECORD_COLUMNS} FROM leasehold_task WHERE rowid > ? ORDER BY rowid LIMIT ${STEP}`;
const FIRST: Place = [Number.MAX_SAFE_INTEGER, ''];

/** One page, newest update first. Merges one index range per state; other fields of the query are looked at row by row. */
export async function listRecords(share: FileShare, query: LedgerQuery, signal: AbortSignal): Promise<LedgerPage> {
  if (!Number.isInteger(query.limit) || query.limit < 1) {
    throw new LeaseholdError('bad-request', `limit is ${query.limit}; write a whole number from 1.`, {
      field: 'limit',
    });
  }
  const after = query.cursor === undefined ? FIRST : parseCursor(query.cursor);
  const lanes = lanesOf(query, after);
  const records: TaskRecord[] = [];
  // Between two steps a task may move to a place that is still to come.
  const seen = new Set<string>();
  let last: Place | undefined;
  for (;;) {
    const { now, full } = await share.read((session) => {
      // All lanes of a step see one moment: a task that changes its state meanwhile must not show up in both, or in neither.
      atOneMoment(session, () => lanes.forEach((lane) => refill(session, lane)));
      const stopped = merge(lanes, session.now, query, (row) => {
        if (records.length === query.limit) return false;
        const record = seen.has(row.task_id) ? undefined : readable(row, session.now);
        if (record) records.push(record);
        seen.add(row.task_id);
        last = [row.updated_at, row.task_id];
        return true;
      });
      return { now: { earliest: session.now.earliest, latest: session.now.latest }, full: stopped };
    }, signal);
    if (full && last) return { records, now, cursor: JSON.stringify(last) };
    if (lanes.every((lane) => lane.ended && lane.rows.length === 0)) return { records, now };
    await nextTurn();
  }
}

function lanesOf(query: LedgerQuery, after: Place): Lane[] {
  const step = Math.min(STEP, query.limit + 1);
  const lane = (sql: string, key: string): Lane => ({
    read: (session, place) => session.statement(sql).all(key, ...place, step) as unknown as ListedRow[],
    step,
    after,
    rows: [],
    ended: false,
  });
  if (query.agentRunId !== undefined) return [lane(BY_RUN, query.agentRunId)];
  const states = query.lapsed ? (['running'] as const) : (query.states ?? STATES);
  return [...new Set(states)].map((state) => lane(BY_STATE, state));
}

function atOneMoment(session: Session, read: () => void): void {
  session.statement('SAVEPOINT leasehold_list').run();
  try {
    read();
  } finally {
    session.statement('RELEASE leasehold_list').run();
  }
}

function refill(session: Session, lane: Lane): void {
  if (lane.ended || lane.rows.length > 0) return;
  lane.rows = [...lane.read(session, lane.after)];
  lane.ended = lane.rows.length < lane.step;
  const end = lane.rows.at(-1);
  if (end) lane.after = [end.updated_at, end.task_id];
}

/** Gives matching rows in order until `take` declines one (true) or a lane has to be read on (false). */
function merge(
  lanes: readonly Lane[],
  now: StoreInstant,
  query: LedgerQuery,
  take: (row: ListedRow) => boolean,
): boolean {
  for (;;) {
    if (lanes.some((lane) => lane.rows.length === 0 && !lane.ended)) return false;
    const next = lanes
      .filter((lane) => lane.rows.length > 0)
      .reduce<Lane | undefined>((a, b) => (a && isNewer(a, b) ? a : b), undefined);
    const row = next?.rows[0];
    if (!next || !row) return false;
    if (matches(row, now, query) && !take(row)) return true;
    next.rows.shift();
  }
}

function isNewer(left: Lane, right: Lane): boolean {
  const [a, b] = [left.rows[0] as ListedRow, right.rows[0] as ListedRow];
  if (a.updated_at !== b.updated_at) return a.updated_at > b.updated_at;
  // As SQLite compares text, or a page's end would not mean the same to every lane.
  return Buffer.compare(Buffer.from(a.task_id), Buffer.from(b.task_id)) > 0;
}

function matches(row: ListedRow, now: StoreInstant, query: LedgerQuery): boolean {
  const among = (values: readonly string[] | undefined, value: string): boolean => !values || values.includes(value);
  if (!among(query.states, row.state) || !among(query.stages, row.stage) || !among(query.taskTypes, row.task_type))
    return false;
  if (query.errorClass !== undefined && row.error_class !== query.errorClass) return false;
  if (!query.lapsed) return true;
  return (
    row.state === 'running' &&
    (row.lease_expires_at === null || row.boot !== now.boot || row.lease_expires_at <= now.earliest)
  );
}

// A record that cannot be read must not hide the others: get, and corruptRecords, report it.
function readable(row: RecordRow, now: StoreInstant): TaskRecord | undefined {
  try {
    return readRow(row, now);
  } catch (error) {
    if (isLeaseholdError(error) && error.code === 'record-corrupt') return undefined;
    throw error;
  }
}

function parseCursor(cursor: string): Place {
  try {
    const place: unknown = JSON.parse(cursor);
    if (Array.isArray(place) && typeof place[0] === 'number' && typeof place[1] === 'string')
      return [place[0], place[1]];
    throw new TypeError('not a place');
  } catch (cause) {
    const text = 'cursor is not one that list gave; pass a cursor back unchanged, or none to begin at the start.';
    throw new LeaseholdError('bad-request', text, { field: 'cursor', cause });
  }
}

/** Every record that cannot be read. */
export async function corruptRecords(share: FileShare, signal: AbortSignal): Promise<readonly CorruptRecord[]> {
  const found: CorruptRecord[] = [];
  let place: number | undefined = -1;
  while (place !== undefined) {
    const after: number = place;
    place = await share.read((session) => {
      const rows = session.statement(ALL).all(after) as unknown as (RecordRow & { readonly place: number })[];
      for (const row of rows) {
        try {
          readRow(row, session.now);
        } catch (error) {
          if (!isLeaseholdError(error)) throw error;
          found.push({ taskId: row.task_id, error });
        }
      }
      return rows.length < STEP ? undefined : rows.at(-1)?.place;
    }, signal);
    await nextTurn();
  }
  return found;
}
