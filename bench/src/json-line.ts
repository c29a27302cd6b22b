import type { Figure, Goal } from './figures.ts';

/** One entry of `rows` in what `--json` ends with. */
interface JsonRow {
  readonly id: string;
  readonly ours: number;
  readonly peer: number | null;
  readonly ratio: number;
  readonly goal: Goal;
  readonly met: boolean;
}

/**
 * All figures on one line. A row whose figures all bear names of their own (`growth-leases`, `growth-records`) comes first under its own id, as the
 * one of them that is furthest from its goal.
 */
export function jsonLine(results: readonly { readonly row: string; readonly figures: readonly Figure[] }[]): string {
  const rows = results.flatMap(({ row, figures }): readonly JsonRow[] => {
    const each = figures.map((figure) => toRow(figure.id, figure));
    const worst = figures.toSorted((a, b) => distance(a) - distance(b))[0];
    return worst && !figures.some(({ id }) => id === row) ? [toRow(row, worst), ...each] : each;
  });
  return JSON.stringify({ rows });
}

function toRow(id: string, { ours, peer, ratio, goal, met }: Figure): JsonRow {
  return { id, ours, peer: peer ?? null, ratio, goal, met };
}

/** How far a figure is on the right side of its goal, as a part of it; below 0 when it is missed. */
function distance({ ratio, goal, met }: Figure): number {
  if (!met) return Number.NEGATIVE_INFINITY;
  if ('atLeast' in goal) return ratio / goal.atLeast - 1;
  return goal.atMost === 0 ? Number.POSITIVE_INFINITY : 1 - ratio / goal.atMost;
}
