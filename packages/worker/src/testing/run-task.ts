import { badOption, isTerminal, LeaseholdError, TASK_ID_ATTRIBUTE, virtualClock } from '@leasehold/core';
import type { FollowUp, LeaseholdEvent, SettlementReceipt, TaskRecord } from '@leasehold/core';
import type { TaskDefinition } from '../define-task.ts';
import type { AnyTask } from '../worker-options.ts';
import type { OutsideCall } from './call-point.ts';
import { playOut, type Turn } from './play-out.ts';
import { faultsOf, neverCame, strikeOf } from './run-faults.ts';
import { checkOptions, type RunTaskOptions } from './run-options.ts';
import type { DeclaredEffect } from './scene.ts';
import { idle, TaskWorld, type Host } from './task-world.ts';

/** How a run ended. `unfinished`: virtual time was up, or nobody was left to end the task. */
export type RunOutcome = 'settled' | 'dead-lettered' | 'cancelled' | 'waiting-human' | 'unfinished';

/** What a run of a task came to. */
export interface TaskRun<Result = unknown> {
  readonly outcome: RunOutcome;
  /** The result that was settled; nothing unless the outcome is `settled`. */
  readonly result: Result | undefined;
  readonly receipt: SettlementReceipt | undefined;
  /** As the ledger has it at the end; nothing when no claim was ever made. */
  readonly record: TaskRecord | undefined;
  /** What both workers announced, oldest first. */
  readonly events: readonly LeaseholdEvent[];
  /** Every call of both workers to the outside, in the order in which they left. */
  readonly calls: readonly OutsideCall[];
  /** What handlers threw, oldest first. */
  readonly thrown: readonly { readonly worker: string; readonly attempt: number; readonly error: unknown }[];
  /** Results that came too late or under a lost lease: never stored as the outcome. */
  readonly rejected: readonly { readonly worker: string; readonly token: number; readonly result: unknown }[];
  /** The effects that the handler came to, as it declares them. */
  readonly effects: readonly DeclaredEffect[];
  readonly followUps: readonly FollowUp[];
  /** How often a settle was accepted: never more than once. */
  readonly settles: number;
  /** Rules of Leasehold that were broken: always empty, and a mistake of Leasehold where not. */
  readonly violations: readonly string[];
  /** Virtual milliseconds that passed. */
  readonly tookMs: number;
}

/**
 * Runs one task on a queue and a ledger in memory, under a virtual clock, with one thing or several going wrong: what the first worker does
 * is cut off where you say, a second worker takes the task over when the lease is over, and a paused first one comes back.
 *
 * The virtual clock moves leases, heartbeats, limits, backoff and everything else that Leasehold waits for, so that a takeover takes
 * milliseconds. It does not move what the handler waits for by itself: a real timer or a real request takes its real time, during which
 * virtual time stands still. Give the handler doubles (`fetch`, `effects`), or the clock itself (`clock`, for `sleep` of `@leasehold/core`).
 * A `fetch` that was taken before the run (`const { fetch } = globalThis`), `node:http` and other clients are not seen.
 * Both workers share the modules of the test: what one keeps in a variable the other finds there, as it would not in a process of its own.
 *
 * @throws LeaseholdError `bad-option` for an option that cannot be used, or a point that the first worker never came to, with the list of the
 * calls it made; `timeout` when the handler waits longer than `realWaitMs` for something the virtual clock does not move.
 * @example
 * ```ts
 * import assert from 'node:assert/strict';
 * import { defineTask } from '@leasehold/worker';
 * import { receiverDouble, runTask } from '@leasehold/worker/testing';
 *
 * const charge = defineTask({
 *   type: 'charge',
 *   async run(input: { amount: number }, ctx) {
 *     const charged = await ctx.effect('charge', {
 *       system: 'pay',
 *       commit: ({ headers, signal }) =>
 *         fetch('https://pay.example/charges', { method: 'POST', headers, signal, body: JSON.stringify(input) }),
 *       readBack: async ({ idempotencyKey, headers, signal }) => {
 *         const found = await fetch(`https://pay.example/charges?key=${idempotencyKey}`, { headers, signal });
 *         return found.ok ? ((await found.json()) as { id: string }) : undefined;
 *       },
 *       receiver: 'guarded',
 *       receipt: (found) => ({ externalId: found.id, status: 'paid' }),
 *     });
 *     return { paid: charged.id };
 *   },
 * });
 *
 * // The money is taken, and the worker dies before it learns so.
 * const pay = receiverDouble();
 * const run = await runTask(charge, { amount: 12 }, { fetch: pay.fetch, crashAfter: 'commit' });
 * assert.equal(run.outcome, 'settled');
 * assert.deepEqual(run.result, { paid: 'made-1' });
 * assert.equal(pay.made.length, 1);
 * ```
 */
