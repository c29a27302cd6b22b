import { randomUUID } from 'node:crypto';
import {
  badOption,
  canonicalJson,
  checkNames,
  hashJson,
  LeaseholdError,
  parseDuration,
  PermanentError,
  RetryableError,
  sha256,
  stowNeeded,
} from '@leasehold/core';
import type { Content, Json, OptionNames, Ownership } from '@leasehold/core';
import { TaskAborted } from './abort-reason.ts';
import type { Attempt } from './attempt.ts';
import { STAGES } from './define-task.ts';
import { runEffect } from './effect.ts';
import { answered } from './human.ts';
import { EFFECT_OPTIONS, type EffectOptions, type VerifiedEffect } from './effect-options.ts';
import type { CallOptions, TaskContext } from './task-context.ts';
import { isVague } from './vague-reason.ts';

/** Thrown by `ctx.handOff` to end the attempt. */
export class HandOffSignal extends LeaseholdError {
  override readonly name: string = 'HandOffSignal';

  constructor(reason: string) {
    super('hand-off', reason);
  }
}

/** The tool's own time is over; the lease is not. */
class ToolTimeout extends RetryableError {
  override readonly name: string = 'ToolTimeout';
  readonly code = 'tool-timeout' as const;
}

/** The handler's side of an attempt. */
export function createContext(attempt: Attempt, checkpointed: Json | undefined): TaskContext {
  return new HandlerContext(attempt, checkpointed);
}

/** Reached through whatever inherits from a context, or stands in for one. */
const ATTEMPT = Symbol('attempt');
const UNDER_WAY = Symbol('effects under way');
const FOUND = Symbol('checkpoint found');

type Functions = Pick<
  TaskContext,
  'stage' | 'progress' | 'call' | 'effect' | 'checkpoint' | 'handOff' | 'askHuman' | 'next' | 'onCapNear'
>;

class HandlerContext implements TaskContext {
  readonly taskId: string;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly checkpointed: Json | undefined;
  declare readonly agentRunId?: string;
  declare readonly traceparent?: string;
  declare readonly deadline?: number;
  declare readonly stage: Functions['stage'];
  declare readonly progress: Functions['progress'];
  declare readonly call: Functions['call'];
  declare readonly effect: Functions['effect'];
  declare readonly checkpoint: Functions['checkpoint'];
  declare readonly handOff: Functions['handOff'];
  declare readonly askHuman: Functions['askHuman'];
  declare readonly next: Functions['next'];
  declare readonly onCapNear: Functions['onCapNear'];
  readonly [ATTEMPT]: Attempt;
  readonly [FOUND]: Content | undefined;
  [UNDER_WAY]: Set<string> | undefined;

  constructor(attempt: Attempt, checkpointed: Json | undefined) {
    const { message, task, limits } = attempt;
    this[ATTEMPT] = attempt;
    this[FOUND] = task.record.checkpoint;
    this.taskId = task.taskId;
    this.attempt = task.record.attempt;
    this.idempotencyKey = task.record.idempotencyKey;
    this.checkpointed = checkpointed;
    if (message.agentRunId !== undefined) this.agentRunId = message.agentRunId;
    if (message.traceparent !== undefined) this.traceparent = message.traceparent;
    if (limits.deadline !== undefined) this.deadline = limits.deadline;
  }

  get signal(): AbortSignal {
    return this[ATTEMPT].signal;
  }

  get fence(): number {
    return this[ATTEMPT].task.token;
  }

  get ownership(): Ownership {
    return this[ATTEMPT].task.ownership();
  }
}

