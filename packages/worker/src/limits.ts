import type { Clock, Stage, Timer } from '@leasehold/core';
import type { AbortCause } from './abort-reason.ts';
import type { TaskDefinition } from './define-task.ts';

/** Watches one attempt's time. */
export interface LimitWatch {
  entered(stage: Stage): void;
  claimed(stage: Stage, reason: string): void;
  /** Wall-clock instant at which the attempt is capped, if it is. */
  readonly deadline: number | undefined;
  onCapNear(listener: () => void): void;
  stop(): void;
}

/** The notice before a cap: a tenth of the time that is left, at least 1 s (or half), at most 30 s. */
function capNotice(leftMs: number): number {
  return Math.min(30_000, Math.max(Math.min(1_000, leftMs / 2), leftMs / 10));
}

/**
 * Stage limit, stall and cap of an attempt, on one timer. `over` is called at most once; `near` once before a cap.
 * `capAt` is the backend's cap as a monotonic instant.
 */
export function watchLimits(parts: {
  readonly clock: Clock;
  readonly definition: Pick<TaskDefinition, 'stageMs' | 'progressMs' | 'totalMs'>;
  readonly capAt: number;
  readonly marginMs: number;
  readonly near: (leftMs: number) => void;
  /** A listener of the handler's threw. */
  readonly failed: (error: unknown) => void;
  readonly over: (cause: AbortCause, message: string) => void;
}): LimitWatch {
  const { clock, definition } = parts;
  const start = clock.monotonic();
  let stage: Stage = 'preflight';
  let stageSince = start;
  let reason = '';
  let reasonSince = start;
  let timer: Timer | undefined;
  let stopped = false;
  let noticed = false;
  const listeners: (() => void)[] = [];

  // The backend's cap is met with a margin in hand, so that the task can still be given back.
  const capAt = Math.min(start + (definition.totalMs ?? Number.POSITIVE_INFINITY), parts.capAt - parts.marginMs);
  const noticeAt = capAt - capNotice(capAt - start);

  const check = (): void => {
    timer = undefined;
    if (stopped) return;
    const now = clock.monotonic();
    if (now >= capAt) return end('lease-cap', 'the time this attempt may hold the task is over');
    const stageLimit = definition.stageMs[stage];
    if (now - stageSince >= stageLimit) return end('stage-limit', `stage ${stage} lasted longer than ${stageLimit} ms`);
    if (definition.progressMs !== undefined && now - reasonSince >= definition.progressMs) {
      return end('stalled', `no progress beyond stage ${stage} for ${definition.progressMs} ms`);
    }
    if (now >= noticeAt && !noticed) {
      noticed = true;
      parts.near(capAt - now);
      for (const listener of listeners) tell(listener);
    }
    arm(now, stageLimit);
  };
  const tell = (listener: () => void): void => {
    try {
      listener();
    } catch (error) {
      // Thrown into a timer it would end the process, with all of its leases.
      parts.failed(error);
    }
  };
  const arm = (now: number, stageLimit: number): void => {
    const stall = definition.progressMs === undefined ? Number.POSITIVE_INFINITY : reasonSince + definition.progressMs;
    const next = Math.min(capAt, stageSince + stageLimit, stall, noticed ? Number.POSITIVE_INFINITY : noticeAt);
    timer = clock.timer(Math.max(1, next - now), check, { background: true });
  };
  const end = (cause: AbortCause, message: string): void => {
    stopped = true;
    parts.over(cause, message);
  };
  arm(start, definition.stageMs[stage]);
  return {
    entered(next) {
      if (next === stage) return;
      stage = next;
      stageSince = clock.monotonic();
      reasonSince = stageSince;
      // A shorter limit may be due before the timer that runs.
      if (!stopped) {
        timer?.cancel();
        arm(stageSince, definition.stageMs[stage]);
      }
    },
    claimed(inStage, why) {
      if (inStage === stage && why === reason) return;
      reason = why;
      reasonSince = clock.monotonic();
    },
    deadline: Number.isFinite(capAt) ? clock.wall() + (capAt - start) : undefined,
    onCapNear(listener) {
      if (noticed) tell(listener);
      else listeners.push(listener);
    },
    stop() {
      stopped = true;
      timer?.cancel();
    },
  };
}
