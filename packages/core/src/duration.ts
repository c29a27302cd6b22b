import { badOption } from './errors.ts';

/** A length of time: milliseconds as a number, or text with a unit such as `'90s'`, `'5m'`, `'250ms'`, `'1h'`, `'30d'`. */
export type Duration = number | string;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Milliseconds of a duration.
 *
 * @throws LeaseholdError `bad-option` naming the field: text without a unit, an empty text, NaN, infinite, negative or fractional values, or one outside `limits`.
 */
export function parseDuration(
  value: Duration,
  field: string,
  limits: { readonly min?: number; readonly max?: number } = {},
): number {
  const ms = typeof value === 'string' ? parseText(value, field) : value;
  if (typeof ms !== 'number' || !Number.isFinite(ms)) {
    throw badOption(field, value, "write a length of time such as '90s', or a whole number of milliseconds.");
  }
  if (!Number.isInteger(ms)) throw badOption(field, value, 'a number means milliseconds and has to be whole.');
  const min = limits.min ?? 1;
  if (ms < min) {
    const hint =
      typeof value === 'number' && ms > 0 && ms * 1000 >= min
        ? ` A number means milliseconds: did you mean '${ms}s'?`
        : '';
    throw badOption(field, value, `the least is ${formatDuration(min)}.${hint}`);
  }
  if (limits.max !== undefined && ms > limits.max) {
    throw badOption(field, value, `the most is ${formatDuration(limits.max)}.`);
  }
  return ms;
}

function parseText(text: string, field: string): number {
  const found = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim());
  const unit = found ? UNITS[found[2] as string] : undefined;
  if (!found || unit === undefined) {
    const bare = /^\d+(\.\d+)?$/.test(text.trim());
    throw badOption(
      field,
      text,
      bare
        ? `it has no unit; write '${text.trim()}s' for seconds, or use ms, m, h, d.`
        : "write a number and a unit (ms, s, m, h, d), such as '90s'.",
    );
  }
  return Math.round(Number(found[1]) * unit);
}

/** A duration for people: the largest unit that leaves a whole number. */
export function formatDuration(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    const size = UNITS[unit] as number;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return ms >= 1_000 ? `${(ms / 1_000).toFixed(1)}s` : `${Math.round(ms)}ms`;
}
