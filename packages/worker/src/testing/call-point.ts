import { badOption } from '@leasehold/core';
import type { TaskRecord } from '@leasehold/core';

/** What a task does at the outside, by name. */
export type StepName = 'claim' | 'call' | 'checkpoint' | 'intent' | 'commit' | 'verify' | 'settle';

/**
 * A call of the first worker to the outside: the first of its kind (`commit`), the first of its kind with that name (`commit:charge`; the
 * name is the one given to `ctx.call` or `ctx.effect`), or the how-manieth of all (1 = the first), as `calls` counts them.
 *
 * `claim`, `intent`, `checkpoint` and `settle` are the writes to the ledger; `call` is what runs inside `ctx.call`; `commit` the commit of an
 * effect; `verify` its read-back, which is the commit's own answer where the effect reads back by `provider-replays-key` or `human`.
 */
export type CallPoint = StepName | `${'call' | 'intent' | 'commit' | 'verify'}:${string}` | number;

/** One call to the outside. */
export interface OutsideCall {
  /** Counted per worker, from 1. */
  readonly index: number;
  readonly worker: string;
  /** In words, such as `ledger: intent charge` or `POST https://pay.example/charges`. */
  readonly what: string;
  readonly step?: StepName;
  /** The name of the effect or the call. */
  readonly name?: string;
  /** Virtual milliseconds since the task was sent. */
  readonly at: number;
  /** `never`: nobody was there any more to take the answer. */
  readonly ended: 'answered' | 'failed' | 'never';
  /** What was made to go wrong there. */
  readonly struck?: 'crash' | 'lost-answer' | 'pause';
}

const STEPS: readonly string[] = [
  'claim',
  'call',
  'checkpoint',
  'intent',
  'commit',
  'verify',
  'settle',
] satisfies StepName[];
const NAMED: readonly string[] = ['call', 'intent', 'commit', 'verify'];

/** @throws LeaseholdError `bad-option` naming the option, for what is no point. */
export function checkPoint(point: unknown, field: string): void {
  if (typeof point === 'number' && Number.isSafeInteger(point) && point >= 1) return;
  if (typeof point === 'string') {
    const [step = '', name] = split(point);
    if (name === undefined ? STEPS.includes(step) : NAMED.includes(step) && name !== '') return;
  }
  throw badOption(
    field,
    point,
    `write one of ${STEPS.join(', ')}, a name with it such as 'commit:charge', or the number of a call from 1 up.`,
  );
}

/** Whether a call is at the point. `steps`: everything it counts as. */
export function isAt(point: CallPoint, call: Pick<OutsideCall, 'index' | 'name'>, steps: readonly StepName[]): boolean {
  if (typeof point === 'number') return call.index === point;
  const [step, name] = split(point);
  return (steps as readonly string[]).includes(step ?? '') && (name === undefined || name === call.name);
}

function split(point: string): readonly [step: string | undefined, name: string | undefined] {
  const colon = point.indexOf(':');
  return colon < 0 ? [point, undefined] : [point.slice(0, colon), point.slice(colon + 1)];
}

/** What a write to the ledger is, from the record that it replaces. */
export function writeOf(
  before: TaskRecord | undefined,
  next: TaskRecord,
): { readonly what: string; readonly step?: StepName; readonly name?: string } {
  // A claim first tries to create the record, and is shown the one there is.
  if (before && next.version <= before.version)
    return { what: next.state === 'running' ? 'claim, refused' : `${next.state}, refused` };
  if (next.state === 'running' && next.attempt > (before?.attempt ?? 0)) return { what: 'claim', step: 'claim' };
  if (next.state !== before?.state) {
    if (next.state === 'settled') return { what: 'settle', step: 'settle' };
    if (next.state === 'queued') return { what: 'release' };
    return { what: next.state.replaceAll('_', '-') };
  }
  for (const [name, effect] of Object.entries(next.effects)) {
    const known = Object.hasOwn(before.effects, name) ? before.effects[name] : undefined;
    if (
      effect.status !== 'intended' ||
      (known && known.token === effect.token && known.intendedAt === effect.intendedAt)
    )
      continue;
    return { what: `intent ${name}`, step: 'intent', name };
  }
  if (JSON.stringify(next.checkpoint) !== JSON.stringify(before.checkpoint))
    return { what: 'checkpoint', step: 'checkpoint' };
  if (next.renewalCount > before.renewalCount) return { what: 'renew' };
  if (next.fencingToken > before.fencingToken) return { what: 'new token' };
  return { what: 'note' };
}
