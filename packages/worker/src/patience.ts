import type { Clock, Timer } from '@leasehold/core';

/** True when `ended` came in time, false when it had not come `graceMs` after the signal aborted. Without an abort it waits for good. */
export async function endedInTime(
  clock: Clock,
  ended: Promise<unknown>,
  signal: AbortSignal,
  graceMs: number,
): Promise<boolean> {
  let timer: Timer | undefined;
  let onAbort: () => void = () => undefined;
  const lost = new Promise<boolean>((resolve) => {
    onAbort = () => (timer ??= clock.timer(graceMs, () => resolve(false), { background: true }));
  });
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  const inTime = await Promise.race([ended.then(() => true), lost]);
  timer?.cancel();
  signal.removeEventListener('abort', onAbort);
  return inTime;
}
