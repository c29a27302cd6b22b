import { afterEach, expect, vi } from 'vitest';
import { createLeaseBroker, createTaskClient, isTerminal, subscribe, virtualClock } from '@leasehold/core';
import type {
  BrokerDriver,
  EventName,
  LeaseBroker,
  LeaseholdEvent,
  LedgerDriver,
  NewTask,
  TaskClient,
  TaskCodec,
  TaskRecord,
  VirtualClock,
} from '@leasehold/core';
import { memoryBroker, memoryLedger, memoryQueue, memoryTable } from '@leasehold/core/memory';
import type { MemoryBrokerOptions, MemoryLedgerOptions, MemoryQueue, MemoryTable } from '@leasehold/core/memory';
import { faultPlan, faultyBroker, faultyLedger, type Fault, type FaultPlan } from '@leasehold/core/testing';
import { createWorker, type AnyTask, type StopReport, type Worker, type WorkerOptions } from '@leasehold/worker';
import { Invariants } from '../src/testing/invariants.ts';
import { Process, running } from '../src/testing/process.ts';
import { Receiver } from './receiver.ts';

/** One process of the world, with its own drivers on the shared state, and what may befall them. */
export interface Host {
  readonly name: string;
  readonly process: Process;
  readonly clock: Process['clock'];
  readonly broker: LeaseBroker;
  readonly ledger: LedgerDriver;
  readonly brokerFaults: FaultPlan<BrokerDriver>;
  readonly ledgerFaults: FaultPlan<LedgerDriver>;
  /** Makes a worker and runs it. */
  work(tasks: readonly AnyTask[], options?: Partial<WorkerOptions>): Running;
}

/** A worker that runs. */
export interface Running {
  readonly worker: Worker;
  readonly host: Host;
  readonly warnings: string[];
  /** Set once `run()` has resolved. */
  readonly report: StopReport | undefined;
}

/** What a world is made of besides the defaults. */
export interface WorldOptions {
  readonly broker?: Omit<MemoryBrokerOptions, 'queue' | 'clock'>;
  readonly ledger?: Omit<MemoryLedgerOptions, 'table' | 'clock'>;
  readonly codec?: TaskCodec;
  /** Wraps the driver of every process, for what a memory broker does not do by itself. */
  readonly wrap?: (driver: BrokerDriver) => BrokerDriver;
}

const worlds = new Set<World>();
const complaints: string[] = [];
const complain = (warning: Error): void => void complaints.push(warning.message);
process.on('warning', complain);

afterEach(() => {
  for (const world of worlds) world.leave();
  worlds.clear();
  vi.unstubAllGlobals();
  expect(complaints.splice(0)).toEqual([]);
});

/** A queue, a ledger and a receiver on one virtual clock, and processes that share them. */
export class World {
  readonly clock: VirtualClock = virtualClock();
  readonly queue: MemoryQueue = memoryQueue();
  readonly table: MemoryTable = memoryTable();
  readonly receiver: Receiver = new Receiver(this.clock);
  readonly invariants: Invariants = new Invariants();
  readonly events: LeaseholdEvent[] = [];
  readonly client: TaskClient;
  readonly producer: LeaseBroker;
  readonly hosts: Host[] = [];
  readonly #options: WorldOptions;
  readonly #runs: Running[] = [];
  readonly #unsubscribe: () => void;

  constructor(options: WorldOptions = {}) {
    this.#options = options;
    this.producer = createLeaseBroker({
      driver: this.#driver(),
      ledger: memoryLedger({ ...options.ledger, table: this.table, clock: this.clock }),
      clock: this.clock,
      ...(options.codec && { codec: options.codec }),
    });
    const ledger = this.invariants.watch(
      memoryLedger({ ...options.ledger, table: this.table, clock: this.clock }),
      'client',
    );
    this.client = createTaskClient({ broker: this.producer, ledger, clock: this.clock });
    this.#unsubscribe = subscribe((event) => this.events.push(event));
    vi.stubGlobal('fetch', this.receiver.fetch);
    worlds.add(this);
  }

