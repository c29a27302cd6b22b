import type { Clock } from './clock.ts';
import { publish } from './channel.ts';
import { setDeadline } from './deadlines.ts';
import { LeaseholdError } from './errors.ts';

const CLOSE_TIMEOUT_MS = 5_000;

/** Closes a driver for at most 5 s. Never rejects: whoever closes can do nothing about a client that will not; it is announced. */
export async function closeDriver(
  clock: Clock,
  driver: { readonly name: string; close(): Promise<void> },
): Promise<void> {
  try {
    await boundedCall(clock, `${driver.name}: close`, CLOSE_TIMEOUT_MS, () => driver.close());
  } catch (error) {
    publish({
      name: 'warning',
      at: clock.wall(),
      reason: `${driver.name} did not close`,
      errorCode: error instanceof Error ? error.name : 'unknown',
    });
  }
}

/**
 * Runs one driver call for at most `timeoutMs`: then its signal aborts and the call counts as unanswered, whether the driver reacts or
 * not. An answer that arrives after that is dropped (and announced); a late rejection never becomes an unhandled one.
 */
export function boundedCall<Result>(
  clock: Clock,
  what: string,
  timeoutMs: number,
  call: (signal: AbortSignal) => Promise<Result>,
  options: { readonly outer?: AbortSignal; readonly onLate?: (result: Result) => void } = {},
): Promise<Result> {
  const { outer, onLate } = options;
  return new Promise<Result>((resolve, reject) => {
    const controller = new AbortController();
    let open = true;
    const end = (finish: () => void): void => {
      if (!open) return;
      open = false;
      timer.cancel();
      outer?.removeEventListener('abort', stop);
      finish();
    };
    const late = (kind: string): void => publish({ name: 'late_answer', at: clock.wall(), cause: what, reason: kind });
    const timer = setDeadline(clock, timeoutMs, () => {
      const error = new LeaseholdError(
        'timeout',
        `${what} was not answered within ${timeoutMs} ms; whether it was applied is not known.`,
      );
      end(() => reject(error));
      controller.abort(error);
    });
    const stop = (): void => {
      // The driver decides: it may still bring what it took.
      controller.abort(outer?.reason);
    };
    if (outer?.aborted) stop();
    else outer?.addEventListener('abort', stop, { once: true });
    // A driver that throws instead of rejecting must not leave the timer behind.
    const calling = async (): Promise<Result> => call(controller.signal);
    calling().then(
      (result) => {
        if (open) end(() => resolve(result));
        else {
          late('answer');
          onLate?.(result);
        }
      },
      (error: unknown) => (open ? end(() => reject(error)) : late('error')),
    );
  });
}

const OPEN_TIMEOUT_MS = 30_000;

/**
 * Asks a driver to open, once for all callers; after a failure the next caller asks again. Whoever brings a signal waits no longer than until it
 * aborts; the opening goes on for the others.
 */
export function openOnce(
  clock: Clock,
  driver: { readonly name: string; open?(signal: AbortSignal): Promise<void> },
): (signal?: AbortSignal) => Promise<void> {
  let opening: Promise<void> | undefined;
  let opened = driver.open === undefined;
  const start = (): Promise<void> => {
    const mine = boundedCall(clock, `${driver.name}: open`, OPEN_TIMEOUT_MS, async (inner) => driver.open?.(inner));
    mine.then(
      () => (opened = true),
      () => (opening = undefined),
    );
    return mine;
  };
  return async (signal) => {
    if (opened) return;
    opening ??= start();
    await (signal ? unlessAborted(opening, signal) : opening);
  };
}

function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    const over = (): void => signal.removeEventListener('abort', stop);
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject);
    work.then(over, over);
    if (signal.aborted) stop();
  });
}
