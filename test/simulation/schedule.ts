import { isTerminal } from '@leasehold/core';
import { running } from '../../packages/worker/src/testing/process.ts';
import { ATTEMPTS, GOOD } from './jobs.ts';
import { FAULTY_MS, type Plan, type PlannedFault } from './plan.ts';
import { Seeded } from './seeded.ts';
import { SimWorld } from './sim-world.ts';
import { Trace, type Keeps } from './trace.ts';

/** Everything has to have ended this long after the last fault. Virtual milliseconds. */
const CALM_MS = 240_000;
const STOP_MS = 60_000;
const MOST_STEPS = 60_000;

/** What a schedule came to. */
export interface Run {
  /** The first invariant that did not hold. */
  readonly failure?: string;
  readonly steps: number;
  readonly virtualMs: number;
  /** Compares two runs; only where a print or a trace was asked for. */
  readonly print?: string;
  readonly lines: readonly string[];
  /** Final states, by task. */
  readonly states: Readonly<Record<string, string>>;
}

/** What the look endpoint answers with: a whole body, where Node's own is a stream. */
class PlainResponse {
  readonly status: number;
  readonly body = null;
  readonly #text: string;

  constructor(text: string, init: { readonly status?: number } = {}) {
    this.#text = text;
    this.status = init.status ?? 200;
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  async json(): Promise<unknown> {
    return JSON.parse(this.#text);
  }
}

/** Runs one schedule. Not two at once in one process: `Math.random` and `fetch` are the schedule's while it runs. */
export async function runSchedule(plan: Plan, keeps: Keeps = 'nothing'): Promise<Run> {
  const trace = new Trace(keeps);
  const chance = new Seeded(plan.seed + 2);
  const { random } = Math;
  const { fetch, Response } = globalThis;
  const { stackTraceLimit } = Error;
  Math.random = () => chance.next();
  const world = new SimWorld(plan, trace);
  globalThis.fetch = world.fetch;
  globalThis.Response = PlainResponse as unknown as typeof Response;
  // Faults raise errors by the dozen, and nobody reads where.
  if (keeps !== 'lines') Error.stackTraceLimit = 0;
  const orphaned = (reason: unknown): void =>
    world.rules.require(false, `a promise was rejected and nobody listened: ${String(reason)}`);
  process.on('unhandledRejection', orphaned);
  try {
    const failure = await play(world);
    if (failure !== undefined) trace.note(world.clock.monotonic(), () => `FAILED: ${failure}`);
    return {
      ...(failure !== undefined && { failure }),
      steps: world.clock.steps,
      virtualMs: world.clock.monotonic(),
      ...(trace.print !== undefined && { print: trace.print }),
      lines: trace.lines,
      states: Object.fromEntries([...world.rules.records].map(([id, { state }]) => [id, state])),
    };
  } finally {
    for (const host of world.hosts) host.process.kill();
    process.off('unhandledRejection', orphaned);
    Math.random = random;
    globalThis.fetch = fetch;
    globalThis.Response = Response;
    Error.stackTraceLimit = stackTraceLimit;
  }
}

async function play(world: SimWorld): Promise<string | undefined> {
  const { clock, plan, rules } = world;
  const failed = (): boolean => rules.violation !== undefined || clock.steps > MOST_STEPS;
  clock.afterStep = () => world.honest();
  for (let slot = 0; slot < plan.processes; slot++) world.start(slot);
  for (const task of plan.tasks) {
    clock.timer(task.at, () => void send(world, task.id));
  }
  for (const fault of plan.faults) if ('at' in fault) clock.timer(fault.at, () => befall(world, fault));
  answerQuestions(world);
  const last = 1_000 + lastFault(plan);
  const settled = (): boolean => clock.monotonic() > last && ended(world);
  await clock.runUntil(() => failed() || settled(), FAULTY_MS);
  // Whoever died is back by now.
  for (let slot = 0; slot < plan.processes; slot++) if (!world.inSlot(slot)) world.start(slot);
  await clock.runUntil(() => failed() || ended(world), CALM_MS);
  if (rules.violation !== undefined) return rules.violation;
  if (clock.steps > MOST_STEPS) return `liveness: more than ${MOST_STEPS} steps, something goes round in circles`;
  if (!ended(world)) return `I5: ${CALM_MS / 1_000} s after the last fault ${unfinished(world)}`;
  world.nothingLost();
  atTheEnd(world);
  if (rules.violation !== undefined) return rules.violation;
  return stopAll(world, failed);
}

async function send(world: SimWorld, id: string): Promise<void> {
  const { kind, workMs } = world.plan.tasks.find((task) => task.id === id) as Plan['tasks'][number];
  const [outcome] = await world.producer.enqueue([
    { type: kind, taskId: id, input: { kind, workMs }, agentRunId: 'run' },
  ]);
  world.rules.require(outcome?.ok === true, `${id} was not enqueued`);
  world.expected.add(id);
}

/** The instant of the last fault that has one of its own. */
function lastFault(plan: Plan): number {
  return Math.max(
    0,
    ...plan.faults.map((fault) => ('at' in fault ? fault.at + ('forMs' in fault ? fault.forMs : 0) : 0)),
    ...plan.tasks.map(({ at }) => at),
  );
}

function befall(world: SimWorld, fault: Extract<PlannedFault, { at: number }>): void {
  const { trace, clock, plan } = world;
  trace.note(clock.monotonic(), () => `FAULT ${JSON.stringify(fault)}`);
  const host = 'slot' in fault ? world.inSlot(fault.slot) : undefined;
  const again = (slot: number, afterMs: number): void =>
    void clock.timer(afterMs, () => void (world.inSlot(slot) ?? world.start(slot)));
  switch (fault.what) {
    case 'kill':
      host?.process.kill();
      again(fault.slot, fault.restartMs);
      break;
    case 'pause':
      host?.process.pause(fault.forMs);
      break;
    case 'drain':
      if (host) running.run(host.process, () => void host.worker.stop().then(() => again(fault.slot, 1)));
      break;
    case 'step':
      host?.process.clock.stepWall(fault.byMs);
      break;
    case 'duplicate': {
      const task = plan.tasks[fault.task % plan.tasks.length];
      if (task && world.expected.has(task.id)) void send(world, task.id);
      break;
    }
    case 'cancel': {
      const task = plan.tasks[fault.task % plan.tasks.length];
      if (task) outsider(world, world.client.cancel(task.id));
      break;
    }
    case 'redrive':
      world.queue.redrive();
      break;
    case 'partition':
    case 'throttle':
      break;
  }
}

function outsider(world: SimWorld, work: Promise<unknown>): void {
  work.catch((error: unknown) => world.rules.require(false, `the client failed: ${String(error)}`));
}

/** A person who looks every now and then. */
function answerQuestions(world: SimWorld): void {
  for (const task of world.plan.tasks) {
    const record = world.record(task.id);
    if (record?.state === 'waiting_human')
      outsider(world, world.client.answer(task.id, { approve: task.approve, reason: 'said so' }));
  }
  world.clock.timer(2_000, () => answerQuestions(world));
}

/** The tasks that there are: those that were asked for, and the follow-ups of what is settled. */
function* tasksOf(world: SimWorld): Iterable<string> {
  for (const { id, kind } of world.plan.tasks) {
    yield id;
    if (kind === 'follow-up' && world.record(id)?.state === 'settled') yield `${id}:next:0`;
  }
}

function isOver(world: SimWorld, id: string): boolean {
  const record = world.record(id);
  return record !== undefined && isTerminal(record.state) && record.next === undefined;
}

function ended(world: SimWorld): boolean {
  for (const id of tasksOf(world)) if (!isOver(world, id)) return false;
  return world.queue.messages.length === 0;
}

function unfinished(world: SimWorld): string {
  const left = [...tasksOf(world)].filter((id) => !isOver(world, id));
  const open = left.map((id) => `${id} is ${world.record(id)?.state ?? 'not recorded'}`);
  return [...open, ...(world.queue.messages.length > 0 ? ['a message is left'] : [])].join(', ');
}

/** What the receiver made against what the records say. */
function atTheEnd(world: SimWorld): void {
  const { rules, receiver, queue, plan } = world;
  const made = new Map<string, number>();
  for (const { key } of receiver.made) made.set(key, (made.get(key) ?? 0) + 1);
  for (const [key, times] of made) rules.require(times === 1, `I4: the effect ${key} was made ${times} times`);
  for (const [id, record] of rules.records) {
    for (const [name, effect] of Object.entries(record.effects)) {
      const exists = made.has(effect.key);
      if (effect.status === 'verified') rules.require(exists, `effect ${name} of ${id} is verified and does not exist`);
      if (effect.status === 'absent')
        rules.require(!exists, `effect ${name} of ${id} is recorded as absent and exists`);
    }
    const { settlementReceipt: receipt } = record;
    if (record.state === 'settled' && receipt?.externalSystem === 'crm')
      rules.require(
        receiver.made.some(({ id: one, scope }) => one === receipt.externalId && scope === id),
        `the receipt of ${id} names ${receipt.externalId}, which does not exist`,
      );
    if (record.state === 'dead_lettered') {
      const rejected = record.lastError?.errorClass === 'rejected';
      rules.require(
        rejected || record.parked !== undefined || queue.deadLetters.length > 0,
        `${id} is dead-lettered and its message is not in the dead-letter queue`,
      );
      rules.require(record.deadLetterSent !== undefined, `nobody noted whether the message of ${id} is dead-lettered`);
    }
  }
  for (const { scope, key } of receiver.made)
    rules.require(
      Object.values(rules.records.get(scope)?.effects ?? {}).some((effect) => effect.key === key),
      `I6: ${key} exists and no record intended it`,
    );
  const cancels = plan.faults.some(({ what }) => what === 'cancel');
  for (const { id, kind } of plan.tasks) {
    const record = rules.records.get(id);
    if (!record || cancels) continue;
    rules.require(record.state !== 'cancelled', `${id} was cancelled, and nobody asked for it`);
    if (GOOD.includes(kind)) {
      if (mild(plan))
        rules.require(
          record.failures === (kind === 'retry' ? 1 : 0),
          `${id} (${kind}) counts ${record.failures} failures, though nothing happened that a lease does not bear`,
        );
      rules.require(
        record.state === 'settled' || record.failures >= ATTEMPTS - 1,
        `${id} (${kind}) is ${record.state} after ${record.failures} failures: ${record.lastError?.message}`,
      );
      if (kind !== 'plain' && record.state === 'settled')
        rules.require(hasMade(world, id), `${id} (${kind}) is settled without its effect`);
    } else if (kind === 'permanent' || kind === 'permanent after effect' || kind === 'exhausted' || kind === 'poison') {
      rules.require(record.state === 'dead_lettered', `${id} (${kind}) is ${record.state}`);
    }
  }
}

/** Nothing that costs an attempt: wall clocks that are off, messages that come twice, and one call to the ledger that goes wrong. */
function mild({ faults, tasks }: Plan): boolean {
  if (tasks.some(({ kind }) => kind === 'poison')) return false;
  const calls = faults.filter(({ what }) => what === 'call');
  const harmless = faults.every(
    (fault) =>
      fault.what === 'duplicate' ||
      fault.what === 'step' ||
      fault.what === 'redrive' ||
      (fault.what === 'call' && fault.link === 'ledger'),
  );
  return harmless && calls.length <= 1;
}

function hasMade(world: SimWorld, scope: string): boolean {
  return world.receiver.madeFor(scope).length > 0;
}

/** I10: a stop ends, and leaves no timer of the process behind. */
async function stopAll(world: SimWorld, failed: () => boolean): Promise<string | undefined> {
  const alive = world.hosts.filter(({ process, stopped }) => process.alive && !stopped);
  for (const { worker, process } of alive) running.run(process, () => void worker.stop());
  const idle = (): boolean =>
    alive.every(({ stopped, process }) => !process.alive || (stopped && process.pending === 0));
  await world.clock.runUntil(() => failed() || idle(), STOP_MS);
  if (world.rules.violation !== undefined) return world.rules.violation;
  const left = alive.find(({ stopped, process }) => process.alive && (!stopped || process.pending > 0));
  return left && `I10: ${left.name} ${left.stopped ? `left ${left.process.pending} timers` : 'did not stop'}`;
}
