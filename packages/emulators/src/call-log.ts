import type { ProxyRequest } from './exchange.ts';

const KEPT = 10_000;

/** One call at the proxy. */
export interface LoggedCall {
  readonly operation: string;
  readonly request: ProxyRequest;
  /** Epoch milliseconds of the proxy's time at which it came. */
  readonly at: number;
  /** Whether a fault befell it. */
  readonly faulty: boolean;
  /** What the client was told; `none` = its connection was closed, or it had gone. Absent while the call is pending. */
  readonly status?: number | 'none';
}

/** Counts every call, and keeps the last ones. */
export class CallLog {
  readonly entries: (LoggedCall & { status?: number | 'none' })[] = [];
  readonly #counts = new Map<string, number>();
  #total = 0;

  add(request: ProxyRequest, at: number, faulty: boolean): LoggedCall & { status?: number | 'none' } {
    const entry: LoggedCall & { status?: number | 'none' } = { operation: request.operation, request, at, faulty };
    this.#total++;
    this.#counts.set(request.operation, (this.#counts.get(request.operation) ?? 0) + 1);
    this.entries.push(entry);
    if (this.entries.length > 2 * KEPT) this.entries.splice(0, KEPT);
    return entry;
  }

  count(operation: string | undefined): number {
    return operation === undefined ? this.#total : (this.#counts.get(operation) ?? 0);
  }

  reset(): void {
    this.entries.length = 0;
    this.#counts.clear();
    this.#total = 0;
  }
}
