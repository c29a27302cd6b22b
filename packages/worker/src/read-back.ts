import { parseDuration, PermanentError, sleep, type Clock, type EffectRecord, type TaskLease } from '@leasehold/core';
import type { EffectOptions, ReadBackContext } from './effect-options.ts';
import { lookUp, type GuardedLook, type LookedUp } from './guarded.ts';

/** What reading back came to. `unknown`: it cannot tell; never a reason for a second write. `refused`: the receiver refused for good, nothing exists. */
export type ReadBackResult<Found> =
  | { readonly state: 'found'; readonly found: Found }
  | { readonly state: 'absent' }
  | { readonly state: 'refused'; readonly status: number }
  | { readonly state: 'unknown'; readonly retryAfterMs?: number; readonly error?: unknown };

/** What reading back needs of an attempt. */
export interface ReadBackHost {
  readonly task: TaskLease;
  readonly clock: Clock;
  /** The context for the token as it is now. */
  context(key: string, signal: AbortSignal): ReadBackContext;
  /** The guard knows a higher token: confirm our grant and go above it. False when the lease is lost. */
  raiseToken(above: number): Promise<boolean>;
  /** The store's time, latest. */
  storeNow(): Promise<number | undefined>;
}

const IN_PROGRESS = { tries: 6, waitMs: 500 };

/** Reads back through a look endpoint. */
export async function readBackGuarded(
  host: ReadBackHost,
  look: Pick<GuardedLook, 'url' | 'headers'>,
  key: string,
  signal: AbortSignal,
): Promise<ReadBackResult<LookedUp>> {
  for (let tries = 1; ; tries++) {
    const answer = await lookUp(look, host.context(key, signal));
    switch (answer.state) {
      case 'done':
        if (answer.response.status >= 400) return { state: 'refused', status: answer.response.status };
        return { state: 'found', found: answer.response };
      case 'absent':
        return { state: 'absent' };
      case 'stale':
        if (tries > IN_PROGRESS.tries || !(await host.raiseToken(answer.highest))) return { state: 'unknown' };
        break;
      case 'in-progress':
        if (tries >= IN_PROGRESS.tries) return { state: 'unknown' };
        await sleep(host.clock, IN_PROGRESS.waitMs, signal);
        break;
      case 'in-doubt':
        return { state: 'unknown' };
    }
  }
}

/**
 * Reads back in the way the effect declares. `intended` is its record when it was intended before; without one (right after our own commit)
 * "absent" is only a read that came too early.
 */
export async function readBack<Committed, Found>(
  host: ReadBackHost,
  options: EffectOptions<Committed, Found>,
  key: string,
  intended: EffectRecord | undefined,
  signal: AbortSignal,
): Promise<ReadBackResult<Found>> {
  const way = options.readBack;
  // Nothing to read: the same call with the same key is answered as before, so committing again is safe.
  if (way === 'provider-replays-key') return { state: 'absent' };
  if (way === 'human') return { state: 'unknown' };
  if (typeof way === 'object') return (await readBackGuarded(host, way, key, signal)) as ReadBackResult<Found>;
  const found = await way(host.context(key, signal));
  if (found !== undefined && found !== null) return { state: 'found', found };
  if (!intended || options.receiver === 'guarded' || options.receiver === 'idempotent') return { state: 'absent' };
  if (options.quiesce === undefined) return { state: 'unknown' };
  const now = await host.storeNow();
  if (now === undefined) return { state: 'unknown' };
  // A deploy may have made leases shorter since; and an older worker keeps the figure of an earlier intent beside its own.
  const leaseMs = Math.max(intended.leaseMs ?? 0, host.task.timing.leaseMs);
  const quietAt = intended.intendedAt + leaseMs + parseDuration(options.quiesce, 'quiesce');
  return now >= quietAt ? { state: 'absent' } : { state: 'unknown', retryAfterMs: quietAt - now };
}

/** The error for an effect that the receiver refused for good. */
export function refusedForGood(name: string, status: number): PermanentError {
  return new PermanentError(
    `The receiver refused effect "${name}" for good (status ${status}); the same key will be answered the same.`,
  );
}
