import { SCHEMA_VERSION, type TaskRecord } from '@leasehold/core';

const AT = 1_700_000_000_000;

/** A record of a task that was just claimed, before the ledger stamps its expiry. */
export function claimed(taskId: string, more: Partial<TaskRecord> = {}): TaskRecord {
  return {
    schemaVersion: SCHEMA_VERSION,
    taskId,
    taskType: 'test',
    state: 'running',
    stage: 'preflight',
    stageEnteredAt: AT,
    renewalCount: 0,
    history: [],
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: `key of ${taskId}`,
    effects: {},
    version: 1,
    opId: `op of ${taskId}`,
    createdAt: AT,
    updatedAt: AT,
    ...more,
  };
}

/** The next write of `record`. */
export function after(record: TaskRecord, change: Partial<TaskRecord>): TaskRecord {
  return { ...record, version: record.version + 1, opId: `op ${record.version + 1}`, ...change };
}
