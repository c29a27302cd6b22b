import { createLeaseBroker, createTaskClient, isTerminal, subscribe, virtualClock } from '@leasehold/core';
import type {
  BrokerDriver,
  LeaseBroker,
  LeaseholdEvent,
  LedgerDriver,
  TaskClient,
  TaskRecord,
  VirtualClock,
} from '@leasehold/core';
import { faultPlan, faultyBroker, faultyLedger, type Fault } from '@leasehold/core/testing';
import { createWorker, type AnyTask, type Worker, type WorkerOptions } from '@leasehold/worker';
import { Invariants } from '../../packages/worker/src/testing/invariants.ts';
import { Process, running } from '../../packages/worker/src/testing/process.ts';
import { Receiver } from '../../packages/worker/test/receiver.ts';
import { Stores } from './stores.ts';

/** The calls that a worker makes on its two drivers. */
export const BROKER_METHODS = ['send', 'receive', 'extend', 'complete', 'release', 'reject'] as const;
export const LEDGER_METHODS = ['put', 'get'] as const;

/** Lies between a process and its drivers; sees each call before it leaves. */
export type Gate = (driver: 'broker' | 'ledger', call: Parameters<Fault>[0], own: Process) => Promise<unknown>;

/** A process with its own drivers on the shared stores. */
export interface Host {
  readonly name: string;
  readonly process: Process;
  work(tasks: readonly AnyTask[], options?: Partial<WorkerOptions>): Worker;
}

/** A write that the ledger accepted. */
export interface Accepted {
  readonly by: string;
  readonly record: TaskRecord;
}

export interface FaultWorldOptions {
  readonly broker: string;
  readonly ledger: string;
  /** What to put around the ledger of every process: a weakness that the invariants have to find. */
  readonly weaken?: (ledger: LedgerDriver) => LedgerDriver;
}

const straight: Gate = (_driver, call, own) => own.outside(call.method, () => call.apply());

/** A broker, a ledger and a guarded receiver on one virtual clock, and processes that share them. */
export class FaultWorld {
  readonly clock: VirtualClock;
  readonly stores: Stores;
  readonly receiver: Receiver;
  readonly invariants: Invariants = new Invariants();
  readonly events: LeaseholdEvent[] = [];
  readonly records: Map<string, TaskRecord> = new Map();
  readonly writes: Accepted[] = [];
  readonly client: TaskClient;
  readonly #producer: LeaseBroker;
  readonly #weaken: (ledger: LedgerDriver) => LedgerDriver;
  readonly #workers: { readonly host: Host; readonly worker: Worker; stopped: boolean }[] = [];
  readonly #unsubscribe: () => void;
  readonly #fetch = globalThis.fetch;

  static async open(options: FaultWorldOptions): Promise<FaultWorld> {
    const clock = virtualClock();
    return new FaultWorld(clock, await Stores.open(clock, options.broker, options.ledger), options);
  }

  private constructor(clock: VirtualClock, stores: Stores, { weaken = (driver) => driver }: FaultWorldOptions) {
    this.clock = clock;
    this.stores = stores;
    this.receiver = new Receiver(clock);
    this.#weaken = weaken;
    const [driver, store] = [this.stores.broker(), this.ledger('client')];
    this.#producer = createLeaseBroker({ driver, ledger: store, clock: this.clock });
    this.client = createTaskClient({ broker: this.#producer, ledger: store, clock: this.clock });
    this.#unsubscribe = subscribe((event) => this.events.push(event));
    globalThis.fetch = this.receiver.fetch;
  }

  /** Starts a process. */
  host(name: string, gate: Gate = straight): Host {
    const own = new Process(name, this.clock);
    const brokerGate = faultPlan<BrokerDriver>();
    for (const method of BROKER_METHODS)
      brokerGate.on(method, (call) => gate('broker', call, own), { times: Infinity });
    const ledgerGate = faultPlan<LedgerDriver>();
    for (const method of LEDGER_METHODS)
      ledgerGate.on(method, (call) => gate('ledger', call, own), { times: Infinity });
    const ledger = faultyLedger(this.ledger(name), ledgerGate, this.clock);
    const driver = faultyBroker(this.stores.broker(), brokerGate, this.clock);
    const broker = createLeaseBroker({ driver, ledger, clock: own.clock });
    const host: Host = {
      name,
      process: own,
      work: (tasks, options = {}) => {
        const logger = { warn: () => undefined };
        const worker = createWorker({ broker, tasks, signals: false, service: name, poll: '5s', logger, ...options });
        const entry = { host, worker, stopped: false };
        this.#workers.push(entry);
        running.run(own, () => void worker.run().then(() => (entry.stopped = true)));
        return worker;
      },
    };
    return host;
  }

  async enqueue(type: string): Promise<string> {
    const [outcome] = await this.during(this.#producer.enqueue([{ type, input: {} }]));
    if (!outcome?.ok) throw new Error(`not enqueued: ${outcome?.message}`);
    return outcome.taskId;
  }

  /** Milliseconds since the world began. */
  get elapsedMs(): number {
    return this.clock.monotonic() - 1_000;
  }

  /** Whether no message is left and every record is terminal. */
  async quiet(): Promise<boolean> {
    const records = [...this.records.values()];
    if (records.length === 0 || !records.every(({ state }) => isTerminal(state))) return false;
    return (await this.stores.left()) === 0;
  }

  /** Fires timer after timer until something holds. Rejects when it does not within `ms`. */
  async until(holds: () => boolean | Promise<boolean>, ms: number, what: string): Promise<void> {
    if (await this.stores.time.until(holds, ms)) return;
    const states = [...this.records.values()].map(({ taskId, state, stage }) => `${taskId} ${state} in ${stage}`);
    throw new Error(`after ${ms} ms: ${what} did not come true (${states.join('; ') || 'no record'})`);
  }

  advance(ms: number): Promise<void> {
    return this.stores.time.advance(ms);
  }

  async during<Result>(work: Promise<Result>): Promise<Result> {
    let ended = false;
    const end = (): void => void (ended = true);
    work.then(end, end);
    await this.until(() => ended, 600_000, 'a call ends');
    return work;
  }

  /** Stops every living worker and waits for the last of them. */
  async stop(): Promise<void> {
    const alive = this.#workers.filter(({ host, stopped }) => host.process.alive && !stopped);
    for (const { host, worker } of alive) running.run(host.process, () => void worker.stop());
    await this.until(() => alive.every(({ stopped }) => stopped), 600_000, 'every worker stops');
    for (const { host } of alive) {
      this.invariants.require(host.process.pending === 0, `I10: ${host.name} left ${host.process.pending} timers`);
    }
  }

  async dispose(): Promise<void> {
    this.#unsubscribe();
    globalThis.fetch = this.#fetch;
    for (const { host } of this.#workers) host.process.kill();
    await this.stores.close();
  }

  /** A ledger driver whose writes are watched under a name. */
  ledger(by: string): LedgerDriver {
    const watched = this.invariants.watch(this.#weaken(this.stores.ledger()), by);
    const noting: LedgerDriver = {
      ...watched,
      put: async (...ask) => {
        const outcome = await watched.put(...ask);
        if (outcome.ok) {
          this.records.set(outcome.record.taskId, outcome.record);
          this.writes.push({ by, record: outcome.record });
        }
        return outcome;
      },
    };
    return noting;
  }
}
