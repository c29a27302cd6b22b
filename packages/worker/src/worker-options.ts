import { badOption, checkNames, leaseTiming, parseDuration } from '@leasehold/core';
import type { Clock, ContentStore, Duration, LeaseBroker, OptionNames } from '@leasehold/core';
import { count, type TaskDefinition } from './define-task.ts';
import type { InputSchema } from './standard-schema.ts';
import type { TaskContext } from './task-context.ts';

/** A task of any input and result; what a worker takes. */
export type AnyTask = Pick<TaskDefinition<never>, Exclude<keyof TaskDefinition, 'run' | 'input'>> & {
  readonly input?: InputSchema<unknown>;
  run(input: unknown, ctx: TaskContext): unknown;
};

/** Where warnings go. Any pino-shaped logger fits. */
export interface Logger {
  /** One warning, with its facts. */
  warn(fields: object, message: string): void;
}

/** A broker and its share of the places while several have work. Default weight 1. */
export interface WeightedBroker {
  readonly broker: LeaseBroker;
  readonly weight: number;
}

/** What {@link createWorker} takes. */
export interface WorkerOptions {
  /** Where tasks come from: one broker, or several (to drain an old one, or by weight as priorities). They have to share a clock. */
  readonly broker: LeaseBroker | readonly (LeaseBroker | WeightedBroker)[];
  readonly tasks: readonly AnyTask[];
  /** How many tasks run at once. Default 10. */
  readonly concurrency?: number;
  /** How long handlers may go on after a stop. Default 25 s. */
  readonly drain?: Duration;
  /** How long an aborted handler may take to end before it counts as leaked. Default 5 s. */
  readonly abortGrace?: Duration;
  /** How long one poll waits for a message. Default 20 s. With 0, a poll that brings nothing is followed by a pause of 1 s. */
  readonly poll?: Duration;
  /** The name of the service in `lease_owner`. Default `worker`. */
  readonly service?: string;
  /** Stop on SIGTERM and SIGINT while `run()` runs. Default true. */
  readonly signals?: boolean;
  readonly logger?: Logger;
  readonly contentStore?: ContentStore;
  /** Gets results that were rejected because the lease was lost. They are never stored as the outcome. */
  readonly onRejected?: (rejected: {
    readonly taskId: string;
    readonly token: number;
    readonly result: unknown;
  }) => void;
}

/** The options, checked, with defaults filled in. */
export interface WorkerSettings {
  readonly brokers: readonly WeightedBroker[];
  readonly clock: Clock;
  readonly tasks: ReadonlyMap<string, AnyTask>;
  readonly concurrency: number;
  readonly drainMs: number;
  readonly graceMs: number;
  readonly pollMs: number;
  readonly service: string;
  readonly signals: boolean;
  readonly logger: Logger;
  readonly longestLeaseMs: number;
}

const OPTIONS: OptionNames<WorkerOptions> = {
  broker: true,
  tasks: true,
  concurrency: true,
  drain: true,
  abortGrace: true,
  poll: true,
  service: true,
  signals: true,
  logger: true,
  contentStore: true,
  onRejected: true,
};

const WEIGHTED: OptionNames<WeightedBroker> = { broker: true, weight: true };

/**
 * Checks the options before anything is received.
 *
 * @throws LeaseholdError naming the option and the remedy.
 */
export function workerSettings(options: WorkerOptions): WorkerSettings {
  checkNames(options, OPTIONS);
  const brokers = weighted(options.broker);
  if (!Array.isArray(options.tasks) || options.tasks.length === 0)
    throw badOption('tasks', options.tasks, 'list at least one task made with defineTask.');
  const tasks = new Map<string, AnyTask>();
  for (const task of options.tasks as readonly AnyTask[]) {
    if (typeof task?.timing !== 'object') throw badOption('tasks', task, 'make each task with defineTask.');
    if (tasks.has(task.type)) throw badOption('tasks', task.type, 'two tasks have this type; each type needs one.');
    for (const { broker } of brokers) checkTask(task, broker);
    tasks.set(task.type, task);
  }
  const logger = options.logger ?? { warn: (_fields, message) => void process.stderr.write(`leasehold: ${message}\n`) };
  for (const { broker } of brokers) warnOfDeliveries(broker, [...tasks.values()], logger);
  return {
    brokers,
    clock: (brokers[0] as WeightedBroker).broker.clock,
    tasks,
    concurrency: count(options.concurrency, 'concurrency', 10),
    drainMs: parseDuration(options.drain ?? 25_000, 'drain', { min: 0 }),
    graceMs: parseDuration(options.abortGrace ?? 5_000, 'abortGrace', { min: 0 }),
    pollMs: parseDuration(options.poll ?? 20_000, 'poll', { min: 0, max: 20_000 }),
    service: options.service ?? 'worker',
    signals: options.signals ?? true,
    logger,
    longestLeaseMs: Math.max(...[...tasks.values()].map((task) => task.timing.leaseMs)),
  };
}

function weighted(option: WorkerOptions['broker']): readonly WeightedBroker[] {
  const listed = (Array.isArray(option) ? option : [option]) as readonly (LeaseBroker | WeightedBroker)[];
  if (listed.length === 0) throw badOption('broker', option, 'give at least one broker made with createLeaseBroker.');
  return listed.map((entry, index) => {
    const field = Array.isArray(option) ? `broker[${index}]` : 'broker';
    const found =
      typeof entry === 'object' && entry !== null && 'weight' in entry ? entry : { broker: entry, weight: 1 };
    if (found === entry) checkNames(found, WEIGHTED, `${field}.`);
    if (typeof found.broker?.acquire !== 'function') throw badOption(field, entry, 'make one with createLeaseBroker.');
    if (!(Number.isFinite(found.weight) && found.weight > 0))
      throw badOption(`${field}.weight`, found.weight, 'give a number above 0.');
    return found;
  });
}

function checkTask(task: AnyTask, broker: LeaseBroker): void {
  const { timing } = task;
  // Once more with what is known now: this ledger's clock and this broker's batching.
  leaseTiming(
    { length: timing.leaseMs, heartbeat: timing.heartbeatMs, margin: timing.marginMs, tolerate: timing.tolerate },
    `${task.type}.lease`,
    {
      minLeaseMs: broker.ledger.capabilities.minLeaseMs,
      uncertaintyMs: broker.ledger.capabilities.clockErrorMs + broker.lingerMs,
    },
  );
  const cap = Math.min(
    task.totalMs ?? Number.POSITIVE_INFINITY,
    broker.capabilities.totalLeaseMs ?? Number.POSITIVE_INFINITY,
  );
  if (task.expectedMs !== undefined && task.expectedMs > cap) {
    throw badOption(
      `${task.type}.limits.expected`,
      task.expectedMs,
      `an attempt can hold a task of ${broker.name} for ${cap} ms at most; hand it off in parts.`,
    );
  }
}

/** Waiting and draining cost deliveries: warns when the broker gives a message up too early for that. */
export function warnOfDeliveries(broker: LeaseBroker, tasks: readonly AnyTask[], logger: Logger): void {
  const { maxDeliveries } = broker.capabilities;
  if (maxDeliveries === undefined) return;
  const attempts = Math.max(...tasks.map((task) => task.attempts));
  const needed = 2 * attempts + 3;
  if (maxDeliveries >= needed) return;
  logger.warn(
    { maxDeliveries, needed },
    `${broker.name} dead-letters a message after ${maxDeliveries} deliveries, which waiting and draining alone can use up; ` +
      `raise it to at least ${needed} (2 x ${attempts} attempts + 3), or lower limits.attempts.`,
  );
}
