import type { Json, Ownership, Stage } from '@leasehold/core';
import type { AnsweredEffect, GuardedEffect, ReadableEffect, VerifiedEffect } from './effect-options.ts';
import type { LookedUp } from './guarded.ts';
import type { TaskDefinition } from './define-task.ts';

/** What a tool call gets. */
export interface CallContext {
  /** Aborts at the call's timeout and with the attempt. */
  readonly signal: AbortSignal;
  /** Names this one request, for the provider's logs and ours. */
  readonly requestId: string;
}

/** How a tool call is bounded and named. */
export interface CallOptions {
  readonly provider?: string;
  readonly model?: string;
  /** Default: the task's `limits.tool`. */
  readonly timeout?: number | string;
}

/** A person's yes. */
export interface HumanAnswer {
  readonly reason: string;
  /** Epoch milliseconds of the ledger's clock. */
  readonly answeredAt: number;
}

/** What a handler can do besides its own work. Its members may be taken out of it (`const { signal, effect } = ctx`); a copy made by spreading has not all of them. */
export interface TaskContext {
  readonly taskId: string;
  readonly agentRunId?: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** The fencing token, for receivers that are called outside of `effect`. */
  readonly fence: number;
  readonly idempotencyKey: string;
  readonly traceparent?: string;
  /** Aborts with a `TaskAborted` as reason: lost, stalled, stage-limit, cancelled, draining, lease-cap. */
  readonly signal: AbortSignal;
  /** The wall-clock instant (epoch milliseconds) at which this attempt's time is capped, if it is; `onCapNear` listeners are called before. */
  readonly deadline?: number;
  readonly ownership: Ownership;
  /** What an earlier attempt kept with `checkpoint`. */
  readonly checkpointed: Json | undefined;
  /** Enters a stage, with a reason for people. Rides on the next write. */
  stage(stage: Exclude<Stage, 'settled'>, reason: string): void;
  /** Claims progress within the stage, such as "chunk 3 of 12". */
  progress(reason: string): void;
  /** Runs a tool call that changes nothing irrevocably, with a timeout of its own. */
  call<Result>(
    name: string,
    options: CallOptions,
    run: (call: CallContext) => Promise<Result> | Result,
  ): Promise<Result>;
  /** Makes one irreversible call at most once: intent, commit, read-back, receipt. Which read-back there is says what the receipt is made from. */
  effect<Committed>(name: string, options: GuardedEffect<Committed>): Promise<VerifiedEffect<LookedUp>>;
  /** Reads back by a function of yours. */
  effect<Committed, Found>(name: string, options: ReadableEffect<Committed, Found>): Promise<VerifiedEffect<Found>>;
  /** Takes commit's own answer as proof. */
  effect<Committed>(name: string, options: AnsweredEffect<Committed>): Promise<VerifiedEffect<Committed>>;
  /** Keeps what the next attempt should start from. Resolves when it is stored. */
  checkpoint(data: unknown): Promise<void>;
  /** Passes the task on to a fresh attempt, which finds the checkpoint. Ends this one: never resolves. */
  handOff(reason?: string): Promise<never>;
  /**
   * Waits for a person. Ends this attempt unless the question was answered: the message is acknowledged, the task is `waiting_human`, and after
   * `approve` it runs again from the start and gets the answer here. After `reject` it is dead-lettered.
   */
  askHuman(question: string): Promise<HumanAnswer>;
  /** Asks for a follow-up task, sent after this one settled. Answers its id. */
  next(task: string | Pick<TaskDefinition, 'type'>, input: unknown): string;
  /** Calls `listener` once, when the end of this attempt's time comes near. */
  onCapNear(listener: () => void): void;
}
