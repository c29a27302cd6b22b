import type { LeaseholdEvent, TaskRecord } from '@leasehold/core';
import type { GuardEvent } from '@leasehold/guard';
import type { EffectRow } from '../src/effects.ts';
import type { Evidence } from '../src/evidence.ts';

function record(taskId: string, changes: Partial<TaskRecord>): TaskRecord {
  return {
    schemaVersion: '1.0',
    taskId,
    taskType: 'open_case',
    state: 'settled',
    stage: 'settled',
    stageEnteredAt: 2,
    renewalCount: 0,
    history: [],
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: taskId,
    effects: {},
    version: 3,
    opId: 'op',
    createdAt: 1,
    updatedAt: 2,
    ...changes,
  };
}

function done(taskId: string, row: EffectRow | undefined, changes: Partial<TaskRecord> = {}): TaskRecord {
  const token = changes.fencingToken ?? 1;
  const receipt = {
    externalSystem: 'helpdesk',
    externalId: row?.id ?? 'hash',
    status: 'open',
    idempotencyKey: taskId,
    verifiedAt: 2,
    token,
  };
  return record(taskId, {
    settlementReceipt: { taskId, stage: 'settled', ...receipt },
    ...(row && {
      effects: {
        open: { key: row.key, status: 'verified', token, system: 'helpdesk', externalId: row.id, intendedAt: 1 },
      },
    }),
    ...changes,
  });
}

function rowOf(task: string, token: number, meaning: string, kind: EffectRow['kind'] = 'case'): EffectRow {
  return { id: `${kind}-${task}`, kind, meaning, task, token, key: `${task}:open` };
}

const lapsed = { errorClass: 'lapsed', code: 'lapsed', message: 'the lease ended' };
const worker = (pid: number, event: Omit<LeaseholdEvent, 'at'>): Evidence['workers'][number] => ({
  pid,
  event: { at: 1, ...event },
});
const guard = (event: Omit<GuardEvent, 'at'>): Evidence['service'][number] => ({
  kind: 'guard',
  event: { at: 1, ...event },
});

/** What a run with nothing wrong leaves behind: one task per fault, an import with one follow-up, one bad call, one unreadable message. */
export function soundEvidence(): Evidence {
  const rows = {
    kill: rowOf('kill', 1, 'Meyer: charged twice'),
    stop: rowOf('stop', 2, 'Nilsson: ordered twice'),
    drop: rowOf('drop', 1, 'Tanaka: wrong rate'),
    book: rowOf('import:next:0', 1, 'DE02 batch 1', 'booking'),
  };
  const badInput = { errorClass: 'permanent', code: 'PermanentError', message: 'does not fit' };
  return {
    enqueued: ['kill', 'stop', 'drop', 'cancel', 'import', 'bad'],
    poison: 1,
    records: [
      done('kill', rows.kill, { fencingToken: 2, lastError: lapsed }),
      done('stop', rows.stop, { fencingToken: 2, lastError: lapsed }),
      done('drop', rows.drop),
      record('cancel', { state: 'cancelled', stage: 'external_call', taskType: 'rebuild_index' }),
      done('import', undefined, { taskType: 'import_statement', result: { inline: { next: ['import:next:0'] } } }),
      done('import:next:0', rows.book, { taskType: 'book_entries' }),
      record('bad', { state: 'dead_lettered', stage: 'preflight', lastError: badInput }),
    ],
    tokenHistory: new Map([
      ['kill', [1, 2]],
      ['stop', [1, 2]],
      ['drop', [1]],
    ]),
    queue: {
      waiting: 0,
      held: 0,
      deadLetters: [
        { of: 'poison', reason: 'undecodable' },
        { of: 'bad', reason: 'permanent' },
      ],
    },
    workers: [
      worker(1, { name: 'task_claimed', taskId: 'kill', token: 1 }),
      worker(2, { name: 'task_claimed', taskId: 'stop', token: 1 }),
      worker(3, { name: 'task_claimed', taskId: 'drop', token: 1 }),
      worker(3, { name: 'task_settled', taskId: 'drop', token: 1 }),
      worker(3, { name: 'task_claimed', taskId: 'kill', token: 2 }),
      worker(3, { name: 'task_settled', taskId: 'kill', token: 2 }),
      worker(3, { name: 'task_claimed', taskId: 'stop', token: 2 }),
      worker(3, { name: 'task_settled', taskId: 'stop', token: 2 }),
      worker(3, { name: 'task_replayed', taskId: 'drop', token: 1 }),
    ],
    service: [
      guard({ name: 'guard_stored', scope: 'kill', key: 'kill:open', token: 1, status: 201 }),
      { kind: 'answered', key: 'kill:open', delivered: false },
      guard({ name: 'guard_stored', scope: 'drop', key: 'drop:open', token: 1, status: 201 }),
      { kind: 'answered', key: 'drop:open', delivered: false },
      guard({ name: 'guard_looked', scope: 'drop', key: 'drop:open', token: 1, state: 'done' }),
      guard({ name: 'guard_looked', scope: 'kill', key: 'kill:open', token: 2, state: 'done' }),
      guard({ name: 'guard_looked', scope: 'stop', key: 'stop:open', token: 2, state: 'absent' }),
      guard({ name: 'guard_stored', scope: 'stop', key: 'stop:open', token: 2, status: 201 }),
      { kind: 'answered', key: 'stop:open', delivered: true },
      guard({ name: 'guard_looked', scope: 'stop', key: 'stop:open', token: 2, state: 'done' }),
      guard({ name: 'guard_refused', scope: 'stop', key: 'stop:open', token: 1, problem: 'stale-token', highest: 2 }),
    ],
    effects: Object.values(rows),
    caught: (['kill', 'stop', 'drop', 'cancel'] as const).map((fault) => ({
      kind: 'caught',
      fault,
      taskId: fault,
      pid: 1,
    })),
    resent: 'drop',
  };
}
