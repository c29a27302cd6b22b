import { createLeaseBroker, createTaskClient, subscribe } from '@leasehold/core';
import type {
  BrokerDriver,
  Clock,
  ContentStore,
  FollowUp,
  LeaseBroker,
  LeaseholdEvent,
  LedgerDriver,
  TaskClient,
  TaskRecord,
  Timer,
  VirtualClock,
} from '@leasehold/core';
import {
  memoryBroker,
  memoryLedger,
  memoryQueue,
  memoryTable,
  type MemoryQueue,
  type MemoryTable,
} from '@leasehold/core/memory';
import { faultPlan, faultyBroker, faultyLedger, type Fault } from '@leasehold/core/testing';
import type { AnyTask } from '../worker-options.ts';
import { createWorker, type Worker } from '../worker.ts';
import { Activity } from './activity.ts';
import { writeOf, type OutsideCall, type StepName } from './call-point.ts';
import { gateFetch, realFetch, takeFetch } from './fetch-gate.ts';
import { instrument, type CallLabel } from './instrument.ts';
import { Invariants } from './invariants.ts';
import { Process, running, type Strike } from './process.ts';
import type { ReceiverDouble } from './receiver-double.ts';
import type { DeclaredEffect } from './scene.ts';

/** A value that a handler returned, or an error that it threw. */
export interface HandlerEnd<Field extends 'value' | 'error'> {
  readonly worker: string;
  readonly attempt: number;
  readonly token: number;
  readonly end: { readonly [Key in Field]: unknown };
}

/** One worker of a world, in a process of its own. */
export interface Host {
  readonly name: string;
  readonly process: Process;
  readonly worker: Worker;
  readonly activity: Activity;
}

type Call = { -readonly [Field in keyof OutsideCall]: OutsideCall[Field] };

const END: Strike = { fate: 'killed before', forMs: 0 };
const STRUCK = { 'killed before': 'crash', 'killed after': 'crash', 'answer lost': 'lost-answer' } as const;

/** A task that goes round in circles would not end by itself. */
const MOST_CALLS = 3_000;

/** A queue and a ledger in memory on a virtual clock, and workers that share them. */
export class TaskWorld {
  readonly clock: Clock;
  readonly queue: MemoryQueue = memoryQueue();
  readonly table: MemoryTable = memoryTable();
  readonly invariants: Invariants = new Invariants();
  readonly events: LeaseholdEvent[] = [];
  readonly calls: Call[] = [];
  readonly hosts: Host[] = [];
  readonly client: TaskClient;
  readonly declared: Map<string, DeclaredEffect> = new Map();
  readonly returned: HandlerEnd<'value'>[] = [];
  readonly thrown: HandlerEnd<'error'>[] = [];
  readonly rejected: { readonly worker: string; readonly token: number; readonly result: unknown }[] = [];
  followUps: readonly FollowUp[] = [];
  readonly #parts: WorldParts;
  readonly #startedAt: number;
  readonly #leaving: (() => void)[] = [];
  readonly #own = new Set<Process>();
  readonly #timers = new Set<Timer>();

  constructor(parts: WorldParts) {
    this.#parts = parts;
    this.#startedAt = parts.clock.monotonic();
    this.clock = this.#counting(parts.clock);
    const ledger = this.invariants.watch(memoryLedger({ table: this.table, clock: this.clock }), 'client');
    const broker = createLeaseBroker({
      driver: memoryBroker({ queue: this.queue, clock: this.clock }),
      ledger,
      clock: this.clock,
    });
    this.client = createTaskClient({ broker, ledger, clock: this.clock });
    this.#leaving.push(
      takeFetch(),
      subscribe((event) => {
        const process = running.getStore();
        if (process && this.#own.has(process)) this.events.push(event);
      }),
    );
  }

  /** Timers on the clock that somebody else set: the handler's, who was given the clock. */
  get othersTimers(): number {
    return this.#parts.clock.pending - this.#timers.size;
  }

  /** True while code of the user's runs in a process that is neither dead nor paused. */
  get busy(): boolean {
    return this.othersTimers === 0 && this.hosts.some((host) => !idle(host) && host.activity.busy);
  }

  /** True when the task has made more calls than any task should. */
  get endless(): boolean {
    return this.calls.length > MOST_CALLS;
  }

  get turns(): number {
    return this.hosts.reduce((sum, { activity }) => sum + activity.turns, 0);
  }

