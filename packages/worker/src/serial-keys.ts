import {
  claimTask,
  hashJson,
  type Clock,
  type LeaseTiming,
  type LedgerSession,
  type Lost,
  type TaskLease,
} from '@leasehold/core';
import type { Heartbeat, Kept } from './heartbeat.ts';

/** The task type under which keys of a serialisation stand in the ledger. */
const SERIAL_TYPE = 'leasehold.serial';

/** The right to run the one task of a key. */
export interface KeyHold {
  /** Calls `listener` when the key is lost, at once if it is already. */
  onLost(listener: (lost: Lost) => void): void;
  release(): Promise<void>;
  /** Keeps the key from others for as long as its lease lasts, and no longer. */
  lapse(): void;
}

/** Keys of which one task at a time may run. */
export interface SerialKeys {
  /** The key, how long to wait before asking again, or why the ledger did not answer. */
  take(
    ledger: LedgerSession,
    timing: LeaseTiming,
    type: string,
    key: string,
  ): Promise<KeyHold | { readonly waitMs: number } | { readonly unanswered: string }>;
}

const HOUR_MS = 3_600_000;
/** How long a task stays away whose key another task of this process holds. */
const LOCAL_WAIT_MS = 1_000;

/**
 * A key is a lease of its own in the same ledger, beaten like any other: a process that dies with a key frees it by lapsing.
 * Within a process, a key that is taken costs no call.
 */
export function createSerialKeys(parts: {
  readonly clock: Clock;
  readonly heartbeat: Heartbeat;
  readonly owner: string;
}): SerialKeys {
  const { clock, heartbeat, owner } = parts;
  const local = new Set<string>();
  return {
    async take(ledger, timing, type, key) {
      const taskId = `serial:${hashJson([type, key])}`;
      if (local.has(taskId)) return { waitMs: LOCAL_WAIT_MS };
      local.add(taskId);
      const claim = await claimTask(ledger, clock, timing, {
        taskId,
        taskType: SERIAL_TYPE,
        owner,
        idempotencyKey: taskId,
        payloadHash: taskId,
        attempts: Number.MAX_SAFE_INTEGER,
        retentionMs: Number.MAX_SAFE_INTEGER / 2,
      });
      if (!('lease' in claim)) {
        local.delete(taskId);
        if ('unknown' in claim) return { unanswered: claim.unknown };
        const waitMs = 'refused' in claim ? claim.refused.waitMs : undefined;
        return { waitMs: Math.min(waitMs ?? LOCAL_WAIT_MS, 5 * LOCAL_WAIT_MS) };
      }
      return hold(claim.lease, timing, heartbeat, () => void local.delete(taskId));
    },
  };
}

function hold(task: TaskLease, timing: LeaseTiming, heartbeat: Heartbeat, gone: () => void): KeyHold {
  let lost: Lost | undefined;
  let tell: (lost: Lost) => void = () => undefined;
  const kept: Kept = {
    task,
    brokerUntil: () => Number.POSITIVE_INFINITY,
    async beat() {
      task.carryProgress('external_call', 'held for a task');
      const answer = await task.apply({ type: 'renew', leaseMs: timing.leaseMs }, { repeat: false });
      if ('lost' in answer) return answer;
      return 'applied' in answer ? 'held' : 'unknown';
    },
    lost(loss) {
      lost = loss;
      tell(loss);
    },
  };
  heartbeat.keep(kept);
  return {
    onLost(listener) {
      tell = listener;
      if (lost) listener(lost);
    },
    async release() {
      heartbeat.drop(kept);
      const error = { errorClass: 'released', code: 'released', message: 'the task of this key has ended' };
      await task.apply({ type: 'release', error, delayMs: 0, failure: false, retentionMs: HOUR_MS }, { repeat: true });
      gone();
    },
    lapse() {
      heartbeat.drop(kept);
      gone();
    },
  };
}
