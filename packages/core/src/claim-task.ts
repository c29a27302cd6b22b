import { backoffDelay } from './backoff.ts';
import { sleep, type Clock } from './clock.ts';
import { decide, isRefusal } from './decide.ts';
import type { ClaimEvent, Refusal } from './events.ts';
import type { LedgerSession, Unanswered } from './ledger-session.ts';
import type { LeaseTiming } from './lease-timing.ts';
import type { TaskRecord } from './record.ts';
import { newOpId, REPEAT, TaskLease } from './task-lease.ts';

/** What a claim came to. */
export type ClaimOutcome =
  | { readonly lease: TaskLease }
  /** The claim found that the task has to end, and ended it. */
  | { readonly ended: TaskRecord }
  | { readonly refused: Refusal; readonly record: TaskRecord | undefined }
  | { readonly unknown: Unanswered['unanswered'] };

/**
 * Claims a task in the ledger: one conditional write on the happy path. Unanswered, the same write is repeated for at most
 * `timing.marginMs`, and recognised if an earlier sending was applied after all.
 */
export async function claimTask(
  session: LedgerSession,
  clock: Clock,
  timing: LeaseTiming,
  request: Omit<ClaimEvent, 'type' | 'opId' | 'leaseMs'>,
): Promise<ClaimOutcome> {
  const opId = newOpId();
  const event: ClaimEvent = { ...request, type: 'claim', opId, leaseMs: timing.leaseMs };
  const giveUpAt = clock.monotonic() + timing.marginMs;
  const timeoutMs = Math.max(1, Math.floor(timing.marginMs / 2));
  let current: TaskRecord | undefined;
  let looked = false;
  let first: { readonly at: number; readonly bound: number } | undefined;
  for (let tries = 1, races = 0; ;) {
    const now = await session.time(request.taskId, timeoutMs);
    const lastAt = clock.monotonic();
    const wallOffset = clock.wall() - lastAt;
    let failed = 'unanswered' in now ? now : undefined;
    if (!('unanswered' in now)) {
      const outcome = decide(current, event, now);
      if (isRefusal(outcome)) {
        if (current || looked) return { refused: outcome, record: current };
        // Refused for want of a record (a message that was sent again): only now does it pay to look for one.
        const read = await session.get(request.taskId, timeoutMs);
        if (!('unanswered' in read)) {
          looked = true;
          current = read.record;
          continue;
        }
        failed = read;
      } else {
        first ??= { at: lastAt, bound: now.latest };
        const stamp =
          outcome.leaseMs === undefined ? undefined : { ms: outcome.leaseMs, notBeyond: first.bound + outcome.leaseMs };
        const answer = await session.put(outcome.next, stamp, outcome.expect, timeoutMs);
        if ('unanswered' in answer) failed = answer;
        else {
          const record = answer.ok ? answer.record : answer.current;
          if (record?.opId === opId) {
            if (record.state !== 'running') return { ended: record };
            return {
              lease: new TaskLease({
                session,
                clock,
                timing,
                record,
                now: answer.now,
                sending: { firstAt: first.at, lastAt, wallOffset },
              }),
            };
          }
          if (record?.version === current?.version && ++races > 3) {
            // The store's clock cannot tell yet whether the lease is over (or a driver refuses without saying what stands there).
            return {
              refused: { refused: 'busy', message: 'the lease of the owner is about to end', waitMs: 0 },
              record,
            };
          }
          // Somebody else's record: decide again from it.
          current = record;
          first = undefined;
        }
      }
    }
    if (failed) {
      const wait = backoffDelay(REPEAT, tries++);
      if (HOPELESS.includes(failed.unanswered) || clock.monotonic() + wait >= giveUpAt)
        return { unknown: failed.unanswered };
      await sleep(clock, wait);
    }
  }
}

/** What another try within seconds cannot mend. */
const HOPELESS: readonly Unanswered['unanswered'][] = ['denied', 'invalid', 'not-found'];
