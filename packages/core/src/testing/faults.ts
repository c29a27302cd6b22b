import { sleep } from '../clock.ts';
import type { BrokerErrorCode, Delivery, HandleOutcome, SendOutcome } from '../driver.ts';
import { InjectedError, type Fault, type FaultCall } from './fault-plan.ts';

/** The call is refused and never applied: throttling, an outage, missing rights. Plan it `times: n` for n refusals in a row. */
export function failBefore(code: BrokerErrorCode = 'unavailable'): Fault {
  return (call) => Promise.reject(injected(code, call, 'was refused before it was applied'));
}

/** The call is applied, but its answer is lost: the caller sees a timeout, after `afterMs`. */
export function dropAnswer(afterMs = 0, code: BrokerErrorCode = 'unavailable'): Fault {
  return async (call) => {
    await call.apply();
    if (afterMs > 0) await sleep(call.clock, afterMs, call.signal);
    throw injected(code, call, 'was applied, and its answer lost: timed out');
  };
}

/** The call is applied at once and answered after `ms`. An abort in between leaves the caller without the answer. */
export function delayAnswer(ms: number): Fault {
  return async (call) => {
    const answer = await call.apply();
    await sleep(call.clock, ms, call.signal);
    return answer;
  };
}

/** The call takes `ms` to reach the backend. An abort in between stops it on its way. */
export function delayCall(ms: number): Fault {
  return async (call) => {
    await sleep(call.clock, ms, call.signal);
    return call.apply();
  };
}

/** The call never reaches the backend; the caller waits until its own signal aborts. */
export function hang(): Fault {
  return ({ signal }) =>
    new Promise((_, reject) => {
      const stop = (): void => reject(signal.reason as Error);
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
}

/** The call never reaches the backend and does not listen to its signal either. It never ends, or rejects after `rejectAfterMs`. */
export function hangDeaf(rejectAfterMs?: number): Fault {
  return async (call) => {
    if (rejectAfterMs === undefined) return new Promise(() => undefined);
    await sleep(call.clock, rejectAfterMs);
    throw injected('unavailable', call, `hung for ${rejectAfterMs} ms`);
  };
}

/**
 * The caller is told at once (or when its signal aborts, with `tell: 'on-abort'`) that the call failed, and yet it is applied
 * `afterMs` after it was made, whatever became of its caller.
 */
export function applyLater(afterMs: number, tell: 'now' | 'on-abort' = 'now'): Fault {
  return (call) => {
    call.later(afterMs, () => call.apply(call.args, new AbortController().signal));
    return tell === 'on-abort' ? hang()(call) : Promise.reject(injected('unavailable', call, 'timed out on its way'));
  };
}

/** The call succeeds, but the entries that `which` accepts (default all) fail with `code` and are not applied. */
export function failEntries(
  code: BrokerErrorCode,
  which: (index: number, entry: unknown) => boolean = () => true,
): Fault {
  return async (call) => {
    const [entries, ...rest] = call.args as [readonly unknown[], ...unknown[]];
    const fails = entries.map((entry, index) => which(index, entry));
    const good = entries.filter((_, index) => !fails[index]);
    const answers = good.length === 0 ? [] : [...((await call.apply([good, ...rest])) as readonly unknown[])];
    return fails.map((failed) => (failed ? { failed: code } : answers.shift()));
  };
}

/** The call is applied and succeeds, but its answer has no list of successes: every entry is unconfirmed. */
export function unconfirmedEntries(): Fault {
  return async (call) => {
    const answers = (await call.apply()) as readonly unknown[];
    return answers.map((): SendOutcome => ({ failed: 'unknown' }));
  };
}

/** Nothing is applied; every handle is answered with `outcome`. A stale extend that says `done`, a stale complete that says `gone`. */
export function pretend(outcome: HandleOutcome): Fault {
  return async ({ method, args }) => {
    const [handles] = args;
    return method === 'reject' ? outcome : (handles as readonly unknown[]).map(() => outcome);
  };
}

/** For `receive`: what it brings is delivered once more, under a new handle, while the caller still believes it holds the first. */
export function duplicateDelivery(): Fault {
  return async (call) => {
    const deliveries = (await call.apply()) as readonly Delivery[];
    if (deliveries.length > 0) await call.other('release', [deliveries.map(({ handle }) => handle), 0]);
    return deliveries;
  };
}

function injected(code: BrokerErrorCode, { method }: FaultCall, what: string): InjectedError {
  return new InjectedError(code, `injected: ${method} ${what}`);
}
