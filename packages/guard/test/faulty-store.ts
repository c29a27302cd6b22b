import { systemClock, type GuardStore } from '@leasehold/core';
import { dropAnswer, failBefore, faultPlan, faultyGuard, hangDeaf } from '@leasehold/core/testing';

/** `lost`: it is done and the answer dropped; `refused`: it is not done; `hung`: it never answers. */
const FAULTS = { lost: dropAnswer(), refused: failBefore(), hung: hangDeaf() };
export type FaultName = keyof typeof FAULTS;

/** The store with its first calls failing, method by method; with `after`, the first so many of each method are answered before. */
export function faulty(
  store: GuardStore,
  plan: Partial<Record<'begin' | 'extend' | 'finish', readonly FaultName[]>>,
  after = 0,
): GuardStore {
  const faults = faultPlan<GuardStore>();
  for (const method of ['begin', 'extend', 'finish'] as const) {
    plan[method]?.forEach((name, index) => faults.on(method, FAULTS[name], { nth: after + index + 1 }));
  }
  return faultyGuard(store, faults, systemClock());
}
