import {
  LeaseholdError,
  checkRecord,
  recordToWire,
  type LeaseStamp,
  type LedgerDriver,
  type PutExpectation,
  type PutOutcome,
  type TaskRecord,
} from '@leasehold/core';
import type { Session } from './commit-queue.ts';
import { FILE_OPTIONS, fileSettings, type SqliteFileOptions } from './file-options.ts';
import { corruptRecords, listRecords, type CorruptRecord } from './ledger-list.ts';
import { classifySqliteError } from './sqlite-errors.ts';
import { FileShare } from './sqlite-file.ts';
import { readRow, RECORD_COLUMNS, type RecordRow } from './record-row.ts';

/** What {@link sqliteLedger} takes. */
export type SqliteLedgerOptions = SqliteFileOptions;

/** A ledger driver on SQLite, with what operators need beside it. */
export interface SqliteLedger extends LedgerDriver {
  /** Opens the file, or makes it, and reports what is wrong with it. Every other call does so too. */
  open(signal: AbortSignal): Promise<void>;
  /** Every stored record that cannot be read, which `list` leaves out and `get` reports as `record-corrupt`. Reads the whole table, in steps. */
  corrupt(signal?: AbortSignal): Promise<readonly CorruptRecord[]>;
}

const MAX_RECORD_BYTES = 2 ** 20;
const MIN_LEASE_MS = 100;

const VALUES = `version = ?, state = ?, lease_expires_at = ?, boot = ?, updated_at = ?, expires_at = ?, stage = ?, task_type = ?,
  agent_run_id = ?, error_class = ?, document = ?`;
const CREATE = `INSERT INTO leasehold_task (version, state, lease_expires_at, boot, updated_at, expires_at, stage, task_type,
  agent_run_id, error_class, document, task_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (task_id) DO NOTHING`;
const REPLACE = `UPDATE leasehold_task SET ${VALUES} WHERE task_id = ? AND version = ?`;
const REPLACE_LIVE = `${REPLACE} AND boot = ? AND lease_expires_at > ?`;
// A row that nobody holds has neither expiry nor boot.
const REPLACE_LAPSED = `${REPLACE} AND (lease_expires_at IS NULL OR boot IS NOT ? OR lease_expires_at <= ?)`;
const GET = `SELECT ${RECORD_COLUMNS} FROM leasehold_task WHERE task_id = ?`;

/**
 * A ledger in an SQLite file: linearizable between the processes of one machine, synced to disk before a write is answered,
 * judged by the machine's boot clock. A lease of an earlier boot is over, whatever its expiry says.
 *
 * `list` leaves out records that cannot be read, so that one does not hide the others; `corrupt` finds them.
 *
 * @throws LeaseholdError `bad-option` at once. Calls reject with errors of `node:sqlite`, `unavailable` when the file cannot be opened,
 * `record-corrupt`, `record-too-large`, or `bad-request` for a record no reader could use; a locked file is waited for until the call's signal aborts.
 *
 * @example
 * ```ts
 * import { sqliteLedger } from '@leasehold/sqlite';
 *
 * const ledger = sqliteLedger({ file: './leasehold.db' });
 * ```
 */
export function sqliteLedger(options: SqliteLedgerOptions): SqliteLedger {
  const share = new FileShare('ledger', fileSettings(options, FILE_OPTIONS));
  return {
    specVersion: 1,
    name: 'sqlite',
    capabilities: {
      clockErrorMs: share.resolutionMs,
      minLeaseMs: MIN_LEASE_MS,
      maxRecordBytes: MAX_RECORD_BYTES,
      list: 'index',
    },
    open: (signal) => share.open(signal),
    async put(next, lease, expect, signal) {
      // Made outside the transaction, which is all the time that others wait.
      const document = documentOf(next);
      return share.write((session) => putRecord(session, next, document, lease, expect), signal, {
        durable: true,
        single: true,
      });
    },
    get: (taskId, signal) =>
      share.read((session) => ({ record: readTask(session, taskId), now: timeOf(session) }), signal),
    list: (query, signal) => listRecords(share, query, signal),
    corrupt: (signal = new AbortController().signal) => corruptRecords(share, signal),
    classify: classifySqliteError,
    close: () => share.close(),
  };
}

function documentOf(next: TaskRecord): string {
  const { lease_expires_at: _column, ...wire } = recordToWire(next);
  try {
    checkRecord(next);
  } catch (cause) {
    throw new LeaseholdError(
      'bad-request',
      `Nothing was written, since no reader could use it. ${(cause as Error).message}`,
      { cause },
    );
  }
  const document = JSON.stringify(wire);
  const bytes = Buffer.byteLength(document);
  if (bytes > MAX_RECORD_BYTES) {
    const text = `The record of task ${next.taskId} has ${bytes} bytes; ${MAX_RECORD_BYTES} fit. Keep large content in a content store.`;
    throw new LeaseholdError('record-too-large', text, { field: 'record' });
  }
  return document;
}

function putRecord(
  session: Session,
  next: TaskRecord,
  document: string,
  lease: LeaseStamp | undefined,
  expect: PutExpectation,
): PutOutcome {
  const { now, statement } = session;
  const expiry = lease ? Math.floor(Math.min(now.latest + lease.ms, lease.notBeyond ?? Infinity)) : next.leaseExpiresAt;
  const values = [
    next.version,
    next.state,
    expiry ?? null,
    expiry === undefined ? null : now.boot,
    Math.floor(next.updatedAt),
    // The clean-up goes by this column: a task that is worked on or waited for is never thrown away. (A free key of a serialisation is.)
    next.expiresAt === undefined || next.state === 'running' || next.state === 'waiting_human'
      ? null
      : Math.ceil(next.expiresAt),
    next.stage,
    next.taskType,
    next.agentRunId ?? null,
    next.lastError?.errorClass ?? null,
    document,
    next.taskId,
  ];
  const { changes } = ((): { changes: number | bigint } => {
    if (expect.version === 0) return statement(CREATE).run(...values);
    values.push(expect.version);
    const condition = 'lease' in expect ? expect.lease : 'any';
    if (condition === 'live') return statement(REPLACE_LIVE).run(...values, now.boot, now.latest);
    if (condition === 'lapsed') return statement(REPLACE_LAPSED).run(...values, now.boot, now.earliest);
    return statement(REPLACE).run(...values);
  })();
  if (changes === 0) return { ok: false, current: readTask(session, next.taskId), now: timeOf(session) };
  return {
    ok: true,
    record: lease && expiry !== undefined ? { ...next, leaseExpiresAt: expiry } : next,
    now: timeOf(session),
  };
}

function readTask(session: Session, taskId: string): TaskRecord | undefined {
  const row = session.statement(GET).get(taskId) as unknown as RecordRow | undefined;
  return row && readRow(row, session.now);
}

function timeOf({ now }: Session): { readonly earliest: number; readonly latest: number } {
  return { earliest: now.earliest, latest: now.latest };
}
