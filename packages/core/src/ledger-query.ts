import type { LedgerQuery } from './driver.ts';
import { isLapsed, type StoreTime, type TaskRecord } from './record.ts';

/** Whether a record is one that a query asks for; for drivers whose store cannot choose by itself. */
export function matchesQuery(record: TaskRecord, query: LedgerQuery, now: StoreTime): boolean {
  return (
    (query.states?.includes(record.state) ?? true) &&
    (query.stages?.includes(record.stage) ?? true) &&
    (query.taskTypes?.includes(record.taskType) ?? true) &&
    (query.agentRunId === undefined || query.agentRunId === record.agentRunId) &&
    (query.errorClass === undefined || query.errorClass === record.lastError?.errorClass) &&
    (!query.lapsed || (record.state === 'running' && isLapsed(record, now)))
  );
}
