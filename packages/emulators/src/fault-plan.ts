import type { ProxyAnswer, ProxyRequest } from './exchange.ts';

/** A fault's answer that is none: the client's connection is closed. */
export const NO_ANSWER: unique symbol = Symbol('no answer');

/** One call at the proxy, as a fault sees it. */
export interface FaultedCall {
  readonly request: ProxyRequest;
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
  /** Makes the call at the server: the request as it came, or another. Goes on when the client leaves. */
  apply(request?: ProxyRequest): Promise<ProxyAnswer>;
  /** Waits by the proxy's time; with a signal, rejects when that aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Never resolves; rejects when the client has gone. */
  hang(): Promise<never>;
  /** Goes on after the client has its answer. */
  later(afterMs: number, work: () => Promise<unknown>): void;
}

/** What befalls a call: it decides whether and when the call is applied, and what the client is told. */
export type Fault = (call: FaultedCall) => Promise<ProxyAnswer | typeof NO_ANSWER>;

/** Which calls a fault befalls. */
export interface FaultWhen {
  /** The how-manieth call from now on, counting those that `when` accepts; default the first. */
  readonly nth?: number;
  /** How many calls in a row; default 1, `Infinity` = all from then on. */
  readonly times?: number;
  /** Only such requests. */
  readonly when?: (request: ProxyRequest) => boolean;
}

/** A fault that was planned. */
export interface PlannedFault {
  /** How many calls it befell so far. */
  readonly hits: number;
  /** No further call. */
  cancel(): void;
}

interface Rule {
  readonly operation: string;
  readonly fault: Fault;
  readonly first: number;
  readonly last: number;
  readonly when: (request: ProxyRequest) => boolean;
  seen: number;
  hits: number;
}

/** A script of faults. The first planned one that applies to a call befalls it. */
export class FaultPlan {
  readonly #rules = new Set<Rule>();

  on(operation: string, fault: Fault, { nth = 1, times = 1, when = () => true }: FaultWhen = {}): PlannedFault {
    const rule: Rule = { operation, fault, first: nth, last: nth + times - 1, when, seen: 0, hits: 0 };
    this.#rules.add(rule);
    return {
      get hits() {
        return rule.hits;
      },
      cancel: () => void this.#rules.delete(rule),
    };
  }

  reset(): void {
    this.#rules.clear();
  }

  /** Every rule counts the calls it would take, even when an earlier one takes them. */
  choose(request: ProxyRequest): Fault | undefined {
    let chosen: Rule | undefined;
    for (const rule of this.#rules) {
      if ((rule.operation !== '*' && rule.operation !== request.operation) || !rule.when(request)) continue;
      rule.seen++;
      if (!chosen && rule.seen >= rule.first && rule.seen <= rule.last) chosen = rule;
    }
    if (chosen) chosen.hits++;
    return chosen?.fault;
  }
}
