import { badOption, checkNames, leaseTiming, LeaseholdError, parseDuration } from '@leasehold/core';
import type { Backoff, Duration, LeaseOption, LeaseTiming, OptionNames, Stage, TaskMessage } from '@leasehold/core';
import type { TaskContext } from './task-context.ts';
import type { InputSchema } from './standard-schema.ts';

/** Bounds on the work of one task type. Lengths of time as text (`'90s'`) or milliseconds. */
export interface TaskLimits {
  /** How long one `ctx.call` may take unless it says otherwise. Default 2 minutes. */
  readonly tool?: Duration;
  /** From the first claim; no attempt begins past it, the task is dead-lettered instead. One under way is bounded by `stage` and `total`. Default none. */
  readonly deadline?: Duration;
  /** Failures (errors and lapses) at which the task is dead-lettered. Default 5. */
  readonly attempts?: number;
  /** How long one stage may last. Default 10 minutes each. */
  readonly stage?: Duration | Partial<Record<Exclude<Stage, 'settled'>, Duration>>;
  /** How long the same stage and reason may be claimed before it counts as a stall. Default none: the stage limit ends it. */
  readonly progress?: Duration;
  /** How long one attempt may hold the task in all; the handler is told before (`ctx.deadline`). Default none but the broker's own cap. */
  readonly total?: Duration;
  /** How long an attempt usually takes. Refused at start when it does not fit into the cap. */
  readonly expected?: Duration;
}

/** What {@link defineTask} takes. */
export interface TaskOptions<Input, Result> {
  /** The name under which tasks of this kind are enqueued. */
  readonly type: string;
  /** Checks and shapes the payload; any Standard Schema. A payload that does not fit is dead-lettered. */
  readonly input?: InputSchema<Input>;
  /** The lease class of this type. Default 90 s. Never taken from a payload. */
  readonly lease?: LeaseOption;
  readonly limits?: TaskLimits;
  /** How many of this type a worker runs at once. Default: the worker's concurrency. */
  readonly concurrency?: number;
  /**
   * One task at a time of those with the same key, across all workers of the ledger: `agent-run`, or a function of the task.
   * Tasks without a key run freely. Costs two more ledger writes a task. Says nothing about order.
   */
  readonly serialize?: 'agent-run' | ((task: TaskMessage) => string | undefined);
  /**
   * Waits between attempts: `first` (default 1 s), each `factor` times as long as the one before (default 4), at most `max` (default 5 minutes),
   * and a random part of up to half less. Five attempts so outlast a receiver that is away for 40 s.
   */
  readonly backoff?: { readonly first?: Duration; readonly max?: Duration; readonly factor?: number };
  /** `message-id`: tasks with effects may come from messages that name no task; two copies of such a message are two tasks. */
  readonly identity?: 'task-id' | 'message-id';
  /** Refuse vague progress reasons ("still running") instead of warning. */
  readonly strict?: boolean;
  /** Does the work. What it returns is the result; what it throws is retried, unless it is a `PermanentError`. */
  run(input: Input, ctx: TaskContext): Promise<Result> | Result;
}

/** A registered kind of task. Made by {@link defineTask}. */
export interface TaskDefinition<Input = unknown, Result = unknown> {
  readonly type: string;
  readonly input?: InputSchema<Input>;
  readonly timing: LeaseTiming;
  readonly toolMs: number;
  readonly deadlineMs?: number;
  readonly attempts: number;
  readonly stageMs: Readonly<Record<Stage, number>>;
  readonly progressMs?: number;
  readonly totalMs?: number;
  readonly expectedMs?: number;
  readonly concurrency?: number;
  readonly backoff: Backoff;
  readonly identity: 'task-id' | 'message-id';
  readonly strict: boolean;
  /** The key of which one task at a time may run. */
  readonly keyOf?: (task: TaskMessage) => string | undefined;
  /** Does the work. */
  run(input: Input, ctx: TaskContext): Promise<Result> | Result;
}

const OPTIONS: OptionNames<TaskOptions<never, never>> = {
  type: true,
  input: true,
  lease: true,
  limits: true,
  concurrency: true,
  serialize: true,
  backoff: true,
  identity: true,
  strict: true,
  run: true,
};
const LIMITS: OptionNames<TaskLimits> = {
  tool: true,
  deadline: true,
  attempts: true,
  stage: true,
  progress: true,
  total: true,
  expected: true,
};
const BACKOFF: OptionNames<NonNullable<TaskOptions<never, never>['backoff']>> = {
  first: true,
  max: true,
  factor: true,
};
/** The stages that a handler can be in. */
export const STAGES = ['preflight', 'external_call', 'commit', 'verify'] as const;

