import {
  boundedCall,
  isPermanentError,
  isRetryableError,
  LeaseholdError,
  MAX_INLINE_BYTES,
  stowResult,
} from '@leasehold/core';
import { backoffDelay, openEffects } from '@leasehold/core';
import type { Content, FollowUp, Lost, Stage, TaskLease, TaskMessage } from '@leasehold/core';
import { TaskAborted, type AbortCause } from './abort-reason.ts';
import type { AttemptPort } from './attempt-port.ts';
import { receiptOf, rejectResult } from './attempt-result.ts';
import { askHuman, close, finishClosing, handOff, release } from './attempt-endings.ts';
import type { AttemptOutcome, AttemptServices } from './attempt-services.ts';
import type { TaskDefinition } from './define-task.ts';
import type { EffectHost } from './effect.ts';
import { ClosingSignal } from './effect.ts';
import type { EffectOptions, VerifiedEffect } from './effect-options.ts';
import { Abort } from './abort.ts';
import { HandOffSignal } from './context.ts';
import { createEffectHost } from './effect-host.ts';
import { AskHumanSignal } from './human.ts';
import type { Kept } from './heartbeat.ts';
import { HandlerRun, type HandlerEnd } from './handler-run.ts';
import { LimitWatch, type Limited } from './limits.ts';
import { OutsideCalls } from './outside-calls.ts';
import { toTaskError } from './redact.ts';

/** How often the handler is run once more for a task that is being closed; a deploy may kill one or two of them. */
const CLOSING_RUNS = 3;

/**
 * One attempt at one task: runs the handler under the lease and gives the task its next state. There may be ten thousand at a time, so
 * what most of them never need is made when it is asked for.
 */
export class Attempt implements Kept, Limited {
  readonly port: AttemptPort;
  readonly definition: TaskDefinition;
  readonly message: TaskMessage;
  readonly services: AttemptServices;
  readonly limits: LimitWatch;
  readonly aborted: Abort = new Abort();
  readonly followUps: FollowUp[] = [];
  readonly startedAt: number;
  closing = false;
  progressed = false;
  /** Set once the task is given back: the context starts nothing any more. */
  over = false;
  stage: Stage = 'preflight';
  reason = 'claimed';
  lastEffect: VerifiedEffect<unknown> | undefined;
  result: unknown;
  #outside: OutsideCalls | undefined;
  #effects: Map<string, EffectOptions<unknown, unknown>> | undefined;
  #host: EffectHost | undefined;
  #done: ((outcome: AttemptOutcome) => void) | undefined;
  #run: HandlerRun | undefined;

  constructor(parts: {
    port: AttemptPort;
    definition: TaskDefinition;
    message: TaskMessage;
    services: AttemptServices;
  }) {
    this.port = parts.port;
    this.definition = parts.definition;
    this.message = parts.message;
    this.services = parts.services;
    this.startedAt = this.services.clock.monotonic();
    this.limits = new LimitWatch(this, this.port.capAt, this.task.timing.marginMs);
    this.task.watch(this);
  }

  get task(): TaskLease {
    return this.port.task;
  }

  /** Aborted for good once the attempt has ended. */
  get signal(): AbortSignal {
    if (this.over) this.aborted.abort(new TaskAborted('lost', 'the attempt has ended'));
    return this.aborted.signal;
  }

