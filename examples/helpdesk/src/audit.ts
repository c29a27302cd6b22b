import { isTerminal, type TaskRecord } from '@leasehold/core';
import type { Evidence } from './evidence.ts';
import { effectProblems, fenceProblems, settleProblems, tokenProblems } from './invariants.ts';
import { isStaleCall, short } from './scenario.ts';

/** The one line of `--json`, without the time. */
export interface Tally {
  /** Tool calls that were enqueued. */
  readonly tasks: number;
  /** Tasks that settled tasks asked for. */
  readonly followUps: number;
  /** Messages that nobody could read. */
  readonly poison: number;
  readonly settled: number;
  readonly cancelled: number;
  readonly deadLettered: number;
  /** Rows at the service. */
  readonly effects: number;
  readonly duplicateEffects: number;
  /** Tasks without an end. */
  readonly lost: number;
  /** Tasks that were granted anew after a lease had lapsed, as the ledger says. */
  readonly takeovers: number;
  /** Calls that the service's guard refused because it had seen a higher token. */
  readonly staleRejected: number;
  /** Deliveries of settled tasks that were answered from the receipt. */
  readonly replays: number;
  /** Effects that the service was asked for, and had, whose maker had died, was stopped, or never got the answer. */
  readonly readBacks: number;
}

/** A promise that was not kept. */
export interface Violation {
  /** `I1` to `I5` as the design has them, or the fault that did not do what it should. */
  readonly of: string;
  readonly what: string;
}

/** The numbers, and every promise that was not kept. Pure: the same evidence gives the same verdict. */
export function audit(evidence: Evidence): { readonly tally: Tally; readonly violations: readonly Violation[] } {
  const { records, effects, workers } = evidence;
  const { deadLetters } = evidence.queue;
  const byId = new Map(records.map((record) => [record.taskId, record]));
  const expected = expectedTasks(evidence.enqueued, byId);
  const undecodable = distinct(
    deadLetters.filter(({ reason }) => reason === 'undecodable'),
    'of',
  );
  const ends = (state: TaskRecord['state']): number => records.filter((record) => record.state === state).length;
  const unended = expected.filter((taskId) => !isEnded(byId.get(taskId)));
  const tally: Tally = {
    tasks: evidence.enqueued.length,
    followUps: expected.length - evidence.enqueued.length,
    poison: evidence.poison,
    settled: ends('settled'),
    cancelled: ends('cancelled'),
    deadLettered: ends('dead_lettered') + undecodable,
    effects: effects.length,
    duplicateEffects: effects.length - Math.min(distinct(effects, 'key'), distinct(effects, 'meaning')),
    lost: unended.length + Math.max(0, evidence.poison - undecodable),
    takeovers: records.filter(wasTakenOver).length,
    staleRejected: evidence.service.filter((said) => records.some(({ taskId }) => isStaleCall(said, taskId))).length,
    replays: workers.filter(({ event }) => event.name === 'task_replayed').length,
    readBacks: readBacks(evidence).length,
  };
  const violations = [
    ...tokenProblems(evidence).map(named('I1')),
    ...settleProblems(evidence).map(named('I2')),
    ...fenceProblems(evidence).map(named('I3')),
    ...effectProblems(evidence).map(named('I4')),
    ...lossProblems(evidence, expected, byId, tally).map(named('I5')),
    ...faultProblems(evidence, byId, tally),
  ];
  return { tally, violations };
}

const named =
  (of: string) =>
  (what: string): Violation => ({ of, what });

function distinct<Row>(rows: readonly Row[], field: keyof Row): number {
  return new Set(rows.map((row) => row[field])).size;
}

function isEnded(record: TaskRecord | undefined): boolean {
  return record !== undefined && isTerminal(record.state);
}

/** A grant after a lapse says so in the record, until a later error replaces it. */
function wasTakenOver(record: TaskRecord): boolean {
  return record.fencingToken > 1 && record.lastError?.errorClass === 'lapsed';
}

/** The enqueued tasks, and those that settled ones say they asked for, and so on. */
function expectedTasks(enqueued: readonly string[], byId: ReadonlyMap<string, TaskRecord>): readonly string[] {
  const expected = [...enqueued];
  for (const taskId of expected) expected.push(...promised(byId.get(taskId)));
  return expected;
}

function promised(record: TaskRecord | undefined): readonly string[] {
  if (record?.state !== 'settled' || !record.result || !('inline' in record.result)) return [];
  const { inline } = record.result;
  const next =
    typeof inline === 'object' && inline !== null && !Array.isArray(inline) ? (inline as { next?: unknown }).next : [];
  return Array.isArray(next) ? next.map(String) : [];
}

