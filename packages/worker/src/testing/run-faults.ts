import { badOption, parseDuration, type LeaseholdError } from '@leasehold/core';
import { isAt, type CallPoint, type OutsideCall, type StepName } from './call-point.ts';
import type { Fate, Strike } from './process.ts';
import type { RunTaskOptions } from './run-options.ts';

/** How much longer than its lease a worker is paused, unless told. */
const AWAY_MS = 5_000;

/** Something that is to go wrong once. */
export interface Fault {
  readonly field: string;
  readonly point: CallPoint;
  readonly strike: Strike;
  struck: boolean;
}

/** What the options ask for. */
export function faultsOf(options: Omit<RunTaskOptions, 'successor'>, leaseMs: number): Fault[] {
  const faults: Fault[] = [];
  const add = (field: string, point: CallPoint, fate: Fate, forMs = 0): void =>
    void faults.push({ field, point, strike: { fate, forMs }, struck: false });
  const { crashAfter, loseAnswerOf, pauseFor } = options;
  if (crashAfter !== undefined) add('crashAfter', crashAfter, 'killed after');
  if (loseAnswerOf !== undefined) add('loseAnswerOf', loseAnswerOf, 'answer lost');
  if (pauseFor) {
    const ms = pauseFor.ms === undefined ? leaseMs + AWAY_MS : parseDuration(pauseFor.ms, 'pauseFor.ms');
    if ('after' in pauseFor) add('pauseFor.after', pauseFor.after, 'paused after', ms);
    else add('pauseFor.before', pauseFor.before, 'paused before', ms);
  }
  return faults;
}

/** What befalls a call. Each fault strikes once; of two at one call the first one does. */
export function strikeOf(faults: readonly Fault[], call: OutsideCall, steps: readonly StepName[]): Strike | undefined {
  const fault = faults.find(({ struck, point }) => !struck && isAt(point, call, steps));
  if (!fault) return undefined;
  fault.struck = true;
  return fault.strike;
}

/** The error for a fault that never struck: a test that tries nothing would always pass. */
export function neverCame({ field, point }: Fault, calls: readonly OutsideCall[]): LeaseholdError {
  const made = calls.filter(({ worker }) => worker === 'first').map(({ index, what }) => `${index} ${what}`);
  return badOption(
    field,
    point,
    `the first worker never came to it, so nothing was tried. It made these calls: ${made.join('; ')}.`,
  );
}
