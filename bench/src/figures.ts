/** Middle of the values; of an even number, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[middle] ?? Number.NaN;
  return ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

/** What a figure has to reach: at least, or at most, so much. */
export type Goal = { readonly atLeast: number } | { readonly atMost: number };

/** One figure of a row, as it goes into the results. */
export interface Figure {
  readonly id: string;
  readonly title: string;
  /** What `ours` and `peer` are, such as `tasks/s`. */
  readonly unit: string;
  readonly ours: number;
  /** Absent where the figure stands for itself. */
  readonly peer?: number;
  /** What is held against the goal: ours over the peer's, or ours. */
  readonly ratio: number;
  /** Lowest and highest ratio of any round. */
  readonly spread?: readonly [number, number];
  readonly goal: Goal;
  readonly met: boolean;
  /** Client CPU of a task in microseconds, ours and the peer's. */
  readonly cpuMicros?: { readonly ours: number; readonly peer: number };
  readonly note?: string;
}

export function isMet(value: number, goal: Goal): boolean {
  return 'atLeast' in goal ? value >= goal.atLeast : value <= goal.atMost;
}

export function goalText(goal: Goal): string {
  return 'atLeast' in goal ? `>= ${goal.atLeast}` : `<= ${goal.atMost}`;
}

/**
 * Compares rounds that alternated: the ratio is the median of the ratios of neighbouring rounds, so that what slows the machine down for a while
 * slows both.
 */
export function compare(
  ours: readonly number[],
  peer: readonly number[],
): {
  readonly ours: number;
  readonly peer: number;
  readonly ratio: number;
  readonly spread: readonly [number, number];
} {
  const ratios = ours.map((value, round) => value / (peer[round] ?? Number.NaN));
  return {
    ours: median(ours),
    peer: median(peer),
    ratio: median(ratios),
    spread: [Math.min(...ratios), Math.max(...ratios)],
  };
}

/** Rounds to three significant digits, for people. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '-';
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}