/**
 * Declares a kind of task and checks its options at once.
 *
 * @throws LeaseholdError naming the option: `bad-option`, or `lease-timing` when the lease does not survive a missed beat.
 * @example
 * ```ts
 * import { defineTask } from '@leasehold/worker';
 *
 * const greet = defineTask({ type: 'greet', lease: '90s', run: async (input: { name: string }) => ({ said: `Hello ${input.name}` }) });
 * ```
 */
export function defineTask<Input = unknown, Result = unknown>(
  options: TaskOptions<Input, Result>,
): TaskDefinition<Input, Result> {
  if (typeof options !== 'object' || options === null)
    throw badOption('options', options, 'give at least type and run.');
  const { type } = options;
  if (typeof type !== 'string' || type === '' || type.length > 256)
    throw badOption('type', type, 'give the task a name of 1 to 256 characters.');
  if (typeof options.run !== 'function')
    throw badOption(`${type}.run`, options.run, 'give the function that does the work.');
  const { limits = {}, backoff = {} } = options;
  const at = (field: string): string => `${type}.${field}`;
  checkNames(options, OPTIONS, at(''));
  checkNames(limits, LIMITS, at('limits.'));
  checkNames(backoff, BACKOFF, at('backoff.'));
  const duration = (value: Duration | undefined, field: string): number | undefined =>
    value === undefined ? undefined : parseDuration(value, at(field));
  const timing = leaseTiming(options.lease, at('lease'));
  const totalMs = duration(limits.total, 'limits.total');
  const expectedMs = duration(limits.expected, 'limits.expected');
  if (totalMs !== undefined && expectedMs !== undefined && expectedMs > totalMs) {
    throw badOption(
      at('limits.expected'),
      limits.expected,
      `it does not fit into limits.total; split the task, hand it off, or raise the total.`,
    );
  }
  const deadlineMs = duration(limits.deadline, 'limits.deadline');
  const progressMs = duration(limits.progress, 'limits.progress');
  return {
    type,
    timing,
    toolMs: duration(limits.tool, 'limits.tool') ?? 120_000,
    attempts: count(limits.attempts, at('limits.attempts'), 5),
    stageMs: stageLimits(limits.stage, at('limits.stage')),
    backoff: {
      firstMs: duration(backoff.first, 'backoff.first') ?? 1_000,
      maxMs: duration(backoff.max, 'backoff.max') ?? 300_000,
      factor: growth(backoff.factor, at('backoff.factor')),
    },
    identity: options.identity ?? 'task-id',
    strict: options.strict ?? false,
    run: (input, ctx) => options.run(input, ctx),
    ...(options.serialize !== undefined && { keyOf: keyFunction(options.serialize, at('serialize')) }),
    ...(options.input && { input: options.input }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(progressMs !== undefined && { progressMs }),
    ...(totalMs !== undefined && { totalMs }),
    ...(expectedMs !== undefined && { expectedMs }),
    ...(options.concurrency !== undefined && { concurrency: count(options.concurrency, at('concurrency'), 1) }),
  };
}

function growth(factor: number | undefined, field: string): number {
  if (factor === undefined) return 4;
  if (!(factor >= 1 && factor <= 100)) throw badOption(field, factor, 'give a number from 1 (no growth) to 100.');
  return factor;
}

function keyFunction(
  serialize: NonNullable<TaskOptions<never, never>['serialize']>,
  field: string,
): (task: TaskMessage) => string | undefined {
  if (serialize === 'agent-run') return (task) => task.agentRunId;
  if (typeof serialize !== 'function')
    throw badOption(field, serialize, "write 'agent-run', or a function that answers the key of a task.");
  return serialize;
}

/** A whole number from 1 up. */
export function count(value: number | undefined, field: string, fallback: number): number {
  if (value === undefined) return fallback;
  if (!Number.isSafeInteger(value) || value < 1) throw badOption(field, value, 'give a whole number from 1 up.');
  return value;
}

function stageLimits(limit: TaskLimits['stage'], field: string): Record<Stage, number> {
  const stages: Record<Stage, number> = {
    preflight: 600_000,
    external_call: 600_000,
    commit: 600_000,
    verify: 600_000,
    settled: 600_000,
  };
  if (limit === undefined) return stages;
  if (typeof limit !== 'object' || limit === null) {
    for (const stage of STAGES) stages[stage] = parseDuration(limit, field);
    return stages;
  }
  for (const [stage, value] of Object.entries(limit)) {
    if (!(STAGES as readonly string[]).includes(stage)) {
      throw new LeaseholdError('bad-option', `${field}.${stage} is not a stage; use ${STAGES.join(', ')}.`, {
        field: `${field}.${stage}`,
      });
    }
    stages[stage as Stage] = parseDuration(value, `${field}.${stage}`);
  }
  return stages;
}
