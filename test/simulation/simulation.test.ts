import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { KINDS, planOf } from './plan.ts';
import { runSchedule } from './schedule.ts';
import { keptText, parseKept, reduced, shrink } from './shrink.ts';
import type { Tally } from './tally.ts';

/** Each takes some milliseconds; the long run is `npm run simulate`. */
const SCHEDULES = 3_000;
const COMMAND = [
  '--disable-warning=ExperimentalWarning',
  '--conditions=@leasehold/source',
  fileURLToPath(new URL('./main.ts', import.meta.url)),
];

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command itself, whose jobs share the cores. */
async function simulate(...args: readonly string[]): Promise<Ended> {
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, [...COMMAND, ...args])) };
  } catch (error) {
    return error as Ended;
  }
}

test(
  `every invariant holds in ${SCHEDULES} schedules, which end in every way there is`,
  { timeout: 300_000 },
  async () => {
    const { code, stdout, stderr } = await simulate('--schedules', String(SCHEDULES), '--json');
    expect({ stderr, tally: stdout.startsWith('{') }).toEqual({ stderr: '', tally: true });
    const { schedules, failed, ends } = JSON.parse(stdout) as Tally;
    const replays = failed.map(({ seed, failure }) => `npm run simulate -- --seed ${seed} --trace: ${failure}`);
    expect({ code, schedules, replays }).toEqual({ code: 0, schedules: SCHEDULES, replays: [] });
    expect(ends).toEqual(['cancelled', 'dead_lettered', 'settled']);
  },
);

test('however many jobs share them, the same seeds come to the same', { timeout: 120_000 }, async () => {
  const verdicts = [];
  for (const jobs of ['1', '2']) verdicts.push(await simulate('--schedules', '40', '--jobs', jobs, '--json'));
  const [alone, shared] = verdicts.map(({ stdout }) => JSON.parse(stdout) as Tally);
  expect(alone?.schedules).toBe(40);
  expect(shared).toEqual(alone);
});

test(
  'a seed that fails in a job is told with the commands that replay and shrink it',
  { timeout: 120_000 },
  async () => {
    const { code, stdout } = await simulate('--plant', '10', '--schedules', '4', '--jobs', '1');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^seed 0: t0 is dead_lettered and keeps a lease\n {2}replay: npm run simulate -- --seed 0 /);
    const [, shrunk] = /shrunk: npm run simulate -- (.*) --trace\n/.exec(stdout) ?? [];
    const again = await simulate(...(shrunk ?? '').split(' '));
    expect({ code: again.code, says: again.stdout.includes('keeps a lease') }).toEqual({ code: 1, says: true });
  },
);

test('a seed is one schedule: run twice it goes the same way, step by step', { timeout: 60_000 }, async () => {
  const prints = new Set<string>();
  for (let seed = 0; seed < 25; seed++) {
    const first = await runSchedule(planOf(seed), 'lines');
    const second = await runSchedule(planOf(seed), 'lines');
    expect(second.lines).toEqual(first.lines);
    expect({ seed, print: second.print, steps: second.steps }).toEqual({
      seed,
      print: first.print,
      steps: first.steps,
    });
    prints.add(first.print ?? 'none');
  }
  expect(prints.size).toBe(25);
});

test('the seeds of the quick run cover every kind of task and of fault', () => {
  const plans = Array.from({ length: SCHEDULES }, (_, seed) => planOf(seed));
  expect(new Set(plans.flatMap(({ tasks }) => tasks.map(({ kind }) => kind)))).toEqual(new Set(KINDS));
  const faults = [
    'kill',
    'pause',
    'drain',
    'step',
    'partition',
    'throttle',
    'call',
    'strike',
    'duplicate',
    'cancel',
    'redrive',
  ];
  expect(new Set(plans.flatMap((plan) => plan.faults.map(({ what }) => what)))).toEqual(new Set(faults));
});

test('shrinking keeps only what the failure needs, and what is left can be named and run again', async () => {
  const plan = {
    ...planOf(1),
    processes: 3,
    tasks: planOf(1).tasks.slice(0, 1),
    faults: Array.from({ length: 8 }, (_, at) => ({ what: 'redrive', at }) as const),
  };
  const base = { steps: 0, virtualMs: 0, print: '', lines: [], states: {} };
  // Fails as long as the third and the sixth fault are there, and two processes.
  const run = (some: typeof plan | ReturnType<typeof reduced>): Promise<typeof base & { failure?: string }> => {
    const there = some.faults.map((fault) => ('at' in fault ? fault.at : -1));
    const fails = there.includes(2) && there.includes(5) && some.processes >= 2;
    return Promise.resolve({ ...base, ...(fails && { failure: 'both' }) });
  };
  const { kept, failure } = await shrink(plan, run);
  expect({ text: keptText(kept), failure }).toEqual({ text: 't0,f2,f5,p2', failure: 'both' });
  expect(parseKept('t0,f2,f5,p2')).toEqual(kept);
  expect((await run(reduced(plan, kept))).failure).toBe('both');
  expect(parseKept('x1')).toBeUndefined();
});
