import type { ProxyAnswer, ProxyRequest } from './exchange.ts';
import type { FaultedCall } from './fault-plan.ts';
import type { Timetable } from './timetable.ts';

/** Counts what is at the proxy, and lets faults wait. */
export class HeldCalls {
  readonly #timetable: Timetable;
  #open = 0;
  #held = 0;
  #activity = 0;

  constructor(timetable: Timetable) {
    this.#timetable = timetable;
  }

  /** Requests here that neither have their answer nor are held by a fault. */
  get busy(): number {
    return this.#open - this.#held;
  }

  /** Requests that a fault holds. */
  get held(): number {
    return this.#held;
  }

  /** Changes whenever a request comes, goes, or is held. */
  get activity(): number {
    return this.#activity;
  }

  /** A request came (1), or has its answer (-1). */
  count(open: 1 | -1): void {
    this.#open += open;
    this.#activity++;
  }

  /** A call as a fault sees it. */
  call(request: ProxyRequest, signal: AbortSignal, send: (request: ProxyRequest) => Promise<ProxyAnswer>): FaultedCall {
    return {
      request,
      signal,
      apply: (given = request) => send(given),
      sleep: (ms, until) => this.#hold(this.#sleep(ms, until)),
      hang: () => this.hang(signal),
      later: (afterMs, work) => {
        this.#timetable.after(afterMs, () => {
          this.count(1);
          const done = (): void => this.count(-1);
          void work().then(done, done);
        });
      },
    };
  }

  /** Until the client has gone. */
  hang(signal: AbortSignal): Promise<never> {
    return this.#hold(
      new Promise<never>((_, reject) => {
        const stop = (): void => reject(signal.reason as Error);
        if (signal.aborted) stop();
        else signal.addEventListener('abort', stop, { once: true });
      }),
    );
  }

  async #hold<Value>(wait: Promise<Value>): Promise<Value> {
    this.#held++;
    this.#activity++;
    try {
      return await wait;
    } finally {
      this.#held--;
      this.#activity++;
    }
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        cancel();
        reject(signal?.reason as Error);
      };
      const cancel = this.#timetable.after(ms, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }
}