  get host(): EffectHost {
    return (this.#host ??= createEffectHost(this));
  }

  /** Resolves when no call to the outside is waited for any longer; nothing when there was none. */
  outsideEnded(): Promise<void> | undefined {
    return this.#outside?.ended();
  }

  /** The task may settle while one of these is abandoned, but nothing gives it back. */
  get outside(): OutsideCalls {
    return (this.#outside ??= new OutsideCalls());
  }

  get effects(): Map<string, EffectOptions<unknown, unknown>> {
    return (this.#effects ??= new Map());
  }

  throwIfAborted(): void {
    this.aborted.throwIfAborted();
  }

  /** Ends the handler's right to go on. The first cause stays. */
  abort(cause: AbortCause, message: string): void {
    if (this.aborted.reason || this.over) return;
    const { task } = this;
    task.announce('handler_aborted', { cause, ownership: task.ownership(), lastConfirmedAt: task.lastConfirmedAt });
    this.aborted.abort(new TaskAborted(cause, message));
    this.#run?.aborted();
  }

  brokerUntil(): number {
    return this.port.brokerUntil();
  }

  beat(): Promise<'held' | 'unknown' | Lost> {
    return this.port.renew({ stage: this.stage, reason: this.reason });
  }

  lost(loss: Lost): void {
    this.services.heartbeat.drop(this);
    this.abort('lost', loss.message);
  }

  near(leftMs: number): void {
    this.task.announce('lease_cap_near', { durationMs: leftMs });
  }

  listenerFailed(error: unknown): void {
    const errorCode = error instanceof Error ? error.name : 'unknown';
    this.task.announce('warning', { reason: 'onCapNear failed', errorCode });
  }

  limitReached(cause: AbortCause, message: string): void {
    // A stalled handler's claim of progress is not believed any longer: nothing renews it.
    if (cause !== 'lease-cap') this.services.heartbeat.drop(this);
    this.abort(cause, message);
  }

  leaseChanged(): void {
    const { task } = this;
    if (task.lost) this.lost(task.lost);
    else if (task.record.cancelRequested && !this.closing)
      this.abort('cancelled', 'the task was cancelled from outside');
  }

  /** Enters a stage or claims progress; rides on the next write. */
  enter(stage: Stage, reason: string): void {
    if (stage !== this.stage) {
      this.stage = stage;
      this.limits.entered(stage);
      this.port.task.announce('stage_entered', { stage });
    }
    this.reason = reason.slice(0, 120);
    this.limits.claimed(stage, reason);
    this.port.task.carryProgress(stage, this.reason);
  }

  /** Follow-ups are kept in the record until they are sent, so they are bounded in size. */
  addFollowUp(followUp: FollowUp): void {
    const bytes = Buffer.byteLength(JSON.stringify([...this.followUps, followUp]));
    if (bytes > MAX_INLINE_BYTES) {
      throw new LeaseholdError(
        'content-too-large',
        `The follow-ups of this task have ${bytes} bytes; a record holds ${MAX_INLINE_BYTES}. Pass references.`,
        { field: 'input' },
      );
    }
    this.followUps.push(followUp);
  }

  /** Runs to the end, then calls `done`. Never throws. */
  run(done: (outcome: AttemptOutcome) => void): void {
    this.#done = done;
    // The claim was answered when the lease was over: nothing of the task starts, not even a beat.
    if (this.task.lost) {
      this.task.announce('task_left_to_lapse', { cause: 'late-claim' });
      void this.#conclude({ error: this.task.lost });
      return;
    }
    this.services.heartbeat.keep(this);
    this.task.carryProgress(this.stage, this.reason);
    if (this.task.record.closing) void this.#conclude();
    else this.#handle();
  }

  #handle(then?: (end: HandlerEnd) => unknown): void {
    this.#run = new HandlerRun(this, then);
    this.#run.start();
  }

  /** The handler of a task that is not being closed has ended. */
  handlerEnded(end: HandlerEnd): void {
    void this.#conclude(end);
  }

  async #conclude(end?: HandlerEnd): Promise<void> {
    let outcome: AttemptOutcome;
    try {
      if (end === undefined) outcome = await this.#runClosing();
      else if (end === 'running') outcome = 'leaked';
      else outcome = 'value' in end ? await this.#returned(end.value) : await this.#threw(end.error);
    } catch (error) {
      // A fault of our own, or of a custom part: the lease lapses and the next delivery goes on from the record.
      this.task.announce('warning', {
        reason: 'attempt failed',
        errorCode: error instanceof Error ? error.name : 'unknown',
      });
      outcome = 'unknown';
    }
    this.#end();
    this.#done?.(outcome);
  }

  async #runClosing(): Promise<AttemptOutcome> {
    const { record } = this.task;
    this.closing = true;
    // The handler is run again only to learn how to read its effects back; it commits nothing. One that never ends cannot keep the task for ever:
    // what it has not reached in a few runs stays in doubt.
    const needsHandler =
      record.failures < Math.max(this.definition.attempts, record.closing?.failures ?? 0) + CLOSING_RUNS &&
      openEffects(record).some((name) => record.effects[name]?.lookUrl === undefined);
    if (needsHandler) {
      const end = await new Promise<HandlerEnd>((resolve) => this.#handle(resolve));
      if (end === 'running') return 'leaked';
    }
    return finishClosing(this, record.closing?.to === 'cancelled' ? 'cancelled' : 'dead-lettered');
  }

  /** Something of this attempt goes on that cannot be stopped: nothing is given back, the lease lapses. */
  leaked(until: Promise<unknown>): 'leaked' {
    const { services, port } = this;
    port.task.announce('handler_leaked', {
      cause: this.aborted.reason?.reason ?? 'tool-timeout',
      durationMs: services.clock.monotonic() - this.startedAt,
    });
    void until.then(() => services.onLeakEnded?.());
    return 'leaked';
  }

  async #returned(value: unknown): Promise<AttemptOutcome> {
    const aborted = this.aborted.reason?.reason;
    if (this.port.task.lost) return this.#rejectAs('lost', value);
    // Done in time after all: a drain, a cap or a cancellation only asked the handler to end. Whether a cancellation wins, the ledger decides.
    if (aborted === undefined || aborted === 'draining' || aborted === 'lease-cap' || aborted === 'cancelled')
      return this.#settle(value);
    this.reject(value);
    return this.#threw(this.aborted.reason);
  }