export async function runTask<Input, Result>(
  task: TaskDefinition<Input, Result>,
  input: Input,
  options: RunTaskOptions<Input, Result> = {},
): Promise<TaskRun<Result>> {
  checkOptions(options);
  for (const [field, one] of [
    ['task', task],
    ['successor', options.successor ?? task],
  ] as const) {
    if (typeof one?.timing !== 'object') throw badOption(field, one, 'make it with defineTask.');
  }
  const clock = options.clock ?? virtualClock();
  const faults = faultsOf(options, task.timing.leaseMs);
  const world = new TaskWorld({
    clock,
    doubles: options.effects ?? {},
    befalls: (call, steps) => (call.worker === 'first' ? strikeOf(faults, call, steps) : undefined),
    ...(options.fetch && { fetch: options.fetch }),
    ...(options.contentStore && { contentStore: options.contentStore }),
  });
  const prepared = (one: TaskDefinition<Input, Result>): AnyTask => {
    const whole = one as AnyTask;
    return options.attempts === undefined ? whole : { ...whole, attempts: options.attempts };
  };
  const startedAt = clock.monotonic();
  try {
    const taskId = await send(world, task.type, input, options);
    const first = world.host('first', prepared(task));
    const answer = answering(world, options.answer);
    let second: Host | undefined;
    const turn = (): Turn => {
      if (!second && first.process.struck && options.takeover !== false) {
        second = world.host('second', prepared(options.successor ?? task));
        return 'started';
      }
      const record = world.record(taskId);
      if (record && answer(record)) return 'started';
      return isOver(world, record, options.answer !== undefined) ? 'over' : 'waiting';
    };
    await playOut(world, clock, turn, options, task.timing.leaseMs);
    for (const fault of faults) if (!fault.struck) throw neverCame(fault, world.calls);
    return ending(world, world.record(taskId), clock.monotonic() - startedAt);
  } finally {
    world.leave();
  }
}

async function send<Input, Result>(
  world: TaskWorld,
  type: string,
  input: Input,
  options: RunTaskOptions<Input, Result>,
): Promise<string> {
  const { idempotencyKey = `${type}-1`, agentRunId } = options;
  const [outcome] = await world.client.enqueue([
    { type, input, idempotencyKey, ...(agentRunId !== undefined && { agentRunId }) },
  ]);
  if (outcome?.ok) return outcome.taskId;
  throw new LeaseholdError('bad-task', outcome?.message ?? 'The task was not sent.', { field: 'input' });
}

/** Says once to each question what a person would. */
function answering(world: TaskWorld, say: RunTaskOptions['answer']): (record: TaskRecord) => boolean {
  const answered = new Set<string>();
  return ({ taskId, state, human }) => {
    const open = state === 'waiting_human' ? human?.at(-1) : undefined;
    if (!say || !open || open.approved !== undefined) return false;
    const id = `${open.askedAt} ${open.question}`;
    if (answered.has(id)) return false;
    answered.add(id);
    void world.client.answer(taskId, say(open.question));
    return true;
  };
}

/** The task has ended, its message is gone, and everybody who is alive has come back and is done. */
function isOver(world: TaskWorld, record: TaskRecord | undefined, answered: boolean): boolean {
  const alive = world.hosts.filter(({ process }) => process.alive);
  if (alive.length === 0) return true;
  if (alive.some((host) => idle(host) || host.worker.stats.running > 0)) return false;
  if (record?.state === 'waiting_human') return !answered;
  return (
    record !== undefined &&
    isTerminal(record.state) &&
    !world.queue.messages.some(({ attributes }) => attributes[TASK_ID_ATTRIBUTE] === record.taskId)
  );
}

const OUTCOMES: Readonly<Record<string, RunOutcome>> = {
  settled: 'settled',
  dead_lettered: 'dead-lettered',
  cancelled: 'cancelled',
  waiting_human: 'waiting-human',
};

function ending<Result>(world: TaskWorld, record: TaskRecord | undefined, tookMs: number): TaskRun<Result> {
  const receipt = record?.settlementReceipt;
  const inline = record?.result && 'inline' in record.result ? record.result.inline : undefined;
  // Too large for the record, or not JSON: what the attempt that settled returned.
  const returned = world.returned.find(({ token }) => token === receipt?.token)?.end.value;
  return {
    outcome: OUTCOMES[record?.state ?? ''] ?? 'unfinished',
    result: receipt ? ((inline ?? returned) as Result) : undefined,
    receipt,
    record,
    events: world.events,
    calls: world.calls,
    thrown: world.thrown.map(({ worker, attempt, end }) => ({ worker, attempt, error: end.error })),
    rejected: world.rejected,
    effects: [...world.declared.values()],
    followUps: world.followUps,
    settles: [...world.invariants.settles.values()].reduce((sum, count) => sum + count, 0),
    violations: world.invariants.violations,
    tookMs,
  };
}
