export { defineTask, type TaskDefinition, type TaskLimits, type TaskOptions } from './define-task.ts';
export type { CallContext, CallOptions, HumanAnswer, TaskContext } from './task-context.ts';
export type {
  AnsweredEffect,
  CommitContext,
  EffectParts,
  GuardedEffect,
  ReadableEffect,
  ReadBackContext,
  VerifiedEffect,
} from './effect-options.ts';
export { guarded, type GuardedLook, type LookedUp } from './guarded.ts';
export { EffectInDoubt } from './effect.ts';
export { isTaskAborted, TaskAborted, type AbortCause } from './abort-reason.ts';
export type { InputSchema, SchemaResult } from './standard-schema.ts';
export { createWorker, type StopReport, type Worker, type WorkerHealth, type WorkerStats } from './worker.ts';
export type { AnyTask, Logger, WeightedBroker, WorkerOptions } from './worker-options.ts';
export { withLease, type WithLeaseOptions, type WithLeaseResult } from './with-lease.ts';
export type { AttemptOutcome } from './attempt-services.ts';
export { PermanentError, RetryableError } from '@leasehold/core';
