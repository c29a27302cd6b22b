import type { Clock, Stage } from '@leasehold/core';
import type { AbortCause } from './abort-reason.ts';
import type { TaskDefinition } from './define-task.ts';
import type { Due } from './due-queue.ts';
import { createTimetable, type Timetable } from './timetable.ts';

/** Whose time is watched. `over` is called at most once; `near` once before a cap. */
export interface Limited {
  readonly definition: Pick<TaskDefinition, 'stageMs' | 'progressMs' | 'totalMs'>;
  near(leftMs: number): void;
  /** A listener of the handler's threw. */
  listenerFailed(error: unknown): void;
  limitReached(cause: AbortCause, message: string): void;
}

/** The limits of all attempts of a process, on one timer. */
export function createLimitTable(clock: Clock): Timetable<LimitWatch> {
  return createTimetable<LimitWatch>(clock, (limits, now) => limits.check(now));
}

/** The notice before a cap: a tenth of the time that is left, at least 1 s (or half), at most 30 s. */
function capNotice(leftMs: number): number {
  return Math.min(30_000, Math.max(Math.min(1_000, leftMs / 2), leftMs / 10));
}

/** Stage limit, stall and cap of one attempt. */
export class LimitWatch implements Due {
  dueAt = 0;
  place = -1;
  /** Wall-clock instant at which the attempt is capped, if it is. */
  readonly deadline: number | undefined;
  readonly #clock: Clock;
  readonly #table: Timetable<LimitWatch>;
  readonly #owner: Limited;
  readonly #capAt: number;
  readonly #noticeAt: number;
  #stage: Stage = 'preflight';
  #stageSince: number;
  #reason = '';
  #reasonSince: number;
  #stopped = false;
  #noticed = false;
  #listeners: (() => void)[] | undefined;

  /** `capAt` is the backend's cap as a monotonic instant; it is met with a margin in hand, so that the task can still be given back. */
  constructor(parts: {
    readonly clock: Clock;
    readonly table: Timetable<LimitWatch>;
    readonly owner: Limited;
    readonly capAt: number;
    readonly marginMs: number;
  }) {
    this.#clock = parts.clock;
    this.#table = parts.table;
    this.#owner = parts.owner;
    const start = parts.clock.monotonic();
    this.#stageSince = start;
    this.#reasonSince = start;
    const totalMs = parts.owner.definition.totalMs ?? Number.POSITIVE_INFINITY;
    this.#capAt = Math.min(start + totalMs, parts.capAt - parts.marginMs);
    this.#noticeAt = this.#capAt - capNotice(this.#capAt - start);
    this.deadline = Number.isFinite(this.#capAt) ? parts.clock.wall() + (this.#capAt - start) : undefined;
    this.#arm(start);
  }

  entered(next: Stage): void {
    if (next === this.#stage) return;
    this.#stage = next;
    this.#stageSince = this.#clock.monotonic();
    this.#reasonSince = this.#stageSince;
    // A shorter limit may be due before the one that was waited for.
    if (!this.#stopped) this.#arm(this.#stageSince);
  }

  claimed(inStage: Stage, why: string): void {
    if (inStage === this.#stage && why === this.#reason) return;
    this.#reason = why;
    this.#reasonSince = this.#clock.monotonic();
  }

  onCapNear(listener: () => void): void {
    if (this.#noticed) this.#tell(listener);
    else (this.#listeners ??= []).push(listener);
  }

  stop(): void {
    this.#stopped = true;
    this.#table.remove(this);
  }

  /** Looks whether a limit is reached, and sets the next time to look. */
  check(now: number): void {
    if (this.#stopped) return;
    const { stageMs, progressMs } = this.#owner.definition;
    if (now >= this.#capAt) return this.#end('lease-cap', 'the time this attempt may hold the task is over');
    const stageLimit = stageMs[this.#stage];
    if (now - this.#stageSince >= stageLimit)
      return this.#end('stage-limit', `stage ${this.#stage} lasted longer than ${stageLimit} ms`);
    if (progressMs !== undefined && now - this.#reasonSince >= progressMs)
      return this.#end('stalled', `no progress beyond stage ${this.#stage} for ${progressMs} ms`);
    if (now >= this.#noticeAt && !this.#noticed) {
      this.#noticed = true;
      this.#owner.near(this.#capAt - now);
      for (const listener of this.#listeners ?? []) this.#tell(listener);
    }
    this.#arm(now);
  }

  #tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      // Thrown into a timer it would end the process, with all of its leases.
      this.#owner.listenerFailed(error);
    }
  }

  #arm(now: number): void {
    const { stageMs, progressMs } = this.#owner.definition;
    const stall = progressMs === undefined ? Number.POSITIVE_INFINITY : this.#reasonSince + progressMs;
    const notice = this.#noticed ? Number.POSITIVE_INFINITY : this.#noticeAt;
    const next = Math.min(this.#capAt, this.#stageSince + stageMs[this.#stage], stall, notice);
    this.#table.set(this, Math.max(now + 1, next));
  }

  #end(cause: AbortCause, message: string): void {
    this.#stopped = true;
    this.#owner.limitReached(cause, message);
  }
}
