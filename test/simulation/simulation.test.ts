import { expect, test } from 'vitest';
import { KINDS, planOf } from './plan.ts';
import { runSchedule } from './schedule.ts';
import { keptText, parseKept, reduced, shrink } from './shrink.ts';

/** Each takes some milliseconds; the long run is `npm run simulate`. */
const SCHEDULES = 800;

test(
  `every invariant holds in ${SCHEDULES} schedules, which end in every way there is`,
  { timeout: 300_000 },
  async () => {
    const failures: string[] = [];
    const ends = new Set<string>();
    for (let seed = 0; seed < SCHEDULES; seed++) {
      const { failure, states } = await runSchedule(planOf(seed));
      if (failure !== undefined) failures.push(`npm run simulate -- --seed ${seed} --trace: ${failure}`);
      for (const state of Object.values(states)) ends.add(state);
    }
    expect(failures).toEqual([]);
    expect([...ends].sort()).toEqual(['cancelled', 'dead_lettered', 'settled']);
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
    prints.add(first.print);
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
