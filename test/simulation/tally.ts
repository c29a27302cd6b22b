/** A stretch of seeds. */
export interface Stretch {
  readonly from: number;
  readonly schedules: number;
}

/** A seed that broke an invariant. */
export interface Failed {
  readonly seed: number;
  readonly failure: string;
  /** What of the schedule still fails, as `--only` takes it, and with what. */
  readonly kept: string;
  readonly keptFailure: string;
}

/** What a number of schedules came to; the same for the same seeds, whoever ran them. */
export interface Tally {
  readonly schedules: number;
  readonly steps: number;
  /** Of everything that was run, in whatever order. */
  readonly print: number;
  /** The states in which tasks ended. */
  readonly ends: readonly string[];
  readonly failed: readonly Failed[];
}

export const NOTHING: Tally = { schedules: 0, steps: 0, print: 0, ends: [], failed: [] };
/** After that many more of them say nothing new. */
export const MOST_FAILURES = 5;

/** Two tallies as one. */
export function both(one: Tally, other: Tally): Tally {
  return {
    schedules: one.schedules + other.schedules,
    steps: one.steps + other.steps,
    print: (one.print + other.print) >>> 0,
    ends: [...new Set([...one.ends, ...other.ends])].sort(),
    failed: [...one.failed, ...other.failed].sort((a, b) => a.seed - b.seed),
  };
}
