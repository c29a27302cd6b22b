import {
  boundedCall,
  isPermanentError,
  isRetryableError,
  LeaseholdError,
  MAX_INLINE_BYTES,
  PermanentError,
  readContent,
  stowResult,
} from '@leasehold/core';
import { backoffDelay, openEffects } from '@leasehold/core';
import type { Content, FollowUp, Lost, Outcome, Stage, TaskError, TaskMessage } from '@leasehold/core';
import { TaskAborted, type AbortCause } from './abort-reason.ts';
import type { AttemptPort } from './attempt-port.ts';
import { receiptOf, rejectResult } from './attempt-result.ts';
import type { AttemptOutcome, AttemptServices } from './attempt-services.ts';
import { closeOpenEffects } from './closing.ts';
import type { TaskDefinition } from './define-task.ts';
import type { EffectHost } from './effect.ts';
import { ClosingSignal } from './effect.ts';
import type { EffectOptions, VerifiedEffect } from './effect-options.ts';
import { createContext, HandOffSignal } from './context.ts';
import { createEffectHost } from './effect-host.ts';
import { AskHumanSignal } from './human.ts';
import type { Kept } from './heartbeat.ts';
import { watchLimits, type LimitWatch } from './limits.ts';
import { OutsideCalls } from './outside-calls.ts';
import { endedInTime } from './patience.ts';
import { toTaskError } from './redact.ts';
import { issuePaths } from './standard-schema.ts';

type HandlerEnd = { readonly value: unknown } | { readonly error: unknown } | 'running';

