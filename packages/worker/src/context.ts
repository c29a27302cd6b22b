import { randomUUID } from 'node:crypto';
import {
  canonicalJson,
  hashJson,
  LeaseholdError,
  parseDuration,
  PermanentError,
  RetryableError,
  sha256,
  stowNeeded,
} from '@leasehold/core';
import type { Json } from '@leasehold/core';
import { TaskAborted } from './abort-reason.ts';
import type { Attempt } from './attempt.ts';
import { runEffect } from './effect.ts';
import { answered } from './human.ts';
import type { EffectOptions } from './effect-options.ts';
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
  const { port, message, definition, services } = attempt;
  const { task } = port;
  const found = task.record.checkpoint;
  let underWay: Set<string> | undefined;

  const alive = (what: string): void => {
    if (attempt.over)
      throw new LeaseholdError('ownership', `${what} came after the attempt had ended; await it inside the handler.`);
    attempt.throwIfAborted();
  };
  const claim = (stage: Parameters<Attempt['enter']>[0], reason: string): void => {
    if (typeof reason !== 'string' || isVague(reason)) {
      const said = `The reason ${JSON.stringify(reason)} says nothing about progress; say what is done, such as "chunk 3 of 12".`;
      if (definition.strict || typeof reason !== 'string')
        throw new LeaseholdError('bad-option', said, { field: 'reason' });
      task.announce('vague_reason', { stage });
    }
    attempt.enter(stage, reason);
  };

  return {
    taskId: task.taskId,
    attempt: task.record.attempt,
    idempotencyKey: task.record.idempotencyKey,
    checkpointed,
    get signal() {
      return attempt.signal;
    },
    get fence() {
      return task.token;
    },
    get ownership() {
      return task.ownership();
    },
    ...(message.agentRunId !== undefined && { agentRunId: message.agentRunId }),
    ...(message.traceparent !== undefined && { traceparent: message.traceparent }),
    ...(attempt.limits.deadline !== undefined && { deadline: attempt.limits.deadline }),
    stage(stage, reason) {
      alive('ctx.stage');
      claim(stage, reason);
    },
    progress(reason) {
      alive('ctx.progress');
      claim(attempt.stage, reason);
    },
    call: (name, options, run) => call(attempt, name, options, run),
    effect: (async (name: string, options: EffectOptions<unknown, unknown>) => {
      alive(`ctx.effect(${JSON.stringify(name)})`);
      if (underWay?.has(name)) {
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
      (underWay ??= new Set()).add(name);
      attempt.effects.set(name, options);
      try {
        const effect = await attempt.outside.make(() => runEffect(attempt.host, name, options));
        attempt.lastEffect = effect;
        return effect;
      } finally {
        underWay.delete(name);
      }
    }) as TaskContext['effect'],
    async checkpoint(data) {
      alive('ctx.checkpoint');
      const stow = { signal: attempt.signal, ...(services.contentStore && { store: services.contentStore }) };
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
      if (hashJson(content) !== hashJson(found ?? null)) attempt.progressed = true;
    },
    async handOff(reason = 'handed off by the handler') {
      alive('ctx.handOff');
      throw new HandOffSignal(reason);
    },
    async askHuman(question) {
      alive('ctx.askHuman');
      return answered(attempt.port.task.record, question);
    },
    next(task_, input) {
      alive('ctx.next');
      if (!port.sendsFollowUps)
        throw new LeaseholdError(
          'bad-task',
          'ctx.next: there is no broker here to send follow-ups; send them yourself once this has settled.',
        );
      const type = typeof task_ === 'string' ? task_ : task_.type;
      // Ids have a longest length, and children of children must not outgrow it.
      const parent = task.taskId.length > 200 ? sha256(task.taskId) : task.taskId;
      const taskId = `${parent}:next:${attempt.followUps.length}`;
      const followUp = {
        taskId,
        type,
        idempotencyKey: taskId,
        input: JSON.parse(canonicalJson(input ?? null, 'input')) as Json,
      };
      attempt.addFollowUp(followUp);
      return taskId;
    },
    onCapNear: (listener) => attempt.limits.onCapNear(listener),
  };
}

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
      // The call is told; whether it listens or not, the handler goes on with an error.
      let timer = clock.timer(timeoutMs, () => {
        timer = clock.timer(services.graceMs, giveUp, { background: true });
        controller.abort(new TaskAborted('tool-timeout', `call ${name} took longer than ${timeoutMs} ms`));
        reject(new ToolTimeout(`call ${name} took longer than ${timeoutMs} ms`));
      });
      attempt.outside
        .make(() => run({ signal: controller.signal, requestId }), patience)
        .then(resolve, reject)
        .finally(() => timer.cancel());
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