// Made when they are asked for, already bound: handlers may take the context apart, most use few of them, and ten thousand may wait at a time.
const FUNCTIONS: { readonly [Name in keyof Functions]: (context: HandlerContext) => Functions[Name] } = {
  stage:
    ({ [ATTEMPT]: attempt }) =>
    (stage, reason) => {
      alive(attempt, 'ctx.stage');
      checkStage(stage);
      claim(attempt, stage, reason);
    },
  progress:
    ({ [ATTEMPT]: attempt }) =>
    (reason) => {
      alive(attempt, 'ctx.progress');
      claim(attempt, attempt.stage, reason);
    },
  call:
    ({ [ATTEMPT]: attempt }) =>
    (name, options, run) =>
      call(attempt, name, options, run),
  effect: (context) =>
    ((name: string, options: EffectOptions<unknown, unknown>) =>
      effect(context, name, options)) as TaskContext['effect'],
  checkpoint: (context) => (data) => checkpoint(context, data),
  handOff:
    ({ [ATTEMPT]: attempt }) =>
    async (reason = 'handed off by the handler') => {
      alive(attempt, 'ctx.handOff');
      throw new HandOffSignal(reason);
    },
  askHuman:
    ({ [ATTEMPT]: attempt }) =>
    async (question) => {
      alive(attempt, 'ctx.askHuman');
      return answered(attempt.task.record, question);
    },
  next:
    ({ [ATTEMPT]: attempt }) =>
    (task, input) =>
      next(attempt, typeof task === 'string' ? task : task.type, input),
  onCapNear:
    ({ [ATTEMPT]: attempt }) =>
    (listener) =>
      attempt.limits.onCapNear(listener),
};

for (const name of Object.keys(FUNCTIONS) as (keyof Functions)[]) {
  Object.defineProperty(HandlerContext.prototype, name, {
    get(this: HandlerContext) {
      return FUNCTIONS[name](this);
    },
    // A test may put its own in place of one.
    set(this: HandlerContext, value: unknown) {
      Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true });
    },
  });
}

function alive(attempt: Attempt, what: string): void {
  if (attempt.over)
    throw new LeaseholdError('ownership', `${what} came after the attempt had ended; await it inside the handler.`);
  attempt.throwIfAborted();
}

function checkStage(stage: string): void {
  if ((STAGES as readonly string[]).includes(stage)) return;
  throw badOption('stage', stage, `there is no such stage; use one of ${STAGES.join(', ')}.`);
}

function claim(attempt: Attempt, stage: Parameters<Attempt['enter']>[0], reason: string): void {
  if (typeof reason !== 'string' || isVague(reason)) {
    const said = `The reason ${JSON.stringify(reason)} says nothing about progress; say what is done, such as "chunk 3 of 12".`;
    if (attempt.definition.strict || typeof reason !== 'string')
      throw new LeaseholdError('bad-option', said, { field: 'reason' });
    attempt.task.announce('vague_reason', { stage });
  }
  attempt.enter(stage, reason);
}

async function effect(
  context: HandlerContext,
  name: string,
  options: EffectOptions<unknown, unknown>,
): Promise<VerifiedEffect<unknown>> {
  const attempt = context[ATTEMPT];
  alive(attempt, `ctx.effect(${JSON.stringify(name)})`);
  const underWay = (context[UNDER_WAY] ??= new Set());
  if (underWay.has(name)) {
    throw new PermanentError(
      `Effect "${name}" is being made already in this attempt: one name is one effect, give each its own.`,
    );
  }
  if (
    typeof options?.commit !== 'function' ||
    typeof options.receipt !== 'function' ||
    options.readBack === undefined
  ) {
    // Better than after the call, when nobody can tell any more.
    throw new PermanentError(`Effect "${name}" needs commit, readBack and receipt; nothing was started.`);
  }
  try {
    checkNames(options, EFFECT_OPTIONS, `effect(${JSON.stringify(name)}).`);
    if (options.quiesce !== undefined) parseDuration(options.quiesce, `effect(${JSON.stringify(name)}).quiesce`);
  } catch (cause) {
    throw new PermanentError((cause as LeaseholdError).message, { cause });
  }
  underWay.add(name);
  attempt.effects.set(name, options);
  try {
    const made = await attempt.outside.make(() => runEffect(attempt.host, name, options));
    attempt.lastEffect = made;
    return made;
  } finally {
    underWay.delete(name);
  }
}