/** One attempt at one task: runs the handler under the lease and gives the task its next state. */
export class Attempt {
  readonly port: AttemptPort;
  readonly definition: TaskDefinition;
  readonly message: TaskMessage;
  readonly services: AttemptServices;
  readonly limits: LimitWatch;
  /** The task may settle while one of these is abandoned, but nothing gives it back. */
  readonly outside: OutsideCalls = new OutsideCalls();
  readonly effects: Map<string, EffectOptions<unknown, unknown>> = new Map();
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
  readonly #controller = new AbortController();
  readonly #kept: Kept;
  readonly #host: EffectHost;
  readonly #unwatch: () => void;
  #aborted: { readonly cause: AbortCause; readonly at: number } | undefined;

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
    const { task } = this.port;
    const { clock } = this.services;
    this.startedAt = clock.monotonic();
    this.#kept = {
      task,
      brokerUntil: () => this.port.brokerUntil(),
      beat: () => this.port.renew({ stage: this.stage, reason: this.reason }),
      lost: (loss) => this.#loseWith(loss),
    };
    this.limits = watchLimits({
      clock,
      definition: this.definition,
      capAt: this.port.capAt,
      marginMs: task.timing.marginMs,
      near: (leftMs) => task.announce('lease_cap_near', { durationMs: leftMs }),
      failed: (error) =>
        task.announce('warning', {
          reason: 'onCapNear failed',
          errorCode: error instanceof Error ? error.name : 'unknown',
        }),
      over: (cause, message) => {
        // A stalled handler's claim of progress is not believed any longer: nothing renews it.
        if (cause !== 'lease-cap') this.services.heartbeat.drop(this.#kept);
        this.abort(cause, message);
      },
    });
    this.#unwatch = task.watch(() => {
      if (task.lost) this.#loseWith(task.lost);
      else if (task.record.cancelRequested && !this.closing)
        this.abort('cancelled', 'the task was cancelled from outside');
    });
    this.#host = createEffectHost(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get host(): EffectHost {
    return this.#host;
  }

  get kept(): Kept {
    return this.#kept;
  }

  /** Ends the handler's right to go on. The first cause stays. */
  abort(cause: AbortCause, message: string): void {
    if (this.#aborted || this.over) return;
    this.#aborted = { cause, at: this.services.clock.monotonic() };
    const { task } = this.port;
    task.announce('handler_aborted', { cause, ownership: task.ownership(), lastConfirmedAt: task.lastConfirmedAt });
    this.#controller.abort(new TaskAborted(cause, message));
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

  /** Runs to the end. Never rejects. */
  async run(): Promise<AttemptOutcome> {
    this.services.heartbeat.keep(this.#kept);
    this.port.task.carryProgress(this.stage, this.reason);
    try {
      return this.port.task.record.closing ? await this.#runClosing() : await this.#runHandler();
    } catch (error) {
      // A fault of our own, or of a custom part: the lease lapses and the next delivery goes on from the record.
      this.port.task.announce('warning', {
        reason: 'attempt failed',
        errorCode: error instanceof Error ? error.name : 'unknown',
      });
      return 'unknown';
    } finally {
      this.#end();
    }
  }

  async #runHandler(): Promise<AttemptOutcome> {
    const end = await this.#handlerEnd(() => this.#invoke());
    if (end === 'running') return 'leaked';
    return 'value' in end ? this.#returned(end.value) : this.#threw(end.error);
  }

  async #runClosing(): Promise<AttemptOutcome> {
    const closing = this.port.task.record.closing as NonNullable<typeof this.port.task.record.closing>;
    this.closing = true;
    // The handler is run again only to learn how to read its effects back; it commits nothing.
    const needsHandler = openEffects(this.port.task.record).some(
      (name) => this.port.task.record.effects[name]?.lookUrl === undefined,
    );
    if (needsHandler) {
      const end = await this.#handlerEnd(() => this.#invoke());
      if (end === 'running') return 'leaked';
    }
    return this.#finishClosing(closing.to === 'cancelled' ? 'cancelled' : 'dead-lettered');
  }

  async #invoke(): Promise<unknown> {
    const { definition, message } = this;
    let input: unknown = message.payload;
    if (definition.input) {
      const checked = await definition.input['~standard'].validate(message.payload);
      if (checked.issues)
        throw new PermanentError(`The payload does not fit the input of ${definition.type}: ${issuePaths(checked)}.`);
      input = checked.value;
    }
    const checkpoint = await readContent(this.port.task.record.checkpoint, this.services.contentStore, this.signal);
    return definition.run(input, createContext(this, checkpoint));
  }

  /** The handler's end and that of every outside call it started, or `running` when it outlived its grace after an abort. */
  async #handlerEnd(invoke: () => Promise<unknown>): Promise<HandlerEnd> {
    const { clock, graceMs } = this.services;
    let end: HandlerEnd = 'running';
    const ended = invoke()
      .then(
        (value) => (end = { value }),
        (error: unknown) => (end = { error }),
      )
      .then(() => this.outside.ended());
    if (await endedInTime(clock, ended, this.signal, graceMs)) return end;
    this.#leaked(
      ended.then(() => {
        if (end !== 'running' && 'value' in end) this.#reject(end.value);
      }),
    );
    return 'running';
  }

  /** Something of this attempt goes on that cannot be stopped: nothing is given back, the lease lapses. */
  #leaked(until: Promise<unknown>): 'leaked' {
    const { services, port } = this;
    port.task.announce('handler_leaked', {
      cause: this.#aborted?.cause ?? 'tool-timeout',
      durationMs: services.clock.monotonic() - this.startedAt,
    });
    void until.then(() => services.onLeakEnded?.());
    return 'leaked';
  }

  async #returned(value: unknown): Promise<AttemptOutcome> {
    const aborted = this.#aborted?.cause;
    if (this.port.task.lost) return this.#rejectAs('lost', value);
    // Done in time after all: a drain, a cap or a cancellation only asked the handler to end. Whether a cancellation wins, the ledger decides.
    if (aborted === undefined || aborted === 'draining' || aborted === 'lease-cap' || aborted === 'cancelled')
      return this.#settle(value);
    this.#reject(value);
    return this.#threw(this.signal.reason);
  }

  async #settle(value: unknown): Promise<AttemptOutcome> {
    const { task } = this.port;
    const { clock, contentStore } = this.services;
    let result: Content | undefined;
    try {
      result = await boundedCall(clock, 'storing the result', this.definition.toolMs, (signal) =>
        stowResult(value, { signal, ...(contentStore && { store: contentStore }) }),
      );
    } catch (error) {
      this.#reject(value);
      return this.#failed(error, undefined);
    }
    const receipt = receiptOf(task, this.lastEffect, value, (await this.#host.storeNow()) ?? clock.wall());
    this.services.heartbeat.drop(this.#kept);
    const answer = await this.port.settle({
      receipt,
      ...(result && { result }),
      ...(this.followUps.length > 0 && { next: this.followUps }),
    });
    this.result = value;
    if (answer === 'settled') return 'settled';
    if (answer === 'unknown') return this.#rejectAs('unknown', value);
    if ('lost' in answer) return this.#rejectAs('lost', value);
    this.#reject(value);
    this.services.heartbeat.keep(this.#kept);
    if (task.record.cancelRequested)
      return this.#close('cancelled', { errorClass: 'cancelled', code: 'cancelled', message: 'cancelled on request' });
    const open = new LeaseholdError(
      'in-doubt',
      `The handler returned although ${answer.refused.message}; let the error of ctx.effect end it, and keep the name of an effect across versions.`,
    );
    task.announce('warning', { reason: 'settle refused', cause: answer.refused.refused });
    return this.#failed(open, undefined);
  }

  async #threw(error: unknown): Promise<AttemptOutcome> {
    const { task } = this.port;
    const cause = this.#aborted?.cause;
    if (task.lost || cause === 'lost') return 'lost';
    if (cause === 'cancelled' || (error instanceof ClosingSignal && task.record.cancelRequested)) {
      return this.#close('cancelled', { errorClass: 'cancelled', code: 'cancelled', message: 'cancelled on request' });
    }
    if (error instanceof HandOffSignal) return this.#handOff(error.message);
    if (error instanceof AskHumanSignal && cause === undefined) return this.#askHuman(error.message);
    if (cause === 'draining') return this.#release(toTaskError(this.signal.reason), 0, false);
    if (isPermanentError(error) && cause === undefined) return this.#close('dead-lettered', toTaskError(error));
    return this.#failed(
      cause === undefined ? error : this.signal.reason,
      isRetryableError(error) ? error.delayMs : undefined,
    );
  }

  async #failed(error: unknown, delayMs: number | undefined): Promise<AttemptOutcome> {
    const { record } = this.port.task;
    const reason = toTaskError(error);
    const failures = record.failures + 1;
    const capped = this.#aborted?.cause === 'lease-cap';
    if (failures >= this.definition.attempts && !(capped && this.progressed))
      return this.#close('dead-lettered', reason);
    // In place, the broker would go on counting from where it is.
    if (capped) return this.#handOff(reason.message);
    return this.#release(reason, delayMs ?? backoffDelay(this.definition.backoff, failures), true);
  }

  async #askHuman(question: string): Promise<AttemptOutcome> {
    let outcome: Outcome;
    try {
      outcome = await this.port.askHuman(question);
    } catch (error) {
      // The message does not fit into the record, and will not the next time.
      return this.#close('dead-lettered', toTaskError(error));
    }
    this.services.heartbeat.drop(this.#kept);
    return outcome === 'done' ? 'waiting-human' : this.#notDone(outcome);
  }

  async #handOff(reason: string): Promise<AttemptOutcome> {
    if (this.outside.abandoned.length > 0) return this.#leaked(Promise.all(this.outside.abandoned));
    this.services.heartbeat.drop(this.#kept);
    const outcome = await this.port.handOff({ reason, progressed: this.progressed });
    return outcome === 'done' ? 'handed-off' : this.#notDone(outcome);
  }

  async #release(error: TaskError, delayMs: number, failure: boolean): Promise<AttemptOutcome> {
    if (this.outside.abandoned.length > 0) return this.#leaked(Promise.all(this.outside.abandoned));
    this.services.heartbeat.drop(this.#kept);
    const outcome = await this.port.release({ error, delayMs, failure });
    return outcome === 'done' ? 'released' : this.#notDone(outcome);
  }

  /** Out by another path than settling. With an effect open: a new token, read back, then the end. */
  async #close(to: 'dead-lettered' | 'cancelled', error: TaskError): Promise<AttemptOutcome> {
    const { task } = this.port;
    const open = openEffects(task.record).filter((name) => task.carriedFinding(name) === undefined);
    if (to === 'dead-lettered' && open.length === 0) {
      this.services.heartbeat.drop(this.#kept);
      const outcome = await this.port.deadLetter(error);
      return outcome === 'done' ? 'dead-lettered' : this.#notDone(outcome);
    }
    this.closing = true;
    this.services.heartbeat.keep(this.#kept);
    const closing = {
      to: to === 'cancelled' ? 'cancelled' : 'dead_lettered',
      reason: error.message,
      errorClass: error.errorClass,
    } as const;
    const begun = await this.port.beginClose(closing);
    if (begun !== 'done') return this.#notDone(begun);
    return this.#finishClosing(to);
  }

  async #finishClosing(to: 'dead-lettered' | 'cancelled'): Promise<AttemptOutcome> {
    await closeOpenEffects(this);
    this.services.heartbeat.drop(this.#kept);
    const ended = await this.port.endClose();
    if (ended !== 'done') return this.#notDone(ended);
    if (this.port.task.record.state !== 'running') return to;
    // What exists outside cannot be cancelled: the next attempt finds it verified and settles.
    const error = {
      errorClass: 'settle-wins',
      code: 'settle-wins',
      message: 'an effect exists already, so the task goes on to settle',
    };
    return this.#release(error, 0, false);
  }

  #notDone(outcome: Exclude<Outcome, 'done'>): AttemptOutcome {
    if (outcome === 'unknown') return 'unknown';
    return 'lost' in outcome ? 'lost' : 'unknown';
  }

  #rejectAs(outcome: AttemptOutcome, value: unknown): AttemptOutcome {
    this.#reject(value);
    return outcome;
  }

  /** The result came too late or under a lost lease: reported, never stored as the outcome. */
  #reject(value: unknown): void {
    rejectResult(this.port.task, this.lastEffect, value, this.services.onRejected);
  }

  #loseWith(loss: Lost): void {
    this.services.heartbeat.drop(this.#kept);
    this.abort('lost', loss.message);
  }

  #end(): void {
    this.over = true;
    this.limits.stop();
    this.services.heartbeat.drop(this.#kept);
    this.#unwatch();
    // Whoever still waits on the signal learns that there is nothing left to do.
    if (!this.signal.aborted) this.#controller.abort(new TaskAborted('lost', 'the attempt has ended'));
  }
}
