import type { DeadLetter, TaskRecord } from '@leasehold/core';
import type { FaultKind } from './fault-plan.ts';
import type { Entry } from './journal.ts';
import type { Row } from './receiver.ts';
import type { TaskPlan } from './task-plan.ts';
import type { Write } from './writes.ts';

/** A fault that befell a process. Instants are of the machine's monotonic clock. */
export interface FaultDone {
  readonly kind: FaultKind;
  readonly place: string;
  /** The process. */
  readonly who: string;
  readonly at: number;
  /** When what was stopped or cut went on, or a new process took the place. */
  readonly until: number;
  /** Whether the moment came that it was aimed at. */
  readonly aimed?: boolean;
  /** Of a clock fault: whether the process was seen to have the new time; absent when it ended first. */
  readonly seen?: boolean;
  readonly detail: string;
}

/** A promise that was not kept. `of`: the invariant as the design has it, or `ledger`, `process`, `clock`, `liveness`. */
export interface Violation {
  readonly of: string;
  readonly what: string;
  readonly taskId?: string;
}

/** Everything that the verdict is made of. */
export interface Evidence {
  readonly plan: TaskPlan;
  readonly timing: { readonly leaseMs: number; readonly clockErrorMs: number; readonly brokerDelayMs: number };
  readonly entries: readonly Entry[];
  readonly writes: readonly Write[];
  readonly faults: readonly FaultDone[];
  /** The ledger at the end, by task. */
  readonly records: ReadonlyMap<string, TaskRecord>;
  readonly deadLetters: readonly DeadLetter[];
  /** What the receiver did. */
  readonly rows: readonly Row[];
  /** Messages that are left in the queue. */
  readonly left: number;
}

/** The items by a key of theirs, in their order. */
export function grouped<Item, Key>(
  items: Iterable<Item>,
  keyOf: (item: Item) => Key,
): ReadonlyMap<Key, readonly Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
