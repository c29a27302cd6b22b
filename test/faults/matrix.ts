import { isTerminal, type LedgerDriver, type TaskRecord } from '@leasehold/core';
import type { Fault } from '@leasehold/core/testing';
import { BROKER_METHODS, FaultWorld, LEDGER_METHODS, type Gate } from './fault-world.ts';
import { FAULT_KINDS, FAULT_NAMES, LONG_MS, type FaultKind, type FaultName } from './fault-kinds.ts';
import { TASK_PATHS, type TaskPath } from './task-paths.ts';

/** One call of a path: the `nth` of its method, made while the task was in a stage. */
interface PathCall {
  readonly path: string;
  readonly method: string;
  readonly nth: number;
  readonly stage: string;
}

/** One fault at one call. */
export interface Cell extends PathCall {
  readonly fault: FaultName;
  /** What `--cell` takes. */
  readonly id: string;
}

/** What became of a cell. */
export interface CellResult extends Cell {
  /** Whether the fault befell its call. */
  readonly reached: boolean;
  readonly violations: readonly string[];
}

export interface MatrixOptions {
  readonly driver: string;
  /** Puts something around every process's ledger: a planted weakness. */
  readonly weaken?: (ledger: LedgerDriver) => LedgerDriver;
  /** Only these cells; default all. */
  readonly pick?: (cell: Cell, index: number) => boolean;
  readonly onCell?: (done: number, of: number, result: CellResult) => void;
}

/** Everything that was planned, and what became of it. */
export interface Matrix {
  readonly driver: string;
  /** Every call of every path, from the faultless runs. */
  readonly calls: readonly PathCall[];
  /** The whole product of calls and faults, a slice of which may have been asked for. */
  readonly size: number;
  readonly planned: readonly Cell[];
  readonly results: readonly CellResult[];
  /** Cells that were planned and not run or not reached, and methods that no path calls. */
  readonly holes: readonly string[];
}

const METHODS = [
  ...BROKER_METHODS.map((method) => `broker.${method}`),
  ...LEDGER_METHODS.map((method) => `ledger.${method}`),
];
const ENDS_WITHIN_MS = 1_200_000;

/** Runs each path without a fault, then each fault at each call of it, one at a time. */
export async function runMatrix(options: MatrixOptions): Promise<Matrix> {
  const calls: PathCall[] = [];
  const holes: string[] = [];
  for (const name of Object.keys(TASK_PATHS)) {
    const faultless = await live(options, name, undefined);
    calls.push(...faultless.calls);
    for (const violation of faultless.violations) holes.push(`${name} without a fault: ${violation}`);
  }
  for (const method of METHODS) {
    if (!calls.some((call) => call.method === method)) holes.push(`no path calls ${method}`);
  }
  const product = calls.flatMap((call) =>
    FAULT_NAMES.map((fault): Cell => ({ ...call, fault, id: [call.path, call.method, call.nth, fault].join('/') })),
  );
  const { pick = () => true } = options;
  const planned = product.filter(pick);
  const results: CellResult[] = [];
  for (const one of planned) {
    const { reached, violations } = await live(options, one.path, one);
    const result = { ...one, reached, violations };
    results.push(result);
    options.onCell?.(results.length, planned.length, result);
  }
  const reached = new Set(results.filter((result) => result.reached).map(({ id }) => id));
  for (const { id } of planned) if (!reached.has(id)) holes.push(`${id} was not reached`);
  if (planned.length === 0) holes.push('no such cell');
  return { driver: options.driver, calls, size: product.length, planned, results, holes };
}

/** The cells whose task did not survive. */
export function failed({ results }: Matrix): readonly CellResult[] {
  return results.filter(({ reached, violations }) => !reached || violations.length > 0);
}

interface Life {
  readonly calls: readonly PathCall[];
  readonly reached: boolean;
  readonly violations: readonly string[];
}

/** One life of a path. With a cell the first worker meets its fault, and a second one comes to end what the first began. */
async function live({ driver, weaken }: MatrixOptions, name: string, cell: Cell | undefined): Promise<Life> {
  const world = await FaultWorld.open({ broker: driver, ledger: driver, ...(weaken && { weaken }) });
  const random = Math.random;
  // Jitter would decide whether a retry comes a little too early, and so how many calls a path has.
  Math.random = () => 0.5;
  const path = TASK_PATHS[name] as TaskPath;
  const seen = new Seen(world, name, cell);
  const troubles: string[] = [];
  try {
    const first = world.host('first', seen.gate);
    first.work(path.tasks(world, first));
    const taskId = await world.enqueue('task');
    if (cell) {
      await world.until(async () => seen.reached || (await world.quiet()), ENDS_WITHIN_MS, `${cell.id} is reached`);
      const second = world.host('second');
      second.work(path.tasks(world, second));
    }
    await world.until(() => world.quiet(), ENDS_WITHIN_MS, 'every task ends and every message is done with');
    seen.over = true;
    if (cell) {
      // Whatever is still on its way arrives.
      await world.advance(2 * LONG_MS);
      world.invariants.require(await world.quiet(), 'what arrived late opened a task again, or left a message');
    }
    await judge(world, path, taskId);
    await world.stop();
  } catch (error) {
    troubles.push(error instanceof Error ? error.message : String(error));
  } finally {
    await world.dispose();
    Math.random = random;
  }
  return { calls: seen.calls, reached: seen.reached, violations: [...world.invariants.violations, ...troubles] };
}

