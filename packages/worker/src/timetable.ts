import type { Clock, Timer } from '@leasehold/core';
import { DueQueue, type Due } from './due-queue.ts';

/** Many due times on one timer. */
export interface Timetable<Entry extends Due> {
  /** Puts an entry at its (new) time. */
  set(entry: Entry, dueAt: number): void;
  remove(entry: Entry): void;
}

/** Calls `ring` for each entry that is due; it is in no queue then, and may be set again. */
export function createTimetable<Entry extends Due>(
  clock: Clock,
  ring: (entry: Entry, now: number) => void,
): Timetable<Entry> {
  const queue = new DueQueue<Entry>();
  let timer: Timer | undefined;
  let timerAt = Number.POSITIVE_INFINITY;
  let ringing = false;

  const arm = (): void => {
    if (ringing) return;
    const next = queue.first();
    if (!next) {
      timer?.cancel();
      timer = undefined;
      timerAt = Number.POSITIVE_INFINITY;
      return;
    }
    if (timer && timerAt <= next.dueAt) return;
    timer?.cancel();
    timerAt = next.dueAt;
    timer = clock.timer(Math.max(0, next.dueAt - clock.monotonic()), fire, { background: true });
  };
  const fire = (): void => {
    timer = undefined;
    timerAt = Number.POSITIVE_INFINITY;
    const now = clock.monotonic();
    ringing = true;
    try {
      for (let entry = queue.first(); entry && entry.dueAt <= now; entry = queue.first()) {
        queue.remove(entry);
        ring(entry, now);
      }
    } finally {
      ringing = false;
      arm();
    }
  };
  return {
    set(entry, dueAt) {
      queue.set(entry, dueAt);
      arm();
    },
    remove(entry) {
      queue.remove(entry);
      arm();
    },
  };
}
