import { grouped, type Evidence, type FaultDone, type Violation } from './evidence.ts';
import { accepted, type Write } from './writes.ts';

/** How long tasks were without an owner: from the moment in which theirs was killed or stopped to their next grant. */
export interface Recovery extends Spread {
  readonly takeovers: number;
  /** How long new tasks waited for a worker meanwhile: what a task that is free again has to wait as well. */
  readonly waited: Spread;
}

/** A few numbers for many, in milliseconds. */
interface Spread {
  readonly medianMs: number;
  readonly p95Ms: number;
  readonly maxMs: number;
}

/** For a machine that is busy with other things as well. */
const ALLOWANCE_MS = 10_000;

interface Takeover {
  readonly taskId: string;
  readonly from: number;
  readonly ms: number;
}

/** I5's second half: claimable again within the lease and the broker's delay. What then waits for a free worker waits as new tasks do. */
export function recoveryOf(evidence: Evidence): {
  readonly recovery: Recovery;
  readonly violations: readonly Violation[];
} {
  const takeovers = findTakeovers(evidence);
  const waits = waitsOf(evidence);
  const waitMs = Math.max(0, ...waits);
  const violations = takeovers.flatMap(({ taskId, from, ms }): Violation[] => {
    // Whoever parks its message may be killed as well, and then that lease has to end too.
    const more = evidence.faults.filter((fault) => isLapse(fault) && fault.at >= from && fault.at <= from + ms).length;
    const mostMs =
      evidence.timing.leaseMs * (1 + more) +
      evidence.timing.brokerDelayMs +
      evidence.timing.clockErrorMs +
      waitMs +
      ALLOWANCE_MS;
    if (ms <= mostMs) return [];
    return [
      { of: 'I5', taskId, what: `it was without an owner for ${Math.round(ms)} ms (at most ${Math.round(mostMs)})` },
    ];
  });
  const recovery = { takeovers: takeovers.length, ...spreadOf(takeovers.map(({ ms }) => ms)), waited: spreadOf(waits) };
  return { recovery, violations };
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((one, other) => one - other);
  const at = (share: number): number =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return { medianMs: at(0.5), p95Ms: at(0.95), maxMs: at(1) };
}

function isLapse(fault: FaultDone): boolean {
  return fault.kind === 'kill' || fault.kind === 'stop';
}

function findTakeovers(evidence: Evidence): readonly Takeover[] {
  const byTask = accepted(evidence.writes);
  const touched = grouped([...byTask.values()].flat(), ({ who }) => who);
  const found: Takeover[] = [];
  for (const fault of evidence.faults.filter(isLapse)) {
    const own = new Set((touched.get(fault.who) ?? []).map(({ taskId }) => taskId));
    for (const taskId of own) {
      const writes = byTask.get(taskId) ?? [];
      const held = heldAt(writes, fault);
      if (held === undefined) continue;
      const next = writes.find(({ next: { token, state } }) => token > held && state === 'running');
      if (next && next.answered.at > fault.at && !next.who.startsWith(fault.who))
        found.push({ taskId, from: fault.at, ms: next.answered.at - fault.at });
    }
  }
  return found;
}

/** The token under which the process held the task when the fault befell it. */
function heldAt(
  writes: readonly (Write & { readonly answered: { readonly at: number } })[],
  { who, at }: FaultDone,
): number | undefined {
  const last = writes.findLast(({ answered }) => answered.at <= at);
  return last && last.who === who && last.next.state === 'running' ? last.next.token : undefined;
}

/** How long each task waited for its first grant: the measure of how busy the workers were. */
function waitsOf({ entries, writes, plan }: Evidence): readonly number[] {
  const askedAt = new Map<string, number>();
  for (const said of entries)
    if (said.kind === 'step') for (const taskId of said.taskIds) askedAt.set(taskId, askedAt.get(taskId) ?? said.at);
  const delayed = new Set(
    plan.steps.flatMap((step) => (step.kind === 'enqueue' && step.delayMs !== undefined ? [step.task.taskId] : [])),
  );
  const waits: number[] = [];
  for (const [taskId, [first]] of accepted(writes)) {
    const asked = askedAt.get(taskId);
    // Asked for again after a lost answer, it may have been granted before that was written down.
    if (first && asked !== undefined && !delayed.has(taskId)) waits.push(Math.max(0, first.answered.at - asked));
  }
  return waits;
}
