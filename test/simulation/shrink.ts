import type { Plan, PlannedFault } from './plan.ts';
import type { Run } from './schedule.ts';

/** What of a plan is left: indices of its tasks and faults, and how many processes. */
export interface Kept {
  readonly tasks: readonly number[];
  readonly faults: readonly number[];
  readonly processes: number;
}

/** All of a plan. */
function everything(plan: Plan): Kept {
  return {
    tasks: plan.tasks.map((_, index) => index),
    faults: plan.faults.map((_, index) => index),
    processes: plan.processes,
  };
}

/** The plan without what is not kept. Faults go on naming tasks by their number in the whole plan. */
export function reduced(plan: Plan, kept: Kept): Plan {
  const faults = kept.faults.flatMap((index): readonly PlannedFault[] => {
    const fault = plan.faults[index];
    if (!fault || !('task' in fault)) return fault ? [fault] : [];
    const task = kept.tasks.indexOf(fault.task);
    return task < 0 ? [] : [{ ...fault, task }];
  });
  return { ...plan, processes: kept.processes, tasks: kept.tasks.flatMap((index) => plan.tasks[index] ?? []), faults };
}

/** As the command line writes it: `t0,f2,f5,p2`. */
export function keptText({ tasks, faults, processes }: Kept): string {
  return [...tasks.map((index) => `t${index}`), ...faults.map((index) => `f${index}`), `p${processes}`].join(',');
}

/** Reads what `keptText` wrote. */
export function parseKept(text: string): Kept | undefined {
  const parts = text.split(',').map((part) => /^([tfp])(\d+)$/.exec(part));
  if (parts.some((part) => part === null)) return undefined;
  const of = (letter: string): readonly number[] =>
    parts.flatMap((part) => (part?.[1] === letter ? [Number(part[2])] : []));
  const [processes] = of('p');
  return processes === undefined ? undefined : { tasks: of('t'), faults: of('f'), processes };
}

/** Leaves out one thing at a time while the schedule still fails, whatever it fails with. */
export async function shrink(
  plan: Plan,
  run: (plan: Plan) => Promise<Run>,
): Promise<{ readonly kept: Kept; readonly failure: string | undefined }> {
  let kept = everything(plan);
  let { failure } = await run(plan);
  for (let smaller = failure !== undefined; smaller;) {
    smaller = false;
    for (const fewer of without(kept)) {
      const again = await run(reduced(plan, fewer));
      if (again.failure === undefined) continue;
      kept = fewer;
      failure = again.failure;
      smaller = true;
      break;
    }
  }
  return { kept, failure };
}

function* without(kept: Kept): Iterable<Kept> {
  for (const fault of kept.faults) yield { ...kept, faults: kept.faults.filter((index) => index !== fault) };
  if (kept.tasks.length > 1)
    for (const task of kept.tasks) yield { ...kept, tasks: kept.tasks.filter((index) => index !== task) };
  if (kept.processes > 1) yield { ...kept, processes: kept.processes - 1 };
}
