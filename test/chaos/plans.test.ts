import { expect, test } from 'vitest';
import { FAULT_KINDS, planFaults, type FaultPlanOptions } from './fault-plan.ts';
import { planTasks, TASK_KINDS } from './task-plan.ts';

const FAULTS: FaultPlanOptions = {
  seed: 1,
  windowMs: 30_000,
  leaseMs: 4_000,
  workers: ['worker-1', 'worker-2', 'worker-3', 'worker-4', 'worker-5'],
  links: { worker: ['receiver'], receiver: [], producer: [] },
  servers: false,
  kinds: FAULT_KINDS,
};

test('A seed gives the same tasks and faults again, and another one others', () => {
  const tasks = { seed: 1, tasks: 150, windowMs: 25_000 };
  expect(planTasks(tasks)).toEqual(planTasks(tasks));
  expect(planTasks({ ...tasks, seed: 2 })).not.toEqual(planTasks(tasks));
  expect(planFaults(FAULTS)).toEqual(planFaults(FAULTS));
  expect(planFaults({ ...FAULTS, seed: 2 })).not.toEqual(planFaults(FAULTS));
});

test('Whatever the seed, a short run has every kind of task and of fault', () => {
  for (let seed = 0; seed < 200; seed++) {
    const kinds = new Set(planTasks({ seed, tasks: 20, windowMs: 5_000 }).tasks.map(({ kind }) => kind));
    expect([...kinds].toSorted()).toEqual(Object.keys(TASK_KINDS).toSorted());
    const faults = planFaults({ ...FAULTS, seed });
    expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(FAULT_KINDS));
    for (const place of [...FAULTS.workers, 'receiver', 'producer'])
      expect(
        faults.some((fault) => fault.place === place),
        `seed ${seed}: ${place}`,
      ).toBe(true);
  }
});

test('Only the kinds that were asked for befall a run', () => {
  const faults = planFaults({ ...FAULTS, kinds: ['kill', 'cut'] });
  expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(['kill', 'cut']));
});
