import { isLapsed, type StoreTime, type TaskRecord, type TaskState } from './record.ts';

/** The answer to "is it still doing useful work?". */
export interface TaskStatus {
  readonly taskId: string;
  readonly state: TaskState | 'unclaimed';
  /** Whether a running task's lease still counts; false means that the next delivery takes it over. */
  readonly live: boolean;
  /** Milliseconds until the lease ends, while running. */
  readonly remainingMs?: number;
  /** Milliseconds since the last claim of progress. */
  readonly progressAgeMs?: number;
  readonly record?: TaskRecord;
}

/** Reads a record for people and programs that ask from outside. */
export function statusOf(taskId: string, record: TaskRecord | undefined, now: StoreTime): TaskStatus {
  if (!record) return { taskId, state: 'unclaimed', live: false };
  const running = record.state === 'running';
  const last = record.history.at(-1);
  return {
    taskId,
    state: record.state,
    live: running && !isLapsed(record, now),
    record,
    ...(running && { remainingMs: Math.max(0, (record.leaseExpiresAt ?? 0) - now.earliest) }),
    ...(last && { progressAgeMs: Math.max(0, now.latest - last.at) }),
  };
}
