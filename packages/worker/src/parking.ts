import type { Busy, Clock, HandleOutcome, Timer } from '@leasehold/core';

/** Deliveries of tasks that somebody is working on: kept from coming back, without a slot, until the owner settles or lapses. And those that wait for a slot. */
export interface Parking {
  readonly size: number;
  park(busy: Busy): void;
  /** The task was ended in this process: its duplicates are due. */
  recall(taskId: string): void;
  /** A place is free: whatever is due comes before anything new. */
  offer(): void;
  /** Gives everything back, each with the delay until its owner's lease ends. */
  empty(): Promise<void>;
}

interface Parked {
  readonly busy: Busy;
  /** When its owner may be gone (monotonic). */
  endsAt: number;
  timer: Timer | undefined;
}

const MOST_PARKED = 1_000;
/** A parked duplicate is looked at this often, at the least. */
const LOOK_MS = 5_000;

/** `retry` looks at a delivery again; false when there is no slot for it just now. */
export function createParking(parts: {
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly canExtend: boolean;
  readonly extend: (busy: Busy, leaseMs: number) => Promise<HandleOutcome>;
  readonly handBack: (busy: Busy, delayMs: number) => Promise<unknown>;
  readonly retry: (busy: Busy) => boolean;
}): Parking {
  const { clock } = parts;
  const parked = new Set<Parked>();

  const backDelay = (entry: Pick<Parked, 'endsAt'>): number =>
    Math.max(1_000, Math.ceil(entry.endsAt - clock.monotonic()));
  const drop = (entry: Parked): void => {
    entry.timer?.cancel();
    parked.delete(entry);
  };
  /** `soonest`: one that was just refused a place has no use for another look at once. */
  const schedule = (entry: Parked, soonest = 50): void => {
    const now = clock.monotonic();
    const keep = Math.max(0, (entry.busy.held.heldUntil - now) / 2);
    const look = Math.max(soonest, Math.min(LOOK_MS, entry.endsAt - now));
    entry.timer = clock.timer(Math.min(keep, look), () => void turn(entry), { background: true });
  };
  const turn = async (entry: Parked): Promise<void> => {
    const now = clock.monotonic();
    if (entry.busy.held.heldUntil <= now) {
      // It may be in other hands already: whoever has it now parks it.
      drop(entry);
      return;
    }
    if (entry.busy.held.heldUntil - now <= parts.leaseMs / 2) {
      const outcome = await parts.extend(entry.busy, parts.leaseMs);
      if (!parked.has(entry)) return;
      if (outcome === 'gone') {
        drop(entry);
        return;
      }
    }
    if (parts.retry(entry.busy)) drop(entry);
    else schedule(entry, 1_000);
  };
  return {
    get size() {
      return parked.size;
    },
    park(busy) {
      const entry: Parked = { busy, endsAt: clock.monotonic() + busy.waitMs, timer: undefined };
      if (!parts.canExtend || parked.size >= MOST_PARKED) {
        void parts.handBack(busy, backDelay(entry));
        return;
      }
      parked.add(entry);
      schedule(entry);
    },
    recall(taskId) {
      for (const entry of parked) if (entry.busy.taskId === taskId) entry.endsAt = clock.monotonic();
    },
    offer() {
      if (parked.size === 0) return;
      const now = clock.monotonic();
      for (const entry of parked) {
        if (entry.endsAt > now) continue;
        if (!parts.retry(entry.busy)) return;
        drop(entry);
      }
    },
    async empty() {
      const entries = [...parked];
      for (const entry of entries) drop(entry);
      await Promise.all(entries.map((entry) => parts.handBack(entry.busy, backDelay(entry))));
    },
  };
}
