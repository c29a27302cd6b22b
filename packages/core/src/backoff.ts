/** How waits grow between tries. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
  readonly factor?: number;
}

/** The wait before try number `attempt` (1 = first retry): exponential, capped, with equal jitter (between half of it and all of it). */
export function backoffDelay(backoff: Backoff, attempt: number, random: () => number = Math.random): number {
  const full = Math.min(backoff.maxMs, backoff.firstMs * (backoff.factor ?? 2) ** Math.max(0, attempt - 1));
  return Math.round(full / 2 + random() * (full / 2));
}
