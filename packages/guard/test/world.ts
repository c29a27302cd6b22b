import { virtualClock, type Clock, type GuardStore, type Timer, type VirtualClock } from '@leasehold/core';
import { memoryGuard, type MemoryGuard } from '@leasehold/core/memory';
import { guard, NothingHappened, type FencedContext } from '@leasehold/guard';
import { call, HOLD, latch, type Latch, lookup, seen, settled } from './receiver.ts';

/** What a handler does. */
export type Behaviour =
  | 'answers'
  | 'throws before'
  | 'throws after'
  | 'fails after'
  | 'nothing'
  | 'acts, then waits'
  | 'waits, then acts';

/** Something that happens to the receiver. `step` is the distance of a token from the highest one used so far. */
export type Operation =
  | {
      readonly do: 'request';
      readonly at: number;
      readonly step: number;
      readonly key: string;
      readonly body: string;
      readonly handler: Behaviour;
    }
  | { readonly do: 'look'; readonly at: number; readonly step: number; readonly key: string }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'release' }
  | { readonly do: 'crash' | 'freeze' | 'thaw'; readonly at: number }
  | {
      readonly do: 'fault';
      readonly at: number;
      readonly method: 'begin' | 'extend' | 'finish' | 'resolve';
      readonly applied: boolean;
      readonly times: number;
    };

/** A clock whose timers die with their process and wait while it is frozen. */
interface MortalClock extends Clock {
  freeze(): void;
  thaw(): void;
  kill(): void;
}

function mortal(clock: VirtualClock): MortalClock {
  const waiting = new Set<() => void>();
  const timers = new Set<Timer>();
  let frozen = false;
  return {
    wall: () => clock.wall(),
    monotonic: () => clock.monotonic(),
    timer(delayMs, fire) {
      const ring = (): void => {
        if (frozen) waiting.add(ring);
        else fire();
      };
      const inner = clock.timer(delayMs, ring);
      const timer = {
        cancel(): void {
          waiting.delete(ring);
          inner.cancel();
        },
      };
      timers.add(timer);
      return timer;
    },
    freeze() {
      frozen = true;
    },
    thaw() {
      frozen = false;
      const due = [...waiting];
      waiting.clear();
      for (const ring of due) ring();
    },
    kill() {
      for (const timer of timers) timer.cancel();
    },
  };
}

/** One process of the receiver. */
interface Process {
  readonly clock: MortalClock;
  readonly handle: (request: Request) => Promise<Response>;
  /** Keys whose handler here has not had its effect yet, one entry per handler. */
  readonly mayAct: Set<{ readonly key: string }>;
  readonly unanswered: Set<object>;
  alive: boolean;
  /** Opens when the process is not frozen. */
  running: Latch;
}

/**
 * A receiver of two processes on one store, with a database of its own in which effects are counted. It notes whatever must not happen.
 * Its `resolve` hook tells the truth: absent only if there is no effect and no handler that may still make one.
 */
export class World {
  readonly violations: string[] = [];
  readonly tally = new Map<string, number>();
  readonly #clock = virtualClock();
  readonly #store: MemoryGuard = memoryGuard({ clock: this.#clock });
  readonly #effects = new Map<string, number>();
  /** Keys that must not run: they did, and were neither freed nor resolved as absent. */
  readonly #spent = new Set<string>();
  readonly #told = new Map<string, string>();
  #faults: Extract<Operation, { readonly do: 'fault' }>[] = [];
  #highest = 0;
  #runs = 0;
  readonly #everRan = new Set<string>();
  #crashed = false;
  #finishFaults = 0;
  #release = latch();
  readonly #processes: Process[] = [this.#start(0), this.#start(1)];

