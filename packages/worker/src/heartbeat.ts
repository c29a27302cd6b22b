import { beatDelay } from '@leasehold/core';
import type { Clock, Lost, TaskLease } from '@leasehold/core';
import type { Due } from './due-queue.ts';
import { createTimetable } from './timetable.ts';

/** A lease that is to be kept. */
export interface Kept {
  readonly task: TaskLease;
  /** The monotonic instant until which the broker keeps the message for us; infinite where that cannot be prolonged. */
  brokerUntil(): number;
  /** Renews. Never rejects. */
  beat(): Promise<'held' | 'unknown' | Lost>;
  /** The lease is over. Called at most once. */
  lost(loss: Lost): void;
}

/** One scheduler for all leases of a process. */
export interface Heartbeat {
  keep(kept: Kept): void;
  /** No beat starts any more; one in flight ends by itself. */
  drop(kept: Kept): void;
  /** Beats now: somebody waits for a confirmation. */
  nudge(kept: Kept): void;
  readonly size: number;
  /** How late the latest beat of the last minute went out, in milliseconds: large when the event loop is blocked. */
  readonly lateMs: number;
}

interface Entry extends Due {
  readonly kept: Kept;
  beating: boolean;
  misses: number;
  /** When its last beat went out (monotonic). */
  beatAt: number;
}

const LATE_WINDOW_MS = 60_000;

/**
 * Beats on a common grid, so that leases share calls. A beat is due at the latest when half of the remaining time is left; an unanswered one
 * is repeated sooner. Judging a lease never waits for a timer: `TaskLease.ownership()` looks at the clock itself.
 */
export function createHeartbeat(clock: Clock, random: () => number = Math.random): Heartbeat {
  const entries = new Map<Kept, Entry>();
  // Processes that started together do not beat together.
  const phase = random();
  let late = { ms: 0, at: 0 };

  const schedule = (entry: Entry, afterBeat: boolean): void => {
    const { task } = entry.kept;
    const now = clock.monotonic();
    const ends = task.confirmedUntil;
    const remaining = Math.min(ends, entry.kept.brokerUntil()) - now;
    let delay = beatDelay(task.timing, remaining, random);
    // A miss is repeated well before the next regular beat, and ever closer to the end.
    if (entry.misses > 0) delay = Math.min(task.timing.heartbeatMs / 2, Math.max(20, (ends - now) / 8));
    // A delivery that cannot be saved does not make the lease beat without pause: the ledger's half counts.
    if (afterBeat && delay === 0 && entry.kept.brokerUntil() - now <= task.timing.marginMs)
      delay = beatDelay(task.timing, ends - now, random) / 2;
    const grid = Math.max(1, task.timing.heartbeatMs / 20);
    const due = now + delay;
    const onGrid = (Math.floor(due / grid - phase) + phase) * grid;
    timetable.set(entry, Math.min(onGrid > now ? onGrid : due, ends));
  };
  const beat = async (entry: Entry): Promise<void> => {
    entry.beating = true;
    entry.beatAt = clock.monotonic();
    const result = await entry.kept.beat();
    entry.beating = false;
    // Dropped meanwhile, or dropped and kept anew.
    if (entries.get(entry.kept) !== entry) return;
    if (typeof result === 'object') {
      lose(entry, result);
      return;
    }
    entry.misses = result === 'held' ? 0 : entry.misses + 1;
    schedule(entry, true);
  };
  const lose = (entry: Entry, loss: Lost): void => {
    entries.delete(entry.kept);
    timetable.remove(entry);
    entry.kept.lost(loss);
  };
  const timetable = createTimetable<Entry>(clock, (entry, now) => {
    const lateBy = now - entry.dueAt;
    if (lateBy >= late.ms || now - late.at > LATE_WINDOW_MS) late = { ms: lateBy, at: now };
    const loss = entry.kept.task.lost;
    if (loss) lose(entry, loss);
    else if (entry.kept.task.ended) entries.delete(entry.kept);
    else {
      // Until the answer is there, only the end of the confirmed time is watched.
      timetable.set(entry, Math.max(entry.kept.task.confirmedUntil, now + 1));
      if (!entry.beating) void beat(entry);
    }
  });
  return {
    keep(kept) {
      const entry = entries.get(kept) ?? {
        kept,
        dueAt: 0,
        place: -1,
        beating: false,
        misses: 0,
        beatAt: Number.NEGATIVE_INFINITY,
      };
      entries.set(kept, entry);
      schedule(entry, false);
    },
    drop(kept) {
      const entry = entries.get(kept);
      if (!entry) return;
      entries.delete(kept);
      timetable.remove(entry);
    },
    nudge(kept) {
      const entry = entries.get(kept);
      if (!entry || entry.beating) return;
      // Answered beats that leave the asker waiting must not become a loop.
      const soonest = Math.max(clock.monotonic(), entry.beatAt + entry.kept.task.timing.heartbeatMs / 20);
      timetable.set(entry, Math.min(entry.dueAt, soonest));
    },
    get size() {
      return entries.size;
    },
    get lateMs() {
      return clock.monotonic() - late.at > LATE_WINDOW_MS ? 0 : late.ms;
    },
  };
}