/** The looks that found what their asker had not been told of: committed under another token, or answered into the void. */
function readBacks({ service, effects }: Evidence): readonly string[] {
  const lost = new Set(service.flatMap((said) => (said.kind === 'answered' && !said.delivered ? [said.key] : [])));
  const madeUnder = new Map(effects.map((row) => [row.key, row.token]));
  return service.flatMap((said) => {
    if (said.kind !== 'guard' || said.event.name !== 'guard_looked' || said.event.state !== 'done') return [];
    const { key = '', token } = said.event;
    return lost.has(key) || madeUnder.get(key) !== token ? [key] : [];
  });
}

/** I5: each task ends, nothing ends that nobody asked for, and nothing is left in the queue. */
function lossProblems(
  { records, queue, poison }: Evidence,
  expected: readonly string[],
  byId: ReadonlyMap<string, TaskRecord>,
  tally: Tally,
): string[] {
  const problems = expected
    .filter((taskId) => !isEnded(byId.get(taskId)))
    .map((taskId) => `${short(taskId)} has no end: it is ${byId.get(taskId)?.state ?? 'not in the ledger'}`);
  const known = new Set(expected);
  for (const { taskId } of records) if (!known.has(taskId)) problems.push(`${short(taskId)} was asked for by nobody`);
  for (const { taskId, next } of records) if (next) problems.push(`${short(taskId)} has follow-ups that were not sent`);
  const left = queue.waiting + queue.held;
  if (left > 0) problems.push(`${left} messages are left in the queue`);
  const letters = new Map(queue.deadLetters.map(({ of, reason }) => [of, reason]));
  for (const { taskId, state } of records) {
    const reason = letters.get(taskId);
    if (state === 'dead_lettered' && reason === undefined)
      problems.push(`${short(taskId)} was dead-lettered, and its message is not in the dead-letter queue`);
    if (state !== 'dead_lettered' && reason !== undefined)
      problems.push(`${short(taskId)} is ${state}, and its message lies in the dead-letter queue (${reason})`);
    letters.delete(taskId);
  }
  for (const [of, reason] of letters)
    if (reason !== 'undecodable')
      problems.push(`a message of ${short(of)}, which has no record, lies in the dead-letter queue (${reason})`);
  const ended = tally.settled + tally.cancelled + tally.deadLettered;
  const asked = tally.tasks + tally.followUps + poison;
  if (ended !== asked) problems.push(`${ended} ended of ${asked} that were asked for`);
  return problems;
}

/** Each fault has to have happened, and to have been answered in the right way. */
function faultProblems(evidence: Evidence, byId: ReadonlyMap<string, TaskRecord>, tally: Tally): Violation[] {
  const problems: Violation[] = [];
  const expect = (of: string, holds: boolean, what: string): void => void (holds || problems.push({ of, what }));
  const madeBack = new Set(readBacks(evidence));
  const hit = (fault: string): TaskRecord | undefined =>
    byId.get(evidence.caught.find((caught) => caught.fault === fault)?.taskId ?? '');
  const rowsOf = (record: TaskRecord | undefined): number =>
    evidence.effects.filter(({ task }) => task === record?.taskId).length;
  const keysOf = (record: TaskRecord | undefined): readonly string[] =>
    Object.values(record?.effects ?? {}).map(({ key }) => key);

  const killed = hit('kill');
  expect('kill', killed?.state === 'settled' && killed.fencingToken >= 2, 'the task was not settled by a second owner');
  expect('kill', rowsOf(killed) === 1, `the effect exists ${rowsOf(killed)} times`);
  expect(
    'kill',
    keysOf(killed).some((key) => madeBack.has(key)),
    'the settling attempt did not read the effect back',
  );

  const stopped = hit('stop');
  expect(
    'stop',
    stopped?.state === 'settled' && stopped.fencingToken >= 2,
    'the task was not settled by a second owner',
  );
  expect('stop', rowsOf(stopped) === 1, `the effect exists ${rowsOf(stopped)} times`);
  expect(
    'stop',
    evidence.service.some((said) => isStaleCall(said, stopped?.taskId ?? '')),
    'the stale call was not refused',
  );

  const dropped = hit('drop');
  expect('drop', dropped?.state === 'settled' && rowsOf(dropped) === 1, `the effect exists ${rowsOf(dropped)} times`);
  expect(
    'drop',
    keysOf(dropped).some((key) => madeBack.has(key)),
    'the effect was not read back',
  );

  const cancelled = hit('cancel');
  expect(
    'cancel',
    cancelled?.state === 'cancelled' && tally.cancelled === 1,
    `the task is ${cancelled?.state ?? 'unknown'}`,
  );
  expect('cancel', rowsOf(cancelled) === 0, 'the cancelled task has an effect');

  const replayed = evidence.workers.some(
    ({ event }) => event.name === 'task_replayed' && event.taskId === evidence.resent,
  );
  expect('replay', replayed, 'the message that was sent again was not answered from the receipt');
  for (const name of ['takeovers', 'staleRejected', 'readBacks'] as const)
    expect(name, tally[name] >= 1, 'there was none');
  return problems;
}
