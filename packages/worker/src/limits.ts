import type { Clock, Stage } from '@leasehold/core';
import type { AbortCause } from './abort-reason.ts';
import type { TaskDefinition } from './define-task.ts';
import type { Due } from './due-queue.ts';
import { createTimetable, type Timetable } from './timetable.ts';

/** Whose time is watched. `over` is called at most once; `near` once before a cap. */
export interface Limited {
  readonly definition: Pick<TaskDefinition, 'stageMs' | 'progressMs' | 'totalMs'>;
  readonly services: { readonly clock: Clock; readonly limits: Timetable<LimitWatch> };
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
  readonly #owner: Limited;
  /** Absent where nothing caps the attempt, which is the rule. */
  readonly #capAt: number | undefined;
  readonly #noticeAt: number | undefined;
  #stage: Stage = 'preflight';
  #stageSince: number;
  #reason = '';
  #reasonSince: number;
  #stopped = false;
  #noticed = false;
  #listeners: (() => void)[] | undefined;

  /** `backendCapAt` is a monotonic instant; it is met with a margin in hand, so that the task can still be given back. */
  constructor(owner: Limited, backendCapAt: number, marginMs: number) {
    this.#owner = owner;
    const { clock } = owner.services;
    const start = clock.monotonic();
    this.#stageSince = start;
    this.#reasonSince = start;
    const capAt = Math.min(start + (owner.definition.totalMs ?? Number.POSITIVE_INFINITY), backendCapAt - marginMs);
    if (capAt < Number.POSITIVE_INFINITY) {
      this.#capAt = capAt;
      this.#noticeAt = capAt - capNotice(capAt - start);
      this.deadline = clock.wall() + (capAt - start);
    }
    this.#arm(start);
  }

  entered(next: Stage): void {
    if (next === this.#stage) return;
    this.#stage = next;
    this.#stageSince = this.#owner.services.clock.monotonic();
    this.#reasonSince = this.#stageSince;
    // A shorter limit may be due before the one that was waited for.
    if (!this.#stopped) this.#arm(this.#stageSince);
  }

  claimed(inStage: Stage, why: string): void {
    if (inStage === this.#stage && why === this.#reason) return;
    this.#reason = why;
    this.#reasonSince = this.#owner.services.clock.monotonic();
  }

  onCapNear(listener: () => void): void {
    if (this.#noticed) this.#tell(listener);
    else (this.#listeners ??= []).push(listener);
  }

  stop(): void {
    this.#stopped = true;
    this.#owner.services.limits.remove(this);
  }

  /** Looks whether a limit is reached, and sets the next time to look. */
  check(now: number): void {
    if (this.#stopped) return;
    const { stageMs, progressMs } = this.#owner.definition;
    const capAt = this.#capAt;
    if (capAt !== undefined && now >= capAt)
      return this.#end('lease-cap', 'the time this attempt may hold the task is over');
    const stageLimit = stageMs[this.#stage];
    if (now - this.#stageSince >= stageLimit)
      return this.#end('stage-limit', `stage ${this.#stage} lasted longer than ${stageLimit} ms`);
    if (progressMs !== undefined && now - this.#reasonSince >= progressMs)
      return this.#end('stalled', `no progress beyond stage ${this.#stage} for ${progressMs} ms`);
    if (capAt !== undefined && now >= (this.#noticeAt ?? capAt) && !this.#noticed) {
      this.#noticed = true;
      this.#owner.near(capAt - now);
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
    let next = this.#stageSince + stageMs[this.#stage];
    if (progressMs !== undefined) next = Math.min(next, this.#reasonSince + progressMs);
    if (this.#capAt !== undefined) next = Math.min(next, this.#capAt);
    if (this.#noticeAt !== undefined && !this.#noticed) next = Math.min(next, this.#noticeAt);
    this.#owner.services.limits.set(this, Math.max(now + 1, next));
  }

  #end(cause: AbortCause, message: string): void {
    this.#stopped = true;
    this.#owner.limitReached(cause, message);
  }
}
