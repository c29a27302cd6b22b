export type { CallPoint, OutsideCall, StepName } from './call-point.ts';
export type { DoubleAnswer } from './double-answer.ts';
export {
  receiverDouble,
  type AnsweredRequest,
  type DoubleRequest,
  type Made,
  type ReceiverDouble,
  type ReceiverDoubleOptions,
} from './receiver-double.ts';
export type { PauseOption, RunTaskOptions } from './run-options.ts';
export { runTask, type RunOutcome, type TaskRun } from './run-task.ts';
export { currentScene, type DeclaredEffect, type Manner, type Scene } from './scene.ts';
