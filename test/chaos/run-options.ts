import type { FaultKind } from './fault-plan.ts';
import type { Plant } from './plants.ts';

/** What a run is asked for. */
export interface RunOptions {
  readonly profile: string;
  readonly tasks: number;
  readonly minutes: number;
  readonly seed: number;
  readonly workers: number;
  readonly faults: readonly FaultKind[];
  readonly plant?: Plant;
  /** Where everything is kept. */
  readonly directory: string;
  /** The library that shifts clocks; absent when no clock is to be shifted. */
  readonly fakeTime?: string;
}

/** How far a run is. */
export interface Progress {
  readonly phase: 'faults' | 'settling';
  readonly elapsedMs: number;
  readonly planned: number;
  readonly asked: number;
  readonly ended: number;
  readonly workers: number;
  readonly workersAlive: number;
  readonly faultsPlanned: number;
  readonly faultsDone: number;
}
