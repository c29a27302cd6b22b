import { Seeded } from '../simulation/seeded.ts';

/** What a task is to do; the payload of its message. */
export interface Job {
  /** Names the work at the receiver: two different orders are two different deeds. */
  readonly order: string;
  readonly thinkMs: number;
  readonly effects: readonly EffectName[];
  /** It listens to no signal: a lost lease does not stop it. */
  readonly deaf: boolean;
  /** Parts of a long task, each kept by a checkpoint; at `handOffAt` it is passed on. */
  readonly parts?: number;
  readonly handOffAt?: number;
  /** The share of attempts that fail retryably. */
  readonly failShare?: number;
  /** Where it fails for good. */
  readonly breakAt?: 'start' | 'call' | 'end';
  readonly children?: readonly { readonly type: TaskKind; readonly job: Job }[];
}

export type EffectName = 'ticket' | 'charge';

/** The kinds of tasks, and how each may end. */
export const TASK_KINDS = {
  plain: { share: 22, ends: ['settled'] },
  ticket: { share: 18, ends: ['settled'] },
  charge: { share: 14, ends: ['settled'] },
  pair: { share: 9, ends: ['settled'] },
  long: { share: 8, ends: ['settled'] },
  flaky: { share: 7, ends: ['settled'] },
  parent: { share: 7, ends: ['settled'] },
  /** Cancelled by its run while it is under way, or too late. */
  called_off: { share: 6, ends: ['settled', 'cancelled'] },
  /** Cancelled by its id before anybody can have claimed it, unless the producer is killed between the two. */
  doomed: { share: 3, ends: ['settled', 'cancelled'] },
  broken: { share: 3, ends: ['dead_lettered'] },
  hopeless: { share: 2, ends: ['dead_lettered'] },
  misfit: { share: 1, ends: ['dead_lettered'] },
} as const satisfies Record<
  string,
  { readonly share: number; readonly ends: readonly ('settled' | 'cancelled' | 'dead_lettered')[] }
>;

export type TaskKind = keyof typeof TASK_KINDS;

/** Why a task of each kind that may be dead-lettered may be. */
export const DEAD_LETTER_REASONS: Readonly<Partial<Record<TaskKind, readonly string[]>>> = {
  broken: ['permanent'],
  hopeless: ['attempts-exhausted', 'retryable'],
  misfit: ['permanent'],
};

/** A task of the plan. */
export interface PlannedTask {
  readonly taskId: string;
  readonly kind: TaskKind;
  readonly job: Job;
  readonly run?: string;
}

/** What the producer does, in its order. `at` counts from the beginning of the run. */
export type Step = { readonly at: number } & (
  | { readonly kind: 'enqueue'; readonly task: PlannedTask; readonly delayMs?: number }
  /** The same message once more, past any deduplication. */
  | { readonly kind: 'copy'; readonly task: PlannedTask }
  | { readonly kind: 'poison'; readonly mark: string }
  /** Another payload under the id of a task that is known. */
  | { readonly kind: 'impostor'; readonly task: PlannedTask; readonly mark: string }
  | { readonly kind: 'cancel'; readonly task: PlannedTask }
  | { readonly kind: 'cancel-run'; readonly run: string }
);

/** Everything that is asked for. The same seed and numbers give the same plan, in whatever process. */
export interface TaskPlan {
  readonly tasks: readonly PlannedTask[];
  readonly steps: readonly Step[];
}

const RUN_SIZE = 3;
const DOOMED_DELAY_MS = 4_000;

/** Plans `count` tasks, spread over `windowMs`. */
export function planTasks(options: {
  readonly seed: number;
  readonly tasks: number;
  readonly windowMs: number;
}): TaskPlan {
  const chance = new Seeded(options.seed);
  const tasks: PlannedTask[] = [];
  const steps: Step[] = [];
  // One of each first, so that a small plan has them all; then by share.
  const kinds = Object.keys(TASK_KINDS) as TaskKind[];
  const lots = kinds.flatMap((kind) => Array.from({ length: TASK_KINDS[kind].share }, () => kind));
  for (let index = 0; index < options.tasks; index++) {
    const kind = kinds[index] ?? chance.pick(lots);
    const at = Math.round((index / options.tasks) * options.windowMs);
    const taskId = `${kind}-${index}`;
    const run = kind === 'called_off' ? `run-${Math.floor(index / (RUN_SIZE * 10))}` : undefined;
    const task: PlannedTask = { taskId, kind, job: jobOf(kind, taskId, chance), ...(run !== undefined && { run }) };
    tasks.push(task);
    steps.push({ at, kind: 'enqueue', task, ...(kind === 'doomed' && { delayMs: DOOMED_DELAY_MS }) });
    if (kind === 'doomed') steps.push({ at, kind: 'cancel', task });
    else if (run !== undefined) steps.push({ at: at + chance.between(300, 3_000), kind: 'cancel-run', run });
    else if (chance.chance(0.06)) steps.push({ at: at + chance.between(0, 4_000), kind: 'copy', task });
    if (kind === 'ticket' && chance.chance(0.06))
      steps.push({ at: at + chance.between(2_000, 6_000), kind: 'impostor', task, mark: `impostor-${index}` });
    if (index % 40 === 7) steps.push({ at, kind: 'poison', mark: `poison-${index}` });
  }
  // Sorted by time; what has the same time keeps its order.
  return { tasks, steps: steps.toSorted((one, other) => one.at - other.at) };
}

/** The tasks that a settled task has asked for, under the ids that the library gives them. */
export function childrenOf(task: PlannedTask): readonly PlannedTask[] {
  return (task.job.children ?? []).map(({ type, job }, index) => ({
    taskId: `${task.taskId}:next:${index}`,
    kind: type,
    job,
  }));
}

function jobOf(kind: TaskKind, order: string, chance: Seeded): Job {
  const base: Job = { order, thinkMs: chance.between(50, 1_500), effects: [], deaf: chance.chance(0.15) };
  switch (kind) {
    case 'plain':
    case 'hopeless':
    case 'misfit':
      return base;
    case 'ticket':
    case 'charge':
      return { ...base, effects: [kind] };
    case 'pair':
      return { ...base, effects: ['ticket', 'charge'] };
    case 'long':
      return {
        ...base,
        thinkMs: chance.between(300, 900),
        effects: ['ticket'],
        parts: chance.between(4, 9),
        handOffAt: chance.between(2, 3),
      };
    case 'flaky':
      return {
        ...base,
        thinkMs: chance.between(20, 400),
        effects: [chance.pick(['ticket', 'charge'] as const)],
        failShare: 0.4,
      };
    case 'parent':
      return {
        ...base,
        children: Array.from({ length: chance.between(1, 2) }, (_, index) => {
          const type = chance.pick(['plain', 'ticket', 'charge'] as const);
          return { type, job: jobOf(type, `${order}/${index}`, chance) };
        }),
      };
    case 'called_off':
      return { ...base, thinkMs: chance.between(500, 4_000), effects: [chance.pick(['ticket', 'charge'] as const)] };
    case 'doomed':
      return { ...base, effects: ['ticket'] };
    case 'broken': {
      const breakAt = chance.pick(['start', 'call', 'end'] as const);
      return { ...base, breakAt, effects: breakAt === 'start' ? [] : ['ticket'] };
    }
  }
}
