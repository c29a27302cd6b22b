import { createLeaseBroker, createTaskClient, isTerminal } from '@leasehold/core';
import type { BrokerDriver, LeaseBroker, LedgerDriver, TaskClient, TaskRecord } from '@leasehold/core';
import {
  memoryBroker,
  memoryLedger,
  memoryQueue,
  memoryTable,
  type MemoryQueue,
  type MemoryTable,
} from '@leasehold/core/memory';
import { InjectedError } from '@leasehold/core/testing';
import { createWorker, type TaskContext, type Worker } from '@leasehold/worker';
import { Process, running } from '../../packages/worker/src/testing/process.ts';
import { Receiver } from '../../packages/worker/test/receiver.ts';
import { jobs, type Bench } from './jobs.ts';
import type { Trace } from './trace.ts';
import type { Link, Plan } from './plan.ts';
import { Rules } from './rules.ts';
import { Seeded } from './seeded.ts';
import { SimClock } from './sim-clock.ts';
import { Wire } from './wire.ts';

/** One process: whoever runs in a slot now. */
export interface Host {
  readonly name: string;
  readonly slot: number;
  readonly process: Process;
  readonly worker: Worker;
  readonly contexts: Set<TaskContext>;
  stopped: boolean;
}

/** Broker, ledger and receiver on one clock, and the processes of a plan. */
export class SimWorld {
  readonly clock: SimClock = new SimClock();
  readonly queue: MemoryQueue = memoryQueue();
  readonly table: MemoryTable = memoryTable();
  readonly receiver: Receiver = new Receiver(this.clock);
  readonly rules: Rules;
  readonly wire: Wire;
  readonly hosts: Host[] = [];
  readonly client: TaskClient;
  readonly producer: LeaseBroker;
  /** The tasks that were asked for. */
  readonly expected: Set<string> = new Set();
  readonly trace: Trace;
  readonly plan: Plan;
  /** Stands for the network where a request arrives: it is never killed. */
  readonly #arrival: Process;
  readonly #ids = new Map<string, string>();
  #started = 0;