  #driver(): BrokerDriver {
    const driver = memoryBroker({ ...this.#options.broker, queue: this.queue, clock: this.clock });
    return this.#options.wrap?.(driver) ?? driver;
  }

  /** Starts a process. */
  host(name: string): Host {
    const own = new Process(name, this.clock);
    const brokerFaults = faultPlan<BrokerDriver>();
    const ledgerFaults = faultPlan<LedgerDriver>();
    const gate: Fault = (call) =>
      own.outside(call.method, (onItsOwn) =>
        call.apply(call.args, onItsOwn ? new AbortController().signal : call.signal),
      );
    const brokerGate = faultPlan<BrokerDriver>();
    for (const method of ['send', 'receive', 'extend', 'complete', 'release', 'reject'] as const)
      brokerGate.on(method, gate, { times: Infinity });
    const ledgerGate = faultPlan<LedgerDriver>();
    for (const method of ['put', 'get'] as const) ledgerGate.on(method, gate, { times: Infinity });
    const driver = faultyBroker(faultyBroker(this.#driver(), brokerFaults, this.clock), brokerGate, this.clock);
    const memory = memoryLedger({ ...this.#options.ledger, table: this.table, clock: this.clock });
    const watched = this.invariants.watch(memory, name);
    const ledger = faultyLedger(faultyLedger(watched, ledgerFaults, this.clock), ledgerGate, this.clock);
    const broker = createLeaseBroker({
      driver,
      ledger,
      clock: own.clock,
      ...(this.#options.codec && { codec: this.#options.codec }),
    });
    const host: Host = {
      name,
      process: own,
      clock: own.clock,
      broker,
      ledger,
      brokerFaults,
      ledgerFaults,
      work: (tasks, options = {}) => {
        const warnings: string[] = [];
        const logger = { warn: (_fields: object, message: string) => void warnings.push(message) };
        const worker = createWorker({ broker, tasks, signals: false, service: name, logger, ...options });
        const run: { -readonly [Field in keyof Running]: Running[Field] } = {
          worker,
          host,
          warnings,
          report: undefined,
        };
        running.run(own, () => void worker.run().then((report) => (run.report = report)));
        this.#runs.push(run);
        return run;
      },
    };
    this.hosts.push(host);
    return host;
  }

  /** Sends one task and gives its id. */
  async enqueue(task: Partial<NewTask> & { readonly type: string }): Promise<string> {
    const [outcome] = await this.during(this.producer.enqueue([{ input: {}, ...task }]));
    if (!outcome?.ok) throw new Error(`not enqueued: ${outcome?.message}`);
    return outcome.taskId;
  }

  record(taskId: string): TaskRecord | undefined {
    return this.table.records.find((record) => record.taskId === taskId);
  }

  /** Events of some names, oldest first. */
  named(...names: readonly EventName[]): readonly LeaseholdEvent[] {
    return this.events.filter((event) => names.includes(event.name));
  }

  /** Lets time pass until something holds; fails the test when it does not within `ms`. */
  async until(holds: () => boolean, ms = 600_000): Promise<number> {
    const passed = await this.clock.runUntil(holds, ms);
    if (!holds()) throw new Error(`did not come true within ${ms} ms: ${String(holds)}\n${this.story()}`);
    return passed;
  }

  /** Lets time pass until a promise has settled. */
  async during<Result>(work: Promise<Result>, ms = 600_000): Promise<Result> {
    let ended = false;
    const end = (): void => void (ended = true);
    work.then(end, end);
    await this.until(() => ended, ms);
    return work;
  }

  /** True when no message is left and the record of every task is terminal. */
  get quiet(): boolean {
    const tasks = this.table.records.filter(({ taskType }) => taskType !== 'leasehold.serial');
    return this.queue.messages.length === 0 && tasks.every(({ state }) => isTerminal(state));
  }

  /** Stops every living worker and checks that nothing is left: no timer, no violated invariant. */
  async end(): Promise<void> {
    const alive = this.#runs.filter(({ host, report }) => host.process.alive && report === undefined);
    for (const { worker, host } of alive) {
      running.run(host.process, () => void worker.stop());
    }
    await this.until(() => alive.every(({ report }) => report !== undefined));
    expect(this.invariants.violations).toEqual([]);
    for (const { name, process: own } of this.hosts)
      if (own.alive) expect(`${name}: ${own.pending} timers`).toBe(`${name}: 0 timers`);
    // A pause or a late call that a fate began may outlast the stop.
    if (this.hosts.some((host) => host.process.struck)) await this.clock.advance(100_000);
    expect(this.clock.pending).toBe(0);
    this.leave();
  }

  leave(): void {
    this.#unsubscribe();
    for (const { process: own } of this.hosts) own.kill();
  }

  /** What happened, for the message of a failed wait. */
  story(): string {
    const events = this.events.map(({ name, at, taskId: _task, ...rest }) => `${at} ${name} ${JSON.stringify(rest)}`);
    return [...events.slice(-40), ...this.table.records.map((record) => JSON.stringify(record))].join('\n');
  }
}
