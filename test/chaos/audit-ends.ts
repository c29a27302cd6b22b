import { isTerminal, type DeadLetter } from '@leasehold/core';
import { type Evidence, type Violation } from './evidence.ts';
import { childrenOf, DEAD_LETTER_REASONS, TASK_KINDS, type PlannedTask } from './task-plan.ts';

/** How many tasks there are, and how they ended. */
export interface Ends {
  /** Planned ones, and those that settled tasks asked for. */
  readonly tasks: number;
  readonly settled: number;
  readonly cancelled: number;
  readonly deadLettered: number;
  /** Without an end, and unreadable messages that are nowhere. */
  readonly lost: number;
}

/** All that has to have an end: what was planned, and what the settled ones among it asked for. */
function expectedTasks({ plan, records }: Pick<Evidence, 'plan' | 'records'>): readonly PlannedTask[] {
  return plan.tasks.flatMap((task) => [
    task,
    ...(records.get(task.taskId)?.state === 'settled' ? childrenOf(task) : []),
  ]);
}

/** I5: each task has an end that its kind may have; nothing is left over; nothing ended that nobody asked for. */
export function endViolations(evidence: Evidence): { readonly ends: Ends; readonly violations: readonly Violation[] } {
  const { records, plan, deadLetters, left } = evidence;
  const found: Violation[] = [];
  const violation = (what: string, taskId?: string): void =>
    void found.push({ of: 'I5', what, ...(taskId !== undefined && { taskId }) });
  const expected = expectedTasks(evidence);
  const lettersOf = new Map<string, DeadLetter[]>();
  for (const letter of deadLetters) {
    const taskId = letter.attributes['leaseholdtaskid'];
    if (taskId !== undefined) lettersOf.set(taskId, [...(lettersOf.get(taskId) ?? []), letter]);
  }
  const called = cancellations(evidence);
  let lost = 0;
  for (const { taskId, kind } of expected) {
    const record = records.get(taskId);
    if (!record || !isTerminal(record.state)) {
      lost++;
      violation(`it has no end: it is ${record?.state ?? 'not in the ledger'}`, taskId);
      continue;
    }
    const { ends } = TASK_KINDS[kind];
    if (!(ends as readonly string[]).includes(record.state))
      violation(
        `it is ${record.state} (${record.lastError?.errorClass ?? 'no error'}: ${record.lastError?.message ?? ''})`,
        taskId,
      );
    if (record.next) violation('its follow-ups were not sent', taskId);
    if (called.get(taskId) === 'cancelled' && record.state !== 'cancelled')
      violation(`its cancellation was confirmed, and it is ${record.state}`, taskId);
    if (record.state === 'cancelled' && !called.has(taskId) && !mayBeUnheard(kind))
      violation('it was cancelled, and nobody asked for that', taskId);
    if (record.state !== 'dead_lettered') continue;
    const reasons = DEAD_LETTER_REASONS[kind] ?? [];
    const reason = record.lastError?.errorClass ?? '';
    if (!reasons.includes(reason)) violation(`it was dead-lettered for ${reason}`, taskId);
    if (!lettersOf.has(taskId))
      violation('it was dead-lettered, and its message is not in the dead-letter queue', taskId);
  }
  const known = new Set(expected.map(({ taskId }) => taskId));
  for (const taskId of records.keys()) if (!known.has(taskId)) violation('nobody asked for it', taskId);
  if (left > 0) violation(`${left} messages are left in the queue`);

  const texts = deadLetters.map((letter) => ({ letter, body: new TextDecoder().decode(letter.body) }));
  for (const step of plan.steps) {
    if (step.kind !== 'poison' && step.kind !== 'impostor') continue;
    const reason = step.kind === 'poison' ? 'undecodable' : 'task-id-reused';
    const own = texts.filter(({ body }) => body.includes(`"${step.mark}"`));
    if (own.length === 0) {
      lost++;
      violation(`${step.mark} is not in the dead-letter queue`);
    }
    for (const { letter } of own)
      if (letter.reason !== reason) violation(`${step.mark} was dead-lettered for ${letter.reason}`);
  }
  const marks = plan.steps.flatMap((step) => ('mark' in step ? [`"${step.mark}"`] : []));
  for (const { letter, body } of texts) {
    const taskId = letter.attributes['leaseholdtaskid'] ?? '';
    if (marks.some((mark) => body.includes(mark))) continue;
    if (records.get(taskId)?.state !== 'dead_lettered')
      violation(`its message was dead-lettered for ${letter.reason}`, taskId);
  }
  const count = (state: string): number => [...records.values()].filter((record) => record.state === state).length;
  return {
    ends: {
      tasks: expected.length,
      settled: count('settled'),
      cancelled: count('cancelled'),
      deadLettered: count('dead_lettered'),
      lost,
    },
    violations: found,
  };
}

/** What the producer was told of each cancellation. */
function cancellations({ entries }: Evidence): ReadonlyMap<string, string> {
  const called = new Map<string, string>();
  for (const said of entries) {
    // Once done, it is done: asked again, it may be refused.
    if (said.kind === 'cancelled' && called.get(said.taskId) !== 'cancelled') called.set(said.taskId, said.outcome);
  }
  return called;
}

/** Killed right after it had asked, the producer wrote nothing down. */
function mayBeUnheard(kind: PlannedTask['kind']): boolean {
  return kind === 'called_off' || kind === 'doomed';
}
