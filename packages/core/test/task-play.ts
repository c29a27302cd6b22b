import { decide, isRefusal } from '../src/decide.ts';
import type { Carried, Decision, Refusal, TaskEvent } from '../src/events.ts';
import type { StoreTime, TaskRecord } from '../src/record.ts';
import { at, LEASE_MS } from './task-events.ts';
import { taskRegister } from './task-register.ts';

/** A moment at which a first lease is over. */
export const LATER: StoreTime = at(LEASE_MS + 1_000);

/** An event, and when it happens if that matters. */
export type Play = TaskEvent | readonly [TaskEvent, StoreTime];

/** The record after these events, each of which has to apply. */
export function after(...events: readonly Play[]): TaskRecord {
  const register = taskRegister();
  for (const [index, play] of events.entries()) {
    const [event, now] = 'type' in play ? [play, at(index)] : play;
    const outcome = decide(register.record, event, now);
    if (isRefusal(outcome)) throw new Error(`${event.type} was refused: ${outcome.refused}, ${outcome.message}`);
    if (!register.put(outcome, now).ok) throw new Error(`the register refused ${event.type}`);
  }
  return register.record as TaskRecord;
}

export function refused(record: TaskRecord | undefined, event: TaskEvent, now: StoreTime = at(100)): Refusal {
  const outcome = decide(record, event, now);
  if (!isRefusal(outcome)) throw new Error(`${event.type} was not refused`);
  return outcome;
}

export function applied(record: TaskRecord | undefined, event: TaskEvent, now: StoreTime = at(100)): Decision {
  const outcome = decide(record, event, now);
  if (isRefusal(outcome)) throw new Error(`${event.type} was refused: ${outcome.refused}`);
  return outcome;
}

/** What a read-back found, to ride on a write. */
export const finding = (name: string, status: 'verified' | 'absent' | 'in_doubt'): { readonly carry: Carried } => ({
  carry: {
    effects: { [name]: status === 'verified' ? { status, externalId: 'c-7', externalStatus: 'open' } : { status } },
  },
});
