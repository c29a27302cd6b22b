import type { Clock, Timer } from './clock.ts';

/** A deadline that can be called off. */
export interface Deadline {
  /** Harmless when it has passed already. */
  cancel(): void;
}

/** Those of one length are due in the order in which they were set, so each list needs one timer. */
class DeadlineList {
  readonly #clock: Clock;
  readonly #lengthMs: number;
  #first: Entry | undefined;
  #last: Entry | undefined;
  #timer: Timer | undefined;

  constructor(clock: Clock, lengthMs: number) {
    this.#clock = clock;
    this.#lengthMs = lengthMs;
  }

  get empty(): boolean {
    return this.#first === undefined;
  }

  add(fire: () => void): Deadline {
    const entry = new Entry(this, this.#clock.monotonic() + this.#lengthMs, fire);
    entry.before = this.#last;
    if (this.#last) this.#last.after = entry;
    else this.#first = entry;
    this.#last = entry;
    this.#timer ??= this.#clock.timer(this.#lengthMs, () => this.#ring());
    return entry;
  }

  remove(entry: Entry): void {
    if (entry.before) entry.before.after = entry.after;
    else this.#first = entry.after;
    if (entry.after) entry.after.before = entry.before;
    else this.#last = entry.before;
    // A call that was answered early leaves the timer to the next one; without one, nothing stays behind.
    if (this.#first) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #ring(): void {
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    // What fires may set deadlines and call others off.
    try {
      while (this.#first && this.#first.dueAt <= now) {
        const due = this.#first;
        due.cancel();
        due.fire();
      }
    } finally {
      if (this.#first) this.#timer ??= this.#clock.timer(this.#first.dueAt - now, () => this.#ring());
    }
  }
}

class Entry implements Deadline {
  readonly dueAt: number;
  readonly fire: () => void;
  before: Entry | undefined;
  after: Entry | undefined;
  #list: DeadlineList | undefined;

  constructor(list: DeadlineList, dueAt: number, fire: () => void) {
    this.#list = list;
    this.dueAt = dueAt;
    this.fire = fire;
  }

  cancel(): void {
    const list = this.#list;
    this.#list = undefined;
    list?.remove(this);
  }
}

/** Lists that are empty are kept, up to so many lengths. */
const MOST_LENGTHS = 32;
const tables = new WeakMap<Clock, Map<number, DeadlineList>>();

/** Calls `fire` once after `lengthMs`, unless it is called off, which nearly all are: calls are answered. */
export function setDeadline(clock: Clock, lengthMs: number, fire: () => void): Deadline {
  let lists = tables.get(clock);
  if (!lists) tables.set(clock, (lists = new Map<number, DeadlineList>()));
  let list = lists.get(lengthMs);
  if (!list) {
    if (lists.size >= MOST_LENGTHS) for (const [length, each] of lists) if (each.empty) lists.delete(length);
    lists.set(lengthMs, (list = new DeadlineList(clock, lengthMs)));
  }
  return list.add(fire);
}