  /** Starts a worker. */
  host(name: string, task: AnyTask): Host {
    const process = new Process(name, this.clock);
    const activity = new Activity();
    this.#own.add(process);
    const broker = this.#broker(process);
    const stage = {
      worker: name,
      activity,
      doubles: this.#parts.doubles,
      gate: <Answer>(label: CallLabel, call: () => Promise<Answer>): Promise<Answer> =>
        this.#outside(process, label, call),
      declared: (effect: DeclaredEffect): void => void this.declared.set(effect.name, effect),
      returned: (ctx: { readonly attempt: number; readonly fence: number }, value: unknown): void =>
        void this.returned.push({ worker: name, attempt: ctx.attempt, token: ctx.fence, end: { value } }),
      threw: (ctx: { readonly attempt: number; readonly fence: number }, error: unknown): void =>
        void this.thrown.push({ worker: name, attempt: ctx.attempt, token: ctx.fence, end: { error } }),
    };
    gateFetch(process, (input, init) => this.#fetch(process, activity, input, init));
    const worker = running.run(process, () =>
      createWorker({
        broker,
        tasks: [instrument(task, stage)],
        concurrency: 1,
        signals: false,
        service: name,
        logger: { warn: () => undefined },
        onRejected: ({ token, result }) => void this.rejected.push({ worker: name, token, result }),
        ...(this.#parts.contentStore && { contentStore: this.#parts.contentStore }),
      }),
    );
    running.run(process, () => void worker.run());
    const host = { name, process, worker, activity };
    this.hosts.push(host);
    return host;
  }

  record(taskId: string): TaskRecord | undefined {
    return this.table.records.find((record) => record.taskId === taskId);
  }

  /** Abandons everything. */
  leave(): void {
    for (const { process } of this.hosts) process.kill();
    for (const leave of this.#leaving.splice(0)) leave();
    for (const timer of this.#timers) timer.cancel();
  }

  #broker(process: Process): LeaseBroker {
    const { clock } = this;
    const gate =
      (label: (method: string, args: readonly unknown[]) => CallLabel): Fault =>
      (call) =>
        this.#outside(process, label(call.method, call.args), () => call.apply());
    const brokerGate = faultPlan<BrokerDriver>();
    for (const method of ['send', 'receive', 'extend', 'complete', 'release', 'reject'] as const) {
      brokerGate.on(
        method,
        gate((name) => ({ what: `broker: ${name}`, steps: [] })),
        { times: Infinity },
      );
    }
    const ledgerGate = faultPlan<LedgerDriver>();
    const labelOf = (method: string, args: readonly unknown[]): CallLabel => {
      if (method === 'get') return { what: 'ledger: read', steps: [] };
      const next = args[0] as TaskRecord;
      const { what, step, name } = writeOf(this.record(next.taskId), next);
      if (step === 'settle') this.followUps = next.next ?? [];
      return { what: `ledger: ${what}`, steps: step ? [step] : [], ...(name !== undefined && { name }) };
    };
    for (const method of ['put', 'get'] as const) ledgerGate.on(method, gate(labelOf), { times: Infinity });
    const watched = this.invariants.watch(memoryLedger({ table: this.table, clock }), process.name);
    return createLeaseBroker({
      driver: faultyBroker(memoryBroker({ queue: this.queue, clock }), brokerGate, clock),
      ledger: faultyLedger(watched, ledgerGate, clock),
      clock: process.clock,
    });
  }

  async #fetch(
    process: Process,
    activity: Activity,
    input: Parameters<typeof fetch>[0],
    init: RequestInit | undefined,
  ): Promise<Response> {
    const request = new Request(input, init);
    const send = this.#parts.fetch ?? realFetch;
    const look = [...this.declared.values()].find(({ lookUrl }) => lookUrl === request.url);
    const double = look && Object.hasOwn(this.#parts.doubles, look.name) ? this.#parts.doubles[look.name] : undefined;
    // A look is sent by the effect, for which the handler only waits: time stands still for that too.
    const call = (): Promise<Response> =>
      activity.callback(`${request.method} ${request.url}`, () => (double ?? { fetch: send }).fetch(request));
    if (!look) return this.#outside(process, { what: `${request.method} ${request.url}`, steps: [] }, call);
    return this.#outside(process, { what: `look ${look.name}`, steps: ['verify'], name: look.name }, call);
  }

  async #outside<Answer>(
    process: Process,
    { what, steps, name }: CallLabel,
    call: () => Promise<Answer>,
  ): Promise<Answer> {
    const entry: Call = {
      index: 0,
      worker: process.name,
      what,
      at: 0,
      ended: 'never',
      ...(steps[0] && { step: steps[0] }),
      ...(name !== undefined && { name }),
    };
    try {
      const answer = await process.outside(what, call, () => {
        this.calls.push(entry);
        entry.index = process.calls.length;
        entry.at = this.clock.monotonic() - this.#startedAt;
        // It may never leave the turn of the event loop, so that this is the only place to stop it.
        const strike = this.endless ? END : this.#parts.befalls(entry, steps);
        if (strike) entry.struck = strike.fate in STRUCK ? STRUCK[strike.fate as keyof typeof STRUCK] : 'pause';
        return strike;
      });
      entry.ended = 'answered';
      return answer;
    } catch (error) {
      entry.ended = 'failed';
      throw error;
    }
  }

  /** The same clock; knows the timers of the world and its processes. */
  #counting(clock: VirtualClock): Clock {
    return {
      wall: () => clock.wall(),
      monotonic: () => clock.monotonic(),
      timer: (delayMs, fire) => {
        const inner = clock.timer(delayMs, () => {
          this.#timers.delete(timer);
          fire();
        });
        const timer: Timer = {
          cancel: () => {
            this.#timers.delete(timer);
            inner.cancel();
          },
        };
        this.#timers.add(timer);
        return timer;
      },
    };
  }
}

/** What a world is made of. */
export interface WorldParts {
  readonly clock: VirtualClock;
  readonly doubles: Readonly<Record<string, ReceiverDouble>>;
  readonly fetch?: typeof globalThis.fetch;
  readonly contentStore?: ContentStore;
  /** What befalls a call, asked when it leaves. */
  readonly befalls: (call: OutsideCall, steps: readonly StepName[]) => Strike | undefined;
}

/** True when nothing of a process moves by itself. */
export function idle({ process }: Host): boolean {
  return !process.alive || process.standing;
}
