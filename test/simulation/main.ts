import { parseArgs } from 'node:util';
import { planOf } from './plan.ts';
import { PLANTED } from './planted.ts';
import { occurrences, planted } from './plant-hook.ts';
import { runSchedule, type Run } from './schedule.ts';
import { keptText, parseKept, reduced, shrink } from './shrink.ts';

const USAGE = `Runs schedules of the real core and worker on a virtual clock, as docs/simulation.md describes it.

npm run simulate                            10000 schedules, from seed 0
npm run simulate -- --schedules 1000000     more of them; --from another first seed
npm run simulate -- --seed 17               one schedule; --trace prints every step, --only t0,f2,p2 keeps a part of it
npm run simulate -- --planted               every planted fault and the seed that finds it; --search from seed 0, --bound seeds each,
                                            --which 3,7 some of them, --json a line of JSON for each
`;
const PROGRESS_EVERY_MS = 5_000;
const MOST_FAILURES = 5;

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '10000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' },
    only: { type: 'string' },
    trace: { type: 'boolean', default: false },
    planted: { type: 'boolean', default: false },
    which: { type: 'string' },
    search: { type: 'boolean', default: false },
    bound: { type: 'string', default: '3000' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

void main().then((code) => (process.exitCode = code));

async function main(): Promise<number> {
  const schedules = Number(values.schedules);
  const from = Number(values.from);
  const seed = values.seed === undefined ? undefined : Number(values.seed);
  const kept = values.only === undefined ? undefined : parseKept(values.only);
  if (
    values.help ||
    ![schedules, from, seed ?? 0].every(Number.isSafeInteger) ||
    (values.only !== undefined && !kept)
  ) {
    print(USAGE);
    return values.help ? 0 : 2;
  }
  if (values.planted) return allPlanted();
  if (seed !== undefined) {
    const plan = planOf(seed);
    return report(await runSchedule(kept ? reduced(plan, kept) : plan, values.trace ? 'lines' : 'print'), seed);
  }
  return explore(from, schedules);
}

function report(run: Run, seed: number): number {
  for (const line of run.lines) print(`${line}\n`);
  print(
    `seed ${seed}: ${run.failure ?? 'every invariant held'} (${run.steps} steps, ${Math.round(run.virtualMs / 1_000)} s of virtual time, print ${run.print})\n`,
  );
  return run.failure === undefined ? 0 : 1;
}

async function explore(from: number, schedules: number): Promise<number> {
  const startedAt = performance.now();
  let toldAt = startedAt;
  let steps = 0;
  let failures = 0;
  let done = 0;
  const summary = (): string => {
    const seconds = (performance.now() - startedAt) / 1_000;
    return `${done} schedules, ${steps} steps, ${(done / seconds).toFixed(0)} schedules/s, ${failures} failed\n`;
  };
  for (let seed = from; seed < from + schedules && failures < MOST_FAILURES; seed++) {
    const plan = planOf(seed);
    const run = await runSchedule(plan);
    done++;
    steps += run.steps;
    if (run.failure !== undefined) {
      failures++;
      const small = await shrink(plan, runSchedule);
      print(`seed ${seed}: ${run.failure}\n  replay: npm run simulate -- --seed ${seed} --trace\n`);
      print(
        `  shrunk: npm run simulate -- --seed ${seed} --only ${keptText(small.kept)} --trace\n          ${small.failure}\n`,
      );
    }
    if (performance.now() - toldAt > PROGRESS_EVERY_MS) {
      toldAt = performance.now();
      print(`... ${summary()}`);
    }
  }
  print(summary());
  return failures === 0 ? 0 : 1;
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
