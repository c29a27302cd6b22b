import { planOf } from './plan.ts';
import { planted } from './plant-hook.ts';
import { runSchedule } from './schedule.ts';
import { keptText, shrink } from './shrink.ts';
import { MOST_FAILURES, type Failed, type Stretch, type Tally } from './tally.ts';

/** The runner of schedules, with a planted fault if one is named. */
export async function runnerOf(plant: number | undefined): Promise<typeof runSchedule> {
  return plant === undefined ? runSchedule : (await planted(plant)).runSchedule;
}

/** Runs a stretch, one schedule after the other, and shrinks what fails. */
export async function explore({ from, schedules }: Stretch, run: typeof runSchedule): Promise<Tally> {
  let steps = 0;
  let print = 0;
  let done = 0;
  const ends = new Set<string>();
  const failed: Failed[] = [];
  for (let seed = from; seed < from + schedules && failed.length < MOST_FAILURES; seed++) {
    const plan = planOf(seed);
    const { failure, steps: own, virtualMs, states } = await run(plan);
    done++;
    steps += own;
    for (const state of Object.values(states)) ends.add(state);
    print = (print + hashOf(`${seed} ${own} ${virtualMs} ${JSON.stringify(states)}`)) >>> 0;
    if (failure === undefined) continue;
    const { kept, failure: keptFailure = failure } = await shrink(plan, run);
    failed.push({ seed, failure, kept: keptText(kept), keptFailure });
  }
  return { schedules: done, steps, print, ends: [...ends].sort(), failed };
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
