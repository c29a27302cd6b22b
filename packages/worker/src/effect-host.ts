import { LeaseholdError, type Lost } from '@leasehold/core';
import type { Attempt } from './attempt.ts';
import type { EffectHost } from './effect.ts';

/** How long one read of the store's clock may take, as a share of the margin. */
const READ_SHARE = 2;

/** The effect protocol's view of an attempt. */
export function createEffectHost(attempt: Attempt): EffectHost {
  const { task } = attempt.port;
  const { clock, heartbeat } = attempt.services;
  return {
    task,
    clock,
    get signal() {
      // Closing goes on although the handler's signal has aborted.
      return attempt.closing ? NEVER : attempt.signal;
    },
    get closing() {
      return attempt.closing;
    },
    identified: attempt.message.identity === 'task-id' || attempt.definition.identity === 'message-id',
    context(key, signal) {
      // Asked for anew at every step of a read-back: a closing starts none once a write was refused.
      if (attempt.closing && task.lost) throw lostLease(task.lost);
      const { traceparent } = attempt.message;
      return {
        idempotencyKey: key,
        fence: task.token,
        scope: task.taskId,
        headers: {
          'x-execution-scope': headerText(task.taskId),
          'x-execution-fence': String(task.token),
          'idempotency-key': headerText(key),
          ...(traceparent !== undefined && { traceparent }),
        },
        signal,
      };
    },
    async raiseToken(above) {
      // Only if the ledger confirms our grant in the same write is it the guard that knows too much.
      const answer = await task.apply({ type: 'raise-token', above, leaseMs: task.timing.leaseMs }, { repeat: true });
      if (!('applied' in answer)) return false;
      task.announce('token_raised', { count: above });
      return true;
    },
    async storeNow() {
      const read = await task.storeTime(Math.floor(task.timing.marginMs / READ_SHARE));
      return read?.latest;
    },
    enter: (stage, reason) => attempt.enter(stage, reason),
    async confirmed() {
      // A beat that is answered and yet does not make it held (a clock that cannot be trusted) must not prolong the wait.
      const until = task.confirmedUntil;
      for (;;) {
        const ownership = task.ownership();
        if (!attempt.closing) attempt.throwIfAborted();
        if (ownership === 'held') return;
        if (ownership === 'lost') throw lostLease(task.lost);
        if (!(clock.monotonic() < until))
          throw new LeaseholdError('ownership', 'The lease was not confirmed in time. Nothing was started.');
        await change(attempt, until, () => heartbeat.nudge(attempt));
      }
    },
  };
}

function lostLease(lost: Lost | undefined): LeaseholdError {
  return new LeaseholdError(
    'ownership',
    `The lease is lost: ${lost?.message ?? 'it was given back'}. Nothing was started.`,
  );
}

/** Bare where that is unambiguous, else as a quoted string (RFC 9651, section 3.3.3). */
function headerText(text: string): string {
  return /^[\w.:/@+~=-]+$/.test(text) ? text : `"${text.replace(/[\\"]/g, '\\$&')}"`;
}

const NEVER: AbortSignal = new AbortController().signal;

/** Resolves at the next confirmation, loss or abort, at the latest at the monotonic instant `until`. */
function change(attempt: Attempt, until: number, ask: () => void): Promise<void> {
  const { task } = attempt.port;
  const { clock } = attempt.services;
  return new Promise((resolve) => {
    const watcher = { leaseChanged: (): void => end() };
    const end = (): void => {
      timer.cancel();
      task.unwatch(watcher);
      attempt.signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = clock.timer(Math.max(1, until - clock.monotonic()), end, { background: true });
    task.watch(watcher);
    attempt.signal.addEventListener('abort', end, { once: true });
    ask();
  });
}
