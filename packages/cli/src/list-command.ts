import type { LedgerQuery, Stage, StoreTime, TaskRecord, TaskState } from '@leasehold/core';
import { EXIT } from './failure.ts';
import { listPages } from './list-pages.ts';
import { withLedger, type StoreOptions } from './open-ledger.ts';
import { depthsOf } from './operator/queue-depth.ts';
import { plainTable } from './plain-table.ts';
import { plain, shortId, spell } from './wording.ts';

interface ListOptions extends StoreOptions {
  readonly state?: readonly TaskState[];
  readonly type?: readonly string[];
  readonly run?: string;
  readonly lapsed?: boolean;
  readonly stage?: readonly Stage[];
  readonly error?: string;
  readonly limit: number;
  readonly json?: boolean;
}

/** `leasehold list` */
export async function listCommand(options: ListOptions): Promise<number> {
  const query: LedgerQuery = {
    limit: options.limit,
    ...(options.state && { states: options.state }),
    ...(options.type && { taskTypes: options.type }),
    ...(options.run !== undefined && { agentRunId: options.run }),
    ...(options.lapsed && { lapsed: true }),
    ...(options.stage && { stages: options.stage }),
    ...(options.error !== undefined && { errorClass: options.error }),
  };
  const whole = Object.keys(query).length === 1;
  const { records, now, cursor, depths } = await withLedger(options, async ({ client, address }) => ({
    ...(await listPages(client, query)),
    depths: whole && !options.json ? await depthsOf(options, address) : [],
  }));
  const rows = records.map((record) => summary(record, now));
  if (options.json) {
    process.stdout.write(`${JSON.stringify(rows)}\n`);
    return EXIT.ok;
  }
  if (rows.length === 0) process.stdout.write(`${whole ? 'no task was claimed yet' : 'no task fits'}\n`);
  else table(rows);
  if (cursor !== undefined)
    process.stdout.write(`there are more than ${options.limit}; raise --limit, or narrow the list down\n`);
  for (const line of depths) process.stdout.write(`${line}\n`);
  return EXIT.ok;
}

function table(rows: readonly Summary[]): void {
  const head = ['task', 'type', 'state', 'stage', 'token', 'attempt', 'age', 'lease', 'owner'];
  const lines = rows.map((row) => [
    shortId(row.taskId),
    plain(row.type),
    row.state,
    row.stage,
    String(row.token),
    String(row.attempt),
    spell(row.ageMs),
    row.remainingMs === undefined ? '' : row.remainingMs > 0 ? `${spell(row.remainingMs)} left` : 'lapsed',
    plain(row.owner ?? ''),
  ]);
  process.stdout.write(`${plainTable(head, lines)}\n`);
}

/** A record in a line: what a person asks first, and no content. */
interface Summary {
  readonly taskId: string;
  readonly type: string;
  readonly run?: string;
  readonly state: TaskState;
  readonly stage: string;
  readonly reason?: string;
  readonly owner?: string;
  readonly token: number;
  readonly attempt: number;
  readonly failures: number;
  readonly ageMs: number;
  /** Until the lease ends; 0 when it is over. Only while running. */
  readonly remainingMs?: number;
  readonly errorClass?: string;
}

function summary(record: TaskRecord, now: StoreTime): Summary {
  const { agentRunId, renewalReason, leaseOwner, lastError } = record;
  return {
    taskId: record.taskId,
    type: record.taskType,
    ...(agentRunId !== undefined && { run: agentRunId }),
    state: record.state,
    stage: record.stage,
    ...(renewalReason !== undefined && { reason: renewalReason }),
    ...(leaseOwner !== undefined && { owner: leaseOwner }),
    token: record.fencingToken,
    attempt: record.attempt,
    failures: record.failures,
    ageMs: Math.max(0, now.latest - record.createdAt),
    ...(record.state === 'running' && { remainingMs: Math.max(0, (record.leaseExpiresAt ?? 0) - now.earliest) }),
    ...(lastError && { errorClass: lastError.errorClass }),
  };
}
