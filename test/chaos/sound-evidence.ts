import type { DeadLetter, LeaseholdEvent, TaskRecord, TaskState } from '@leasehold/core';
import type { Evidence, FaultDone } from './evidence.ts';
import type { Entry } from './journal.ts';
import type { Row } from './receiver.ts';
import type { Said, Seen } from './said.ts';
import type { Job, PlannedTask, Step, TaskKind } from './task-plan.ts';
import { Writes } from './writes.ts';

const LEASE_MS = 4_000;

/** Evidence as it may be changed before it is judged. */
export interface Draft {
  tasks: PlannedTask[];
  steps: Step[];
  entries: Entry[];
  faults: FaultDone[];
  records: Map<string, TaskRecord>;
  deadLetters: DeadLetter[];
  rows: Row[];
  left: number;
}

/** The evidence of a small run in which every promise was kept: a takeover, a cancellation, a dead letter, a follow-up, bad messages. */
export function soundDraft(): Draft {
  const draft: Draft = {
    tasks: [],
    steps: [],
    entries: [],
    faults: [],
    records: new Map(),
    deadLetters: [],
    rows: [],
    left: 0,
  };
  const say = (who: string, at: number, said: Said): void => void draft.entries.push({ ...said, who, at });
  let writes = 0;
  const write = (
    who: string,
    taskId: string,
    at: number,
    next: Omit<Seen, 'opId'>,
    expect: 'nothing' | 'live' | 'lapsed' | 'any',
  ): void => {
    const n = ++writes;
    const stamped = next.state === 'running' && expect !== 'any';
    const seen = { ...next, opId: `op-${n}` };
    say(who, at, { kind: 'sent', n, taskId, next: seen, expect, ...(stamped && { leaseMs: LEASE_MS }) });
    say(who, at + 5, { kind: 'answered', n, answer: 'ok' });
  };
  const event = (who: string, at: number, name: LeaseholdEvent['name'], taskId: string, token: number): void =>
    say(who, at, { kind: 'event', event: { name, at, taskId, token } });
  const claim = (who: string, taskId: string, at: number, token: number, version: number): void => {
    write(
      who,
      taskId,
      at,
      { version, token, attempt: token, state: 'running', owner: `${who}/x` },
      token === 1 ? 'nothing' : 'lapsed',
    );
    event(who, at + 6, 'task_claimed', taskId, token);
  };
  const ask = (kind: TaskKind, at: number, job: Partial<Job> = {}): string => {
    const taskId = `${kind}-${draft.tasks.length}`;
    const task: PlannedTask = { taskId, kind, job: { order: taskId, thinkMs: 10, effects: [], deaf: false, ...job } };
    draft.tasks.push(task);
    draft.steps.push({ at, kind: 'enqueue', task });
    say('producer.1', at, { kind: 'step', step: draft.steps.length - 1, taskIds: [taskId] });
    return taskId;
  };
  const record = (
    taskId: string,
    state: TaskState,
    token: number,
    version: number,
    more: Partial<TaskRecord> = {},
  ): void => void draft.records.set(taskId, recordOf(taskId, state, token, version, more));
  const settle = (
    who: string,
    taskId: string,
    at: number,
    token: number,
    version: number,
    effect?: { readonly name: string; readonly id: string },
  ): void => {
    const id = effect?.id ?? 'hash';
    write(who, taskId, at, { version, token, attempt: token, state: 'settled', receipt: { token, id } }, 'live');
    event(who, at + 6, 'task_settled', taskId, token);
    const key = `${taskId}:${effect?.name}`;
    const effects = effect
      ? { [effect.name]: { key, status: 'verified', token, system: 'desk', externalId: id, intendedAt: at } as const }
      : {};
    const receipt = {
      taskId,
      stage: 'settled',
      externalSystem: 'desk',
      externalId: id,
      status: 'done',
      idempotencyKey: taskId,
      verifiedAt: at,
      token,
    } as const;
    record(taskId, 'settled', token, version, { effects, settlementReceipt: receipt });
  };
  const act = (taskId: string, at: number, token: number, name: string, id: string, who = 'receiver.1'): void => {
    const key = `${taskId}:${name}`;
    say(who, at, { kind: 'applied', taskId, token, key });
    draft.rows.push({ id, meaning: `${name} for ${taskId}`, taskId, token, key });
  };

  const plain = ask('plain', 1_000);
  claim('worker-1.1', plain, 1_100, 1, 1);
  settle('worker-1.1', plain, 1_200, 1, 2);

  // Killed right before its call left; the next owner finds nothing and makes it.
  const ticket = ask('ticket', 1_000, { effects: ['ticket'] });
  claim('worker-2.1', ticket, 1_100, 1, 1);
  write(
    'worker-2.1',
    ticket,
    1_200,
    { version: 2, token: 1, attempt: 1, state: 'running', owner: 'worker-2.1/x' },
    'live',
  );
  say('worker-2.1', 1_210, { kind: 'call', taskId: ticket, token: 1, effect: 'ticket', ownership: 'held' });
  draft.faults.push({
    kind: 'kill',
    place: 'worker-2',
    who: 'worker-2.1',
    at: 1_250,
    until: 1_500,
    detail: 'for 250 ms',
  });
  claim('worker-1.1', ticket, 5_400, 2, 3);
  say('receiver.1', 5_450, {
    kind: 'guard',
    event: { name: 'guard_looked', at: 0, scope: ticket, token: 2, key: `${ticket}:ticket`, state: 'absent' },
  });
  say('worker-1.1', 5_500, { kind: 'call', taskId: ticket, token: 2, effect: 'ticket', ownership: 'held' });
  act(ticket, 5_600, 2, 'ticket', 'T-1');
  settle('worker-1.1', ticket, 5_700, 2, 4, { name: 'ticket', id: 'T-1' });

  const doomed = ask('doomed', 2_000, { effects: ['ticket'] });
  say('producer.1', 2_010, { kind: 'cancelled', taskId: doomed, outcome: 'cancelled' });
  record(doomed, 'cancelled', 0, 1);

  const broken = ask('broken', 2_000, { breakAt: 'start' });
  claim('worker-3.1', broken, 2_100, 1, 1);
  write('worker-3.1', broken, 2_200, { version: 2, token: 1, attempt: 1, state: 'dead_lettered' }, 'live');
  record(broken, 'dead_lettered', 1, 2, { lastError: { errorClass: 'permanent', code: 'x', message: 'x' } });
  draft.deadLetters.push(letter('permanent', '{}', { leaseholdtaskid: broken }));

  const childJob: Job = { order: 'child', thinkMs: 1, effects: ['charge'], deaf: false };
  const parent = ask('parent', 3_000, { children: [{ type: 'charge', job: childJob }] });
  claim('worker-3.1', parent, 3_100, 1, 1);
  settle('worker-3.1', parent, 3_200, 1, 2);
  const child = `${parent}:next:0`;
  claim('worker-1.1', child, 3_300, 1, 1);
  say('worker-1.1', 3_350, { kind: 'call', taskId: child, token: 1, effect: 'charge', ownership: 'held' });
  act(child, 3_400, 1, 'charge', 'C-1');
  settle('worker-1.1', child, 3_500, 1, 2, { name: 'charge', id: 'C-1' });

  draft.steps.push({ at: 3_000, kind: 'poison', mark: 'poison-1' });
  draft.deadLetters.push(letter('undecodable', '{"id":"poison-1"'));
  const [first] = draft.tasks;
  if (first) draft.steps.push({ at: 3_000, kind: 'impostor', task: first, mark: 'impostor-1' });
  draft.deadLetters.push(letter('task-id-reused', '{"order":"impostor-1"}', { leaseholdtaskid: plain }));
  draft.faults.push({
    kind: 'clock',
    place: 'worker-1',
    who: 'worker-1.1',
    at: 2_000,
    until: 2_500,
    detail: 'shifted by 10 min',
    seen: true,
  });
  return draft;
}

/** A draft as evidence. */
export function evidenceOf(draft: Draft): Evidence {
  const { tasks, steps, entries, ...rest } = draft;
  const writes = new Writes();
  writes.add(entries);
  return {
    ...rest,
    plan: { tasks, steps },
    timing: { leaseMs: LEASE_MS, clockErrorMs: 20, brokerDelayMs: 1_000 },
    entries,
    writes: writes.all,
  };
}

function recordOf(
  taskId: string,
  state: TaskState,
  fencingToken: number,
  version: number,
  more: Partial<TaskRecord>,
): TaskRecord {
  return {
    schemaVersion: '1.0',
    taskId,
    taskType: taskId.replace(/-.*/, ''),
    state,
    stage: 'settled',
    stageEnteredAt: 0,
    renewalCount: 0,
    history: [],
    fencingToken,
    attempt: fencingToken,
    failures: 0,
    idempotencyKey: taskId,
    effects: {},
    version,
    opId: 'last',
    createdAt: 0,
    updatedAt: 0,
    ...more,
  };
}

function letter(reason: string, body: string, attributes: Readonly<Record<string, string>> = {}): DeadLetter {
  return { messageId: `m-${reason}`, body: new TextEncoder().encode(body), attributes, reason, description: '' };
}
