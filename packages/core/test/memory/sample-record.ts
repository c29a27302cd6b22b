import { SCHEMA_VERSION, type TaskRecord } from '@leasehold/core';

/** A record that nobody holds. */
export function record(taskId: string, more: Partial<TaskRecord> = {}): TaskRecord {
  return {
    schemaVersion: SCHEMA_VERSION,
    taskId,
    taskType: 'test',
    state: 'queued',
    stage: 'preflight',
    stageEnteredAt: 1,
    renewalCount: 0,
    history: [],
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: taskId,
    effects: {},
    version: 1,
    opId: `op of ${taskId}`,
    createdAt: 1,
    updatedAt: 1,
    ...more,
  };
}