  async apply(next: Operation): Promise<void> {
    if (next.do === 'pass') await this.#clock.advance(next.ms);
    else if (next.do === 'release') this.#releaseAll();
    else if (next.do === 'fault') {
      if (next.method === 'finish') this.#finishFaults += next.times;
      this.#faults.push(...Array.from({ length: next.times }, () => ({ ...next })));
    } else this.#applyAt(next, this.#processes[next.at] as Process);
    await settled();
  }

  /** Lets everything come to its end, and checks that it does. */
  async end(): Promise<void> {
    this.#faults = [];
    for (const process of this.#processes) this.#thaw(process);
    for (let round = 0; round < 3; round++) {
      this.#releaseAll();
      await this.#clock.advance(2 * HOLD);
    }
    this.#releaseAll();
    await settled();
    for (const process of this.#processes) this.#require(process.unanswered.size === 0, 'a request was never answered');
    this.#require(this.#clock.pending === 0, 'a timer was left');
    // A hold that nobody knows of is given up, six times if need be, unless its process dies.
    const doubted = this.#store.state.keys.filter(({ state }) => state === 'in-doubt');
    const phantom = doubted.some(({ key }) => !this.#everRan.has(key));
    if (!this.#crashed && this.#finishFaults < 6) this.#require(!phantom, 'a key is in doubt that never ran');
  }

  #applyAt(
    next: Extract<Operation, { readonly do: 'request' | 'look' | 'crash' | 'freeze' | 'thaw' }>,
    process: Process,
  ): void {
    if (next.do === 'thaw') this.#thaw(process);
    else if (next.do === 'freeze') {
      // Frozen twice is frozen once: what waits, waits on one latch.
      this.#thaw(process);
      process.clock.freeze();
      process.running = latch();
    } else if (next.do === 'crash') {
      process.alive = false;
      this.#crashed = true;
      process.clock.kill();
      this.#processes[next.at] = this.#start(next.at);
    } else if (next.do === 'request') {
      const token = Math.max(1, this.#highest + next.step);
      const request = call({ token, key: next.key, body: next.body });
      request.headers.set('x-handler', next.handler);
      this.#expect(process, process.handle(request), (answer) => this.#hear(next.key, answer));
    } else if (next.do === 'look') {
      const fence = Math.max(1, this.#highest + next.step);
      const asked = process.handle(lookup({ scope: 'task-1', fence, key: next.key }));
      this.#expect(process, asked, (answer) => this.#hearLook(next.key, answer));
    }
  }

  #start(at: number): Process {
    const process: Process = {
      clock: mortal(this.#clock),
      handle: (request) => handle(request),
      mayAct: new Set(),
      unanswered: new Set(),
      alive: true,
      running: latch(),
    };
    process.running.open();
    const resolve = ({ key }: { readonly key: string }): Response | 'absent' | 'unknown' => {
      const run = this.#effects.get(key);
      if (run !== undefined) return new Response(String(run));
      if (this.#processes.some(({ mayAct }) => [...mayAct].some((pending) => pending.key === key))) return 'unknown';
      this.#count('resolved absent');
      this.#spent.delete(key);
      return 'absent';
    };
    const options = {
      mode: 'enforce',
      require: 'fence+key',
      retention: '30d',
      hold: HOLD,
      clock: process.clock,
      resolve,
    } as const;
    const handle = guard(this.#faulty(at, process), options, (request, context) =>
      this.#handler(process, request, context),
    );
    return process;
  }

  async #handler(process: Process, request: Request, { key, token }: FencedContext): Promise<Response> {
    this.#count('ran');
    this.#require(!this.#spent.has(key), `${key} ran again`);
    this.#require(token === this.#highest, `ran for token ${token} after ${this.#highest} was seen`);
    this.#require(!this.#told.has(key), `${key} ran after its success was told`);
    this.#spent.add(key);
    this.#everRan.add(key);
    const run = ++this.#runs;
    const behaviour = request.headers.get('x-handler') as Behaviour;
    const pending = { key };
    process.mayAct.add(pending);
    if (behaviour === 'waits, then acts') await this.#release.promise;
    await this.#goOn(process);
    process.mayAct.delete(pending);
    if (behaviour === 'throws before') throw new Error('as told');
    if (behaviour === 'nothing') {
      this.#spent.delete(key);
      throw new NothingHappened();
    }
    this.#require(!this.#effects.has(key), `${key} happened twice`);
    this.#effects.set(key, run);
    if (behaviour === 'acts, then waits') await this.#release.promise;
    await this.#goOn(process);
    if (behaviour === 'throws after') throw new Error('as told');
    return new Response(String(run), { status: behaviour === 'fails after' ? 500 : 200 });
  }

  /** The handlers of a frozen process wait, those of a dead one never go on. */
  async #goOn(process: Process): Promise<void> {
    await process.running.promise;
    if (!process.alive) await new Promise<never>(() => undefined);
  }

  #faulty(at: number, process: Process): GuardStore {
    const store = this.#store;
    const wrap =
      <Args extends unknown[], Answer>(method: string, inner: (...args: Args) => Promise<Answer>) =>
      async (...args: Args): Promise<Answer> => {
        if (!process.alive) return new Promise<never>(() => undefined);
        const found = this.#faults.find((fault) => fault.at === at && fault.method === method);
        this.#faults = this.#faults.filter((fault) => fault !== found);
        if (found && !found.applied) throw new Error('down');
        const answer = await inner(...args);
        if (found) throw new Error('cut off');
        return answer;
      };
    return {
      ...store,
      begin: wrap('begin', (ask, signal) => (this.#see(ask.token), store.begin(ask, signal))),
      look: wrap('look', (ask, signal) => (this.#see(ask.token), store.look(ask, signal))),
      extend: wrap('extend', store.extend),
      finish: wrap('finish', store.finish),
      resolve: wrap('resolve', store.resolve),
    };
  }

  /** A token reaches the store. */
  #see(token: number | undefined): void {
    this.#highest = Math.max(this.#highest, token ?? 0);
  }

  #expect(process: Process, answer: Promise<Response>, hear: (answer: Response) => Promise<void>): void {
    const waiting = {};
    process.unanswered.add(waiting);
    const failed = (error: unknown): void =>
      this.#require(error instanceof Error && error.message === 'as told', `rejected with ${String(error)}`);
    void answer
      .then(hear)
      .catch(failed)
      .finally(() => process.unanswered.delete(waiting));
  }

  async #hear(key: string, response: Response): Promise<void> {
    const { status, body, problem, replayed } = await seen(response);
    this.#count(replayed ? 'replayed' : (problem ?? String(status)));
    if (status !== 200) {
      this.#require([409, 422, 500, 503].includes(status), `answered ${status}`);
      return;
    }
    this.#require(body === (this.#told.get(key) ?? body), `${key} was told two outcomes`);
    this.#require(body === String(this.#effects.get(key)), `${key} was told an outcome that is none`);
    this.#told.set(key, body);
  }

  async #hearLook(key: string, response: Response): Promise<void> {
    const { status, json } = await seen(response);
    this.#count(`looked ${String(json['state'])}`);
    this.#require(status === 200 || status === 503, `look answered ${status}`);
    if (json['state'] === 'absent') this.#require(!this.#effects.has(key), `${key} was absent although it happened`);
    if (json['state'] !== 'done') return;
    const { body } = json['response'] as { body: string };
    this.#require(body === String(this.#effects.get(key)), `${key} was looked up as an outcome that is none`);
  }

  #thaw(process: Process): void {
    process.clock.thaw();
    process.running.open();
  }

  #releaseAll(): void {
    this.#release.open();
    this.#release = latch();
  }

  #require(holds: boolean, otherwise: string): void {
    if (!holds) this.violations.push(otherwise);
  }

  #count(what: string): void {
    this.tally.set(what, (this.tally.get(what) ?? 0) + 1);
  }
}