  async #settle(value: unknown): Promise<AttemptOutcome> {
    const { task } = this.port;
    const { clock, contentStore } = this.services;
    let result: Content | undefined;
    try {
      result = contentStore
        ? await boundedCall(clock, 'storing the result', this.definition.toolMs, (signal) =>
            stowResult(value, { signal, store: contentStore }),
          )
        : await stowResult(value);
    } catch (error) {
      this.reject(value);
      return this.#failed(error, undefined);
    }
    const storeTime = await task.storeTime(Math.floor(task.timing.marginMs / 2));
    const receipt = receiptOf(task, this.lastEffect, value, storeTime?.latest ?? clock.wall());
    this.services.heartbeat.drop(this);
    const answer = await this.port.settle({
      receipt,
      ...(result && { result }),
      ...(this.followUps.length > 0 && { next: this.followUps }),
    });
    this.result = value;
    if (answer === 'settled') return 'settled';
    if (answer === 'unknown') return this.#rejectAs('unknown', value);
    if ('lost' in answer) return this.#rejectAs('lost', value);
    this.reject(value);
    this.services.heartbeat.keep(this);
    if (task.record.cancelRequested)
      return close(this, 'cancelled', { errorClass: 'cancelled', code: 'cancelled', message: 'cancelled on request' });
    const open = new LeaseholdError(
      'in-doubt',
      `The handler returned although ${answer.refused.message}; let the error of ctx.effect end it, and keep the name of an effect across versions.`,
    );
    task.announce('warning', { reason: 'settle refused', cause: answer.refused.refused });
    return this.#failed(open, undefined);
  }

  async #threw(error: unknown): Promise<AttemptOutcome> {
    const { task } = this.port;
    const cause = this.aborted.reason?.reason;
    if (task.lost || cause === 'lost') return 'lost';
    if (cause === 'cancelled' || (error instanceof ClosingSignal && task.record.cancelRequested)) {
      return close(this, 'cancelled', { errorClass: 'cancelled', code: 'cancelled', message: 'cancelled on request' });
    }
    if (error instanceof HandOffSignal) return handOff(this, error.message);
    if (error instanceof AskHumanSignal && cause === undefined) return askHuman(this, error.message);
    if (cause === 'draining') return release(this, toTaskError(this.aborted.reason), 0, false);
    if (isPermanentError(error) && cause === undefined) return close(this, 'dead-lettered', toTaskError(error));
    return this.#failed(
      cause === undefined ? error : this.aborted.reason,
      isRetryableError(error) ? error.delayMs : undefined,
    );
  }

  async #failed(error: unknown, delayMs: number | undefined): Promise<AttemptOutcome> {
    const { record } = this.port.task;
    const reason = toTaskError(error);
    const failures = record.failures + 1;
    const capped = this.aborted.reason?.reason === 'lease-cap';
    if (failures >= this.definition.attempts && !(capped && this.progressed))
      return close(this, 'dead-lettered', reason);
    // In place, the broker would go on counting from where it is.
    if (capped) return handOff(this, reason.message);
    return release(this, reason, delayMs ?? backoffDelay(this.definition.backoff, failures), true);
  }

  #rejectAs(outcome: AttemptOutcome, value: unknown): AttemptOutcome {
    this.reject(value);
    return outcome;
  }

  /** The result came too late or under a lost lease: reported, never stored as the outcome. */
  reject(value: unknown): void {
    rejectResult(this.port.task, this.lastEffect, value, this.services.onRejected);
  }

  /** Calls that go on although nobody waits for them any longer. */
  get abandoned(): readonly Promise<unknown>[] {
    return this.#outside?.abandoned ?? [];
  }

  #end(): void {
    this.over = true;
    this.limits.stop();
    this.services.heartbeat.drop(this);
    this.task.unwatch(this);
    // Whoever still waits on the signal learns that there is nothing left to do.
    if (this.aborted.watched) this.aborted.abort(new TaskAborted('lost', 'the attempt has ended'));
    this.#outside?.over();
  }
}