async function checkpoint(context: HandlerContext, data: unknown): Promise<void> {
  const attempt = context[ATTEMPT];
  alive(attempt, 'ctx.checkpoint');
  const { signal, services, task } = attempt;
  const stow = { signal, ...(services.contentStore && { store: services.contentStore }) };
  const content = await stowNeeded('checkpoint', data, stow);
  const answer = await task.apply(
    { type: 'checkpoint', checkpoint: content, leaseMs: task.timing.leaseMs },
    { repeat: true },
  );
  if (!('applied' in answer))
    throw new LeaseholdError(
      'ownership',
      'The checkpoint was not stored: the lease is lost or the ledger did not answer.',
    );
  if (hashJson(content) !== hashJson(context[FOUND] ?? null)) attempt.progressed = true;
}

function next(attempt: Attempt, type: string, input: unknown): string {
  alive(attempt, 'ctx.next');
  const { task } = attempt;
  // Ids have a longest length, and children of children must not outgrow it.
  const parent = task.taskId.length > 200 ? sha256(task.taskId) : task.taskId;
  const taskId = `${parent}:next:${attempt.followUps.length}`;
  const followUp = {
    taskId,
    type,
    idempotencyKey: taskId,
    input: JSON.parse(canonicalJson(input ?? null, 'input')) as Json,
  };
  attempt.port.checkFollowUp(followUp);
  attempt.addFollowUp(followUp);
  return taskId;
}

const CALL_OPTIONS: OptionNames<CallOptions> = { provider: true, model: true, timeout: true };

async function call<Result>(
  attempt: Attempt,
  name: string,
  options: CallOptions,
  run: (call: { signal: AbortSignal; requestId: string }) => Promise<Result> | Result,
): Promise<Result> {
  const { definition, services } = attempt;
  const { task } = attempt.port;
  const { clock } = services;
  attempt.throwIfAborted();
  if (attempt.over)
    throw new LeaseholdError(
      'ownership',
      `ctx.call(${JSON.stringify(name)}) came after the attempt had ended; await it inside the handler.`,
    );
  checkNames(options, CALL_OPTIONS, `call(${name}).`);
  const timeoutMs =
    options.timeout === undefined ? definition.toolMs : parseDuration(options.timeout, `call(${name}).timeout`);
  attempt.enter('external_call', `calling ${name}`);
  const requestId = randomUUID();
  const controller = new AbortController();
  const stop = (): void => controller.abort(attempt.signal.reason);
  attempt.signal.addEventListener('abort', stop, { once: true });
  const startedAt = clock.monotonic();
  task.announce('tool_request_started', {
    requestId,
    ...(options.provider !== undefined && { externalSystem: options.provider }),
  });
  const finished = (errorCode?: string): void =>
    task.announce('tool_request_finished', {
      requestId,
      durationMs: clock.monotonic() - startedAt,
      ...(errorCode !== undefined && { errorCode }),
    });
  try {
    const result = await new Promise<Result>((resolve, reject) => {
      let giveUp: () => void = () => undefined;
      const patience = new Promise<void>((given) => (giveUp = given));
      // Left behind with its attempt: the handler goes on with an error, and no timer outlives the lease.
      const forget = attempt.outside.whenOver(() => {
        timer.cancel();
        reject(attempt.signal.reason as Error);
      });
      // The call is told; whether it listens or not, the handler goes on with an error.
      let timer = clock.timer(timeoutMs, () => {
        timer = clock.timer(services.graceMs, giveUp, { background: true });
        controller.abort(new TaskAborted('tool-timeout', `call ${name} took longer than ${timeoutMs} ms`));
        reject(new ToolTimeout(`call ${name} took longer than ${timeoutMs} ms`));
      });
      attempt.outside
        .make(() => run({ signal: controller.signal, requestId }), patience)
        .then(resolve, reject)
        .finally(() => {
          timer.cancel();
          forget();
        });
    });
    finished();
    return result;
  } catch (error) {
    finished(error instanceof Error ? error.name : 'error');
    throw error;
  } finally {
    attempt.signal.removeEventListener('abort', stop);
  }
}
