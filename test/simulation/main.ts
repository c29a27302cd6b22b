import { availableParallelism } from 'node:os';
import { exploreInJobs, type Progress } from './job-pool.ts';
import { planOf } from './plan.ts';
import { PLANTED } from './planted.ts';
import { occurrences, planted } from './plant-hook.ts';
import type { Run } from './schedule.ts';
import { parseKept, reduced } from './shrink.ts';
import type { Stretch } from './tally.ts';
import { commandOptions } from '../command-options.ts';

const USAGE = `Runs schedules of the real core and worker on a virtual clock, as docs/simulation.md describes it.

npm run simulate                            10000 schedules, from seed 0
npm run simulate -- --schedules 1000000     more of them; --from another first seed, --jobs that many processes (as many as there are
                                            cores), --json the verdict as JSON
npm run simulate -- --seed 17               one schedule; --trace prints every step, --only t0,f2,p2 keeps a part of it
npm run simulate -- --planted               every planted fault and the seed that finds it; --search from seed 0, --bound seeds each,
                                            --which 3,7 some of them, --json a line of JSON for each
npm run simulate -- --plant 3               schedules with the planted fault number 3, also with --seed
`;
const PROGRESS_EVERY_MS = 5_000;

const values = commandOptions(USAGE, {
  schedules: { type: 'string', default: '10000' },
  from: { type: 'string', default: '0' },
  seed: { type: 'string' },
  only: { type: 'string' },
  jobs: { type: 'string', default: String(availableParallelism()) },
  plant: { type: 'string' },
  trace: { type: 'boolean', default: false },
  planted: { type: 'boolean', default: false },
  which: { type: 'string' },
  search: { type: 'boolean', default: false },
  bound: { type: 'string', default: '3000' },
  json: { type: 'boolean', default: false },
});

void main().then(
  (code) => (process.exitCode = code),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  },
);

async function main(): Promise<number> {
  const schedules = Number(values.schedules);
  const from = Number(values.from);
  const jobs = Number(values.jobs);
  const seed = values.seed === undefined ? undefined : Number(values.seed);
  const plant = values.plant === undefined ? undefined : Number(values.plant);
  const kept = values.only === undefined ? undefined : parseKept(values.only);
  if (
    ![schedules, from, seed ?? 0].every((count) => Number.isSafeInteger(count) && count >= 0) ||
    !(Number.isSafeInteger(jobs) && jobs >= 1) ||
    (plant !== undefined && !PLANTED[plant]) ||
    (values.only !== undefined && !kept)
  ) {
    print(USAGE);
    return 2;
  }
  if (values.planted) return allPlanted();
  if (seed !== undefined) {
    const plan = planOf(seed);
    const { runnerOf } = await import('./explore.ts');
    const run = await runnerOf(plant);
    return report(await run(kept ? reduced(plan, kept) : plan, values.trace ? 'lines' : 'print'), seed);
  }
  return exploreAll({ from, schedules }, jobs, plant);
}

function report(run: Run, seed: number): number {
  for (const line of run.lines) print(`${line}\n`);
  print(
    `seed ${seed}: ${run.failure ?? 'every invariant held'} (${run.steps} steps, ${Math.round(run.virtualMs / 1_000)} s of virtual time, print ${run.print ?? 'none'})\n`,
  );
  return run.failure === undefined ? 0 : 1;
}

async function exploreAll(stretch: Stretch, jobs: number, plant: number | undefined): Promise<number> {
  const startedAt = performance.now();
  let toldAt = startedAt;
  const summary = ({ tally, cpuMs, mostRss }: Progress): string => {
    const seconds = (performance.now() - startedAt) / 1_000;
    const { schedules, steps, failed } = tally;
    const rate = `${(schedules / seconds).toFixed(0)} schedules/s (${((schedules / cpuMs) * 1_000).toFixed(0)} per second of processor time)`;
    return `${schedules} of ${stretch.schedules} schedules, ${steps} steps, ${rate}, ${(mostRss / 2 ** 20).toFixed(0)} MiB a job at most, ${failed.length} failed\n`;
  };
  const told = (progress: Progress): void => {
    if (values.json || performance.now() - toldAt <= PROGRESS_EVERY_MS) return;
    toldAt = performance.now();
    print(`... ${summary(progress)}`);
  };
  const progress = await exploreInJobs({ ...stretch, jobs, ...(plant !== undefined && { plant }) }, told);
  if (values.json) print(`${JSON.stringify(progress.tally)}\n`);
  else {
    const again = plant === undefined ? '' : ` --plant ${plant}`;
    for (const { seed, failure, kept, keptFailure } of progress.tally.failed) {
      print(`seed ${seed}: ${failure}\n  replay: npm run simulate -- --seed ${seed}${again} --trace\n`);
      print(`  shrunk: npm run simulate -- --seed ${seed} --only ${kept}${again} --trace\n          ${keptFailure}\n`);
    }
    print(summary(progress));
  }
  return progress.tally.failed.length === 0 ? 0 : 1;
}

async function allPlanted(): Promise<number> {
  let missed = 0;
  const numbers = values.which?.split(',').map(Number) ?? PLANTED.keys();
  for (const number of numbers) {
    const fault = PLANTED[number];
    if (!fault) continue;
    const times = occurrences(fault);
    let found: { readonly seed: number; readonly failure: string } | undefined;
    if (times === 1) {
      const { runSchedule: run } = await planted(number);
      const first = values.search ? 0 : fault.seed;
      for (let seed = first; seed < first + Number(values.bound) && !found; seed++) {
        const { failure } = await run(planOf(seed));
        if (failure !== undefined) found = { seed, failure };
      }
    }
    if (!found) missed++;
    const said = found
      ? found.failure
      : times === 1
        ? `NOT FOUND within ${values.bound} schedules`
        : `occurs ${times} times`;
    if (values.json) print(`${JSON.stringify({ number, name: fault.name, ...found })}\n`);
    else print(`| ${fault.name} | \`${fault.file.replace(/.*\//, '')}\` | ${said} | ${found?.seed ?? '-'} |\n`);
  }
  return missed === 0 ? 0 : 1;
}

function print(text: string): void {
  process.stdout.write(text);
}
