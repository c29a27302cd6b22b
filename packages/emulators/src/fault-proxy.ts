import type { LoggedCall } from './call-log.ts';
import type { ProxyRequest } from './exchange.ts';
import type { Fault, FaultWhen, PlannedFault } from './fault-plan.ts';
import type { EmulatorTime } from './timetable.ts';

/** Stands between clients and an HTTP server. Without a planned fault, requests and answers pass unchanged. */
export interface FaultProxy {
  /** What clients use. */
  readonly endpoint: string;
  /** The server behind it: what a client uses that no fault shall befall. */
  readonly target: string;
  /**
   * Plans a fault for calls of one operation (`'*'` = any); of several that fit a call, the one planned first that is not used up
   * is taken.
   *
   * @throws EmulatorError for an operation that the service does not have.
   * @example
   * const lost = faults.on('DeleteMessageBatch', kinds.dropAnswer(), { nth: 2 });
   * // ... after the test: lost.hits is 1, or the fault was never met
   */
  on(operation: string, fault: Fault, when?: FaultWhen): PlannedFault;
  /** How many calls of an operation (of all, without one) came in so far. */
  calls(operation?: string): number;
  /** The last calls, oldest first: at least the last 10,000. */
  readonly log: readonly LoggedCall[];
  /**
   * The network is cut: connections end and no new one is accepted (`reset`), or everything sent is lost and nothing says so (`silent`).
   * What the server has got already is applied.
   */
  cut(how?: 'reset' | 'silent'): void;
  /** The network is back. Connections from the time of a silent cut end now. */
  restore(): void;
  /** Existing connections end, new ones are accepted. */
  dropConnections(): void;
  /** From now on the `Date` of answers is ahead of the server's time by so many milliseconds. */
  serviceClock(offsetMs: number): void;
  /** Forgets planned faults, log and counts; the network is whole and the service's clock right. */
  reset(): void;
  /** Ends every connection. What hangs is given up. */
  close(): Promise<void>;
}

/** How to stand before a server. */
export interface FaultProxyOptions {
  /** On 127.0.0.1; default a free one. */
  readonly port?: number;
  /** Delays of faults, and the `Date` of answers, go by it; without it by the machine's clock. A test that moves it calls `settle` of the emulator. */
  readonly time?: EmulatorTime;
  /** The name of a request's operation; default what follows the dot of `X-Amz-Target`, else method and path. */
  readonly operationOf?: (request: Omit<ProxyRequest, 'operation'>) => string;
  /** The names that there are; `on` refuses another, which would never be met. Default: any. */
  readonly operations?: readonly string[];
}
