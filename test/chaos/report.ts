import { textTable } from '../faults/text-table.ts';
import type { Tally } from './audit.ts';
import type { Evidence, Violation } from './evidence.ts';
import type { Progress, RunOptions } from './run-options.ts';
import { storyOf } from './story.ts';

const MOST_STORIES = 5;
const MOST_VIOLATIONS = 40;

/** One line while a run goes on. */
export function progressText({
  phase,
  elapsedMs,
  planned,
  asked,
  ended,
  workers,
  workersAlive,
  faultsPlanned,
  faultsDone,
}: Progress): string {
  const seconds = `${Math.round(elapsedMs / 1_000)} s`;
  return `${seconds}  ${phase}: ${asked} of ${planned} tasks asked for, ${ended} ended, ${faultsDone} of ${faultsPlanned} faults, ${workersAlive} of ${workers} workers alive`;
}

/** The command that makes the same run again. */
export function repeatText(options: RunOptions, faults: string | undefined): string {
  const { profile, tasks, minutes, seed, workers, plant } = options;
  const more = `${faults === undefined ? '' : ` --faults ${faults}`}${plant === undefined ? '' : ` --plant ${plant}`}`;
  return `npm run chaos -- --profile ${profile} --tasks ${tasks} --minutes ${minutes} --seed ${seed} --workers ${workers}${more}`;
}

/** The table at the end. */
export function tallyText(tally: Tally, evidence: Evidence, ms: number): string {
  const { faults, recovery } = tally;
  const aims = evidence.faults.filter(({ aimed }) => aimed === true).length;
  return textTable([
    [
      'tasks',
      `${tally.tasks}, of which ${tally.tasks - evidence.plan.tasks.length} were asked for by others; ${tally.poison} unreadable messages`,
    ],
    [
      'ends',
      `${tally.settled} settled, ${tally.cancelled} cancelled, ${tally.deadLettered} dead-lettered, ${tally.lost} lost`,
    ],
    ['effects', `${tally.effects} at the receiver, ${tally.duplicateEffects} of them double`],
    [
      'seen',
      `${tally.staleRefused} stale calls refused, ${tally.rejectedResults} late results dropped, ${tally.readBacks} effects read back, ${tally.replays} replays`,
    ],
    [
      'faults',
      `${Object.entries(faults)
        .map(([kind, count]) => `${count} ${kind}`)
        .join(', ')}; ${aims} in the moment of a call`,
    ],
    [
      'recovery',
      `${recovery.takeovers} takeovers: median ${recovery.medianMs} ms, 95 % ${recovery.p95Ms} ms, longest ${recovery.maxMs} ms; the lease is ${evidence.timing.leaseMs} ms`,
    ],
    [
      'waits',
      `new tasks waited for a worker: median ${recovery.waited.medianMs} ms, 95 % ${recovery.waited.p95Ms} ms, longest ${recovery.waited.maxMs} ms`,
    ],
    ['time', `${(ms / 1_000).toFixed(1)} s`],
  ]);
}

/** What was not kept, each with the story of its task. */
export function violationsText(violations: readonly Violation[], evidence: Evidence, startedAt: number): string {
  const lines = violations
    .slice(0, MOST_VIOLATIONS)
    .map(({ of, what, taskId }) => `  ${of}: ${taskId === undefined ? '' : `${taskId}: `}${what}`);
  if (violations.length > MOST_VIOLATIONS) lines.push(`  ... and ${violations.length - MOST_VIOLATIONS} more`);
  const tasks = [...new Set(violations.flatMap(({ taskId }) => (taskId === undefined ? [] : [taskId])))].slice(
    0,
    MOST_STORIES,
  );
  const stories = tasks.map((taskId) => `\n${taskId}\n${storyOf(evidence, taskId, startedAt).join('\n')}`);
  return `${violations.length} violations\n${lines.join('\n')}\n${stories.join('\n')}`;
}
