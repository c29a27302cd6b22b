import { setTimeout as pause } from 'node:timers/promises';
import { PermanentError } from '@leasehold/core';
import { guarded, type GuardedEffect, type TaskContext } from '@leasehold/worker';
import { Seeded } from '../simulation/seeded.ts';
import type { Said } from './said.ts';
import type { EffectName, Job } from './task-plan.ts';

/** The receiver as the tasks use it. */
export interface Desk {
  /** The options of the effect that orders something, once. */
  order(effect: EffectName, job: Job, ctx: TaskContext): GuardedEffect<void>;
}

const CALL_TIMEOUT_MS = 20_000;

/** A client of the receiver at `url`. */
export function deskAt(parts: {
  readonly url: string;
  readonly who: string;
  readonly seed: number;
  readonly say: (said: Said) => void;
  /** A request is about to leave. Answers how much longer to wait. */
  readonly calling: () => number;
}): Desk {
  const { url, who, say } = parts;
  const chance = new Seeded(parts.seed);
  return {
    order: (effect, job, ctx) => ({
      system: 'desk',
      async commit(call) {
        say({ kind: 'call', taskId: ctx.taskId, token: call.fence, effect, ownership: ctx.ownership });
        const lingerMs = parts.calling();
        // Between the last check and the request: whoever is stopped here sends it when its lease is long over.
        await pause(chance.between(5, 60) + lingerMs);
        if (job.breakAt === 'call') throw new PermanentError('it cannot be ordered');
        // Not the attempt's signal: what comes too late is the guard's to refuse.
        const response = await fetch(new URL(`/${effect}s`, url), {
          method: 'POST',
          headers: { ...call.headers, 'content-type': 'application/json', 'x-worker': who },
          body: JSON.stringify({ order: job.order, effect }),
          signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
        });
        await response.body?.cancel();
        if (!response.ok) throw new Error(`the desk answered ${response.status}`);
      },
      readBack: guarded(url),
      receipt(found) {
        const { id } = found.json() as { readonly id: string };
        return { externalId: id, status: 'done' };
      },
    }),
  };
}