/** Counts the calls of the first worker, and lets the fault of the cell befall the one it is meant for. */
class Seen {
  readonly calls: PathCall[] = [];
  reached = false;
  /** The path has ended: what its worker still calls is not a part of it. */
  over = false;
  readonly #world: FaultWorld;
  readonly #path: string;
  readonly #cell: Cell | undefined;
  #after:
    | { readonly driver: 'broker' | 'ledger'; readonly what: FaultKind['after']; readonly until: number }
    | undefined;

  constructor(world: FaultWorld, path: string, cell: Cell | undefined) {
    this.#world = world;
    this.#path = path;
    this.#cell = cell;
  }

  readonly gate: Gate = (driver, call, own) => {
    const method = `${driver}.${call.method}`;
    const kind = this.#count(method, call) ? this.#kind() : undefined;
    const fault = kind ? kind.call : this.#stillUpon(driver);
    if (kind?.after) {
      this.#after = { driver, what: kind.after, until: this.#world.clock.monotonic() + kind.after.forMs };
    }
    return own.outside(
      method,
      () => (fault ? fault(call) : call.apply()),
      () => kind?.strike,
    );
  };

  #kind(): FaultKind {
    this.reached = true;
    return FAULT_KINDS[(this.#cell as Cell).fault];
  }

  /** Counts a call; true when it is the one. */
  #count(method: string, { args }: Parameters<Fault>[0]): boolean {
    if (this.over) return false;
    const nth = this.calls.filter((call) => call.method === method).length + 1;
    this.calls.push({ path: this.#path, method, nth, stage: this.#stage(method, args) });
    return this.#cell?.method === method && this.#cell.nth === nth;
  }

  #stillUpon(driver: 'broker' | 'ledger'): Fault | undefined {
    const after = this.#after;
    if (!after?.what || this.#world.clock.monotonic() >= after.until) return undefined;
    return after.what.of === 'both' || after.driver === driver ? after.what.fault : undefined;
  }

  /** The stage that a write enters, or that the task is in. */
  #stage(method: string, args: readonly unknown[]): string {
    if (method === 'ledger.put') return (args[0] as TaskRecord).stage;
    return this.#world.records.values().next().value?.stage ?? 'unclaimed';
  }
}

/** What holds at the end of every path, and how this one has to end. */
async function judge(world: FaultWorld, path: TaskPath, taskId: string): Promise<void> {
  const { invariants, receiver, records } = world;
  const require = (holds: boolean, what: string): void => invariants.require(holds, what);
  const state = records.get(taskId)?.state;
  require(state === path.ends, `the task is ${state}, not ${path.ends}`);
  require(records.size === path.leaves.records, `I5: there are ${records.size} tasks, not ${path.leaves.records}`);
  require(receiver.made.length === path.leaves.made, `${receiver.made.length} effects, not ${path.leaves.made}`);
  const times = (key: string): number => receiver.made.filter((made) => made.key === key).length;
  for (const { key } of receiver.made) require(times(key) === 1, `I4: an effect happened ${times(key)} times`);
  const letters = await world.during(world.stores.deadLetters());
  const copies = world.stores.deadLetter === 'copy';
  for (const record of records.values()) {
    const id = record.taskId;
    const settles = invariants.settles.get(id) ?? 0;
    require(settles ===
      (record.state === 'settled' ? 1 : 0), `I2: ${id} is ${record.state} and settled ${settles} times`);
    const dead = letters.filter(({ attributes }) => attributes['leaseholdtaskid'] === id).length;
    const due = record.state === 'dead_lettered' ? 1 : 0;
    // A copy whose answer was lost is made again; the record is one, and a redrive of both runs the task once.
    require(copies && due === 1 ? dead >= 1 : dead === due, `${id} is ${record.state} with ${dead} dead letters`);
    require(isTerminal(record.state), `I5: ${id} is ${record.state}`);
    for (const [name, { key, status }] of Object.entries(record.effects)) {
      require(status === 'verified' || status === 'absent', `effect ${name} of ${id} is ${status} in the end`);
      require(times(key) ===
        (status === 'verified' ? 1 : 0), `effect ${name} is ${status} and was made ${times(key)} times`);
    }
  }
}