  constructor(plan: Plan, trace: Trace) {
    this.plan = plan;
    this.trace = trace;
    const note = (text: () => string): void => trace.note(this.clock.monotonic(), text);
    // The store's time, which follows the monotonic clock.
    this.rules = new Rules(() => this.clock.wall(), note);
    this.wire = new Wire({ clock: this.clock, random: new Seeded(plan.seed + 1), plan, note });
    this.#arrival = new Process('arrival', this.clock);
    const ledger = this.rules.store(this.#ledger(), false);
    this.producer = createLeaseBroker({ driver: this.#broker(), ledger, clock: this.clock });
    this.client = createTaskClient({ broker: this.producer, ledger, clock: this.clock });
  }

  record(taskId: string): TaskRecord | undefined {
    return this.rules.records.get(taskId);
  }

  /** Starts a process in a slot. */
  start(slot: number): Host {
    const name = `p${slot}.${++this.#started}`;
    const process = new Process(name, this.clock);
    process.clock.stepWall(this.plan.skewMs[slot] ?? 0);
    const contexts = new Set<TaskContext>();
    const broker = createLeaseBroker({
      driver: this.#brokerOf(process, slot),
      ledger: this.#ledgerOf(process, slot),
      clock: process.clock,
    });
    const bench: Bench = {
      clock: process.clock,
      make: (call) =>
        this.#over(process, slot, 'receiver', `make ${call.scope} token ${call.fence}`, call.signal, () =>
          this.receiver.make('guarded', call, this.#arrival),
        ),
      find: (call) =>
        this.#over(process, slot, 'receiver', `find ${call.scope} token ${call.fence}`, call.signal, () =>
          this.receiver.find('guarded', call, this.#arrival),
        ),
      exists: (key) => this.receiver.made.some((made) => made.key === key),
      record: (taskId) => this.record(taskId),
      require: (holds, what) => this.rules.require(holds, `${what} (${name})`),
      die: () => {
        process.kill();
        this.clock.timer(500, () => void (this.inSlot(slot) ?? this.start(slot)));
        return new Promise<never>(() => undefined);
      },
      began: (ctx) => void contexts.add(ctx),
    };
    const worker = running.run(process, () =>
      createWorker({
        broker,
        tasks: jobs(bench, [...new Set(this.plan.tasks.map(({ kind }) => kind))]),
        concurrency: 2,
        drain: 5_000,
        abortGrace: 1_000,
        signals: false,
        service: name,
        logger: { warn: () => undefined },
      }),
    );
    const host: Host = { name, slot, process, worker, contexts, stopped: false };
    this.trace.note(this.clock.monotonic(), () => `${name} starts`);
    running.run(process, () => void worker.run().then(() => (host.stopped = true)));
    this.hosts.push(host);
    this.#hostOf.set(process, host);
    return host;
  }

  readonly #hostOf = new Map<Process, Host>();

  /** What the look endpoint's callers use: the global `fetch` while the simulation runs. */
  readonly fetch = async (_url: unknown, init?: RequestInit): Promise<Response> => {
    const host = this.#hostOf.get(running.getStore() as Process);
    if (!host) throw new Error('fetch outside of a process');
    const signal = init?.signal ?? new AbortController().signal;
    return this.#over(host.process, host.slot, 'receiver', 'look', signal, () =>
      running.run(this.#arrival, () => this.receiver.fetch(_url, init)),
    );
  };

  /** Whoever lives in a slot. */
  inSlot(slot: number): Host | undefined {
    return this.hosts.findLast((host) => host.slot === slot && host.process.alive && !host.stopped);
  }

  #ledger(): LedgerDriver {
    return memoryLedger({ table: this.table, clock: this.clock, clockErrorMs: this.plan.clockErrorMs });
  }

  #broker(): BrokerDriver {
    const { staleHandle, releaseDelayMs } = this.plan;
    return memoryBroker({ queue: this.queue, clock: this.clock, staleHandle, releaseDelayMs });
  }

  #ledgerOf(process: Process, slot: number): LedgerDriver {
    const plain = this.#ledger();
    const store = this.rules.store(plain, true);
    return {
      ...plain,
      classify: (error) => (error instanceof InjectedError ? error.code : plain.classify(error)),
      put: async (next, lease, expect, signal) => {
        this.rules.sending(process.name, next, expect);
        const what = `put ${next.taskId} v${next.version} ${next.state}`;
        const outcome = await this.#through(process, slot, 'ledger', 'put', what, signal, (inner) =>
          store.put(next, lease, expect, inner),
        );
        // An answer that comes after the call was given up is dropped by core: nobody was told.
        if (!signal.aborted) this.rules.answered(process.name, next, expect, outcome);
        return outcome;
      },
      get: (taskId, signal) =>
        this.#through(process, slot, 'ledger', 'get', `get ${taskId}`, signal, (inner) => store.get(taskId, inner)),
    };
  }

  #brokerOf(process: Process, slot: number): BrokerDriver {
    const plain = this.#broker();
    const over = <Answer>(
      method: string,
      signal: AbortSignal,
      call: (signal: AbortSignal) => Promise<Answer>,
    ): Promise<Answer> => this.#through(process, slot, 'broker', method, method, signal, call);
    const judged = async <Answer>(work: Promise<Answer>): Promise<Answer> => {
      const answer = await work;
      this.nothingLost();
      return answer;
    };
    return {
      ...plain,
      classify: (error) => (error instanceof InjectedError ? error.code : plain.classify(error)),
      send: (messages, signal) => over('send', signal, (inner) => plain.send(messages, inner)),
      receive: (ask, signal) => over('receive', signal, (inner) => plain.receive(ask, inner)),
      extend: (handles, ms, signal) => over('extend', signal, (inner) => plain.extend(handles, ms, inner)),
      complete: (handles, signal) => over('complete', signal, (inner) => judged(plain.complete(handles, inner))),
      release: (handles, ms, signal) => over('release', signal, (inner) => plain.release(handles, ms, inner)),
      reject: (handle, why, signal) => over('reject', signal, (inner) => judged(plain.reject(handle, why, inner))),
    };
  }

  /** A call of a process that its own code bounds in time. */
  #through<Answer>(
    process: Process,
    slot: number,
    link: Link,
    method: string,
    what: string,
    signal: AbortSignal,
    call: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    this.trace.note(this.clock.monotonic(), () => `${process.name} ${link}: ${what}`);
    return process.outside(
      what,
      () => this.wire.carry({ slot, link, method }, call, signal),
      () => this.wire.strike(slot, link),
    );
  }

  /** A call of a handler to the receiver: it ends when its signal aborts, and what is on its way goes on. */
  #over<Answer>(
    process: Process,
    slot: number,
    link: Link,
    what: string,
    signal: AbortSignal,
    call: () => Promise<Answer>,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const stop = (): void => reject(signal.reason as Error);
      if (signal.aborted) return stop();
      signal.addEventListener('abort', stop, { once: true });
      this.#through(process, slot, link, what, what, signal, call)
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', stop));
    });
  }

  /** I5: each task has a message, or a record that needs none. Judged after everything that takes a message away. */
  nothingLost(): void {
    for (const { id, kind } of this.plan.tasks) {
      const parent = kind === 'follow-up' ? this.record(id) : undefined;
      if (parent?.state === 'settled' && !parent.next) this.expected.add(`${id}:next:0`);
    }
    const { messages, deadLetters } = this.queue;
    const there = new Set(messages.map((message) => this.#taskOf(message)));
    const dead = new Set(deadLetters.map((message) => this.#taskOf(message)));
    for (const taskId of this.expected) {
      const record = this.record(taskId);
      // What is settled has its follow-ups still to send.
      const due = record?.state === 'settled' && record.next ? undefined : record;
      if (
        there.has(taskId) ||
        dead.has(taskId) ||
        due?.parked ||
        (due && isTerminal(due.state) && due.state !== 'dead_lettered')
      )
        continue;
      this.rules.require(false, `I5: ${taskId} is ${record?.state ?? 'not recorded'}, and its message is gone`);
    }
  }

  /** Nobody believes to hold what the ledger has given to another, or to hold it longer than the ledger says. */
  honest(): void {
    if (!this.#anyRunning()) return;
    const now = this.clock.wall();
    for (const host of this.hosts) {
      if (!host.process.alive || host.stopped) continue;
      for (const { taskId, remainingMs } of host.worker.current) {
        if (remainingMs <= 0 || this.rules.gaveUp.has(`${host.worker.owner} ${taskId}`)) continue;
        const record = this.record(taskId);
        if (record?.state !== 'running') continue;
        const mine = record.leaseOwner === host.worker.owner;
        this.rules.require(
          mine,
          `${host.name} counts on ${taskId} for ${Math.round(remainingMs)} ms more, and another owner has it`,
        );
        if (mine)
          this.rules.require(
            (record.leaseExpiresAt ?? 0) + 2 >= now + remainingMs,
            `${host.name} counts on ${taskId} for longer than the ledger says`,
          );
      }
    }
  }

  #anyRunning(): boolean {
    for (const { state } of this.rules.records.values()) if (state === 'running') return true;
    return false;
  }

  #taskOf({
    messageId,
    attributes,
    body,
  }: {
    messageId: string;
    attributes: Readonly<Record<string, string>>;
    body: Uint8Array;
  }): string {
    let id = this.#ids.get(messageId);
    if (id === undefined) {
      id = attributes['leaseholdtaskid'] ?? (JSON.parse(new TextDecoder().decode(body)) as { id: string }).id;
      this.#ids.set(messageId, id);
    }
    return id;
  }
}
