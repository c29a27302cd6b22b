import { LeaseholdError, recordFromWire, type TaskRecord, type WireRecord } from '@leasehold/core';
import type { StoreInstant } from './store-clock.ts';

/** The columns {@link readRow} needs. */
export const RECORD_COLUMNS: string = 'task_id, lease_expires_at, boot, document';

/** A stored record as SQLite gives it. */
export interface RecordRow {
  readonly task_id: string;
  readonly lease_expires_at: number | null;
  readonly boot: number | null;
  readonly document: string;
}

/**
 * The record of a row. A lease of another boot is shown as over: its holder is gone with that boot.
 *
 * @throws LeaseholdError `record-corrupt`
 */
export function readRow(row: RecordRow, now: StoreInstant): TaskRecord {
  const record = recordFromWire(parse(row));
  if (row.lease_expires_at === null) return record;
  const leaseExpiresAt =
    row.boot === now.boot ? row.lease_expires_at : Math.min(row.lease_expires_at, now.bootStartedAt);
  return { ...record, leaseExpiresAt };
}

function parse({ task_id, document }: RecordRow): WireRecord {
  try {
    return JSON.parse(document) as WireRecord;
  } catch (cause) {
    throw new LeaseholdError(
      'record-corrupt',
      `The stored record of task ${task_id} cannot be used: its document is not JSON. It was left as it is; repair or delete it by hand.`,
      { field: 'document', cause },
    );
  }
}
