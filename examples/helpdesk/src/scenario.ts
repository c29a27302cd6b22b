import type { TaskClient, TaskRecord } from '@leasehold/core';
import type { FaultName, FaultPlan, LetGo } from './child-messages.ts';
import type { Gathering } from './evidence.ts';
import type { Child } from './fleet.ts';
import { freeze } from './freeze.ts';

/** The calls that are hit, by idempotency key. Any would do; these come early, and one of each kind of trouble. */
export const HIT: FaultPlan = {
  kill: 'run_a41c/case/C-20417/mail-88121',
  stop: 'run_d5f8/case/C-20533/rma-4403',
  drop: 'run_b7e2/case/C-20644/inv-7752',
  cancel: 'run_c093/index/returns-policy/2025-04-14',
};

/** What a scenario works with. */
export interface Stage {
  readonly plan: FaultPlan;
  readonly gathering: Gathering;
  readonly client: TaskClient;
  readonly signal: AbortSignal;
  /** Whether the others can work while a worker is stopped just now. */
  isFree(): boolean;
  childAt(pid: number): Child;
  letGo(message: LetGo): void;
  /** A worker in the place of one that is gone. */
  replace(child: Child): Promise<void>;
  /** Sends a task's message once more, as an agent does that never got its answer. */
  resend(taskId: string): Promise<void>;
  /** For people. */
  note(text: string): void;
}

/** Everything that is done to the tasks on purpose. Resolves when all of it was done and has been answered for. */
export async function playScenario(stage: Stage): Promise<void> {
  await Promise.all([
    killBetweenCommitAndSettle(stage),
    stopPastTheLease(stage),
    loseAnAnswer(stage),
    cancelFromOutside(stage),
  ]);
}

async function killBetweenCommitAndSettle(stage: Stage): Promise<void> {
  const { gathering, note } = stage;
  const { pid, taskId } = await gathering.moment('kill');
  const child = stage.childAt(pid);
  await child.kill();
  note(`${child.name} was killed (SIGKILL) between commit and settle of ${short(taskId)}`);
  stage.letGo({ kind: 'let-go', fault: 'kill', killed: pid });
  await stage.replace(child);
  const record = await settled(stage, taskId);
  note(`${short(taskId)} was taken over with token ${record.fencingToken}, read back, and settled`);
}

async function stopPastTheLease(stage: Stage): Promise<void> {
  const { gathering, note } = stage;
  const { pid, taskId } = await gathering.moment('stop');
  const child = stage.childAt(pid);
  await freeze(child, () => stage.isFree(), stage.signal);
  note(`${child.name} was stopped (SIGSTOP) between the last check and the call of ${short(taskId)}`);
  // The worker finds the service's pass when it goes on; its very next step is the call.
  release(stage, 'stop');
  const record = await settled(stage, taskId);
  child.resume();
  note(
    `${child.name} goes on (SIGCONT) after ${short(taskId)} was settled by another with token ${record.fencingToken}`,
  );
  await gathering.until('the stale call to be refused', () =>
    gathering.service.some((said) => isStaleCall(said, taskId)),
  );
  note(`its late call was refused: stale token`);
}

async function loseAnAnswer(stage: Stage): Promise<void> {
  const { gathering, note } = stage;
  const { taskId } = await gathering.moment('drop');
  release(stage, 'drop');
  note(`the answer to ${short(taskId)} is dropped after the service committed`);
  await settled(stage, taskId);
  note(`${short(taskId)} was read back, not made again`);
  await stage.resend(taskId);
  note(`${short(taskId)} is sent once more`);
  await gathering.until('the replay', () =>
    gathering.workers.some(({ event }) => event.name === 'task_replayed' && event.taskId === taskId),
  );
  note(`${short(taskId)} was answered from its receipt`);
}

async function cancelFromOutside(stage: Stage): Promise<void> {
  const { gathering, note } = stage;
  const { taskId } = await gathering.moment('cancel');
  const [outcome] = await stage.client.cancel(taskId, 'the policy was withdrawn');
  note(`${short(taskId)} is cancelled while it runs: ${outcome?.outcome ?? 'no answer'}`);
  release(stage, 'cancel');
}

function release(stage: Stage, fault: FaultName): void {
  stage.letGo({ kind: 'let-go', fault });
}

function settled(stage: Stage, taskId: string): Promise<TaskRecord> {
  return stage.gathering.until(`${short(taskId)} to settle`, () => {
    const record = stage.gathering.records.get(taskId);
    return record?.state === 'settled' && record;
  });
}

/** Whether the guard refused a call of this task because it knew a higher token. */
export function isStaleCall(said: Gathering['service'][number], taskId: string): boolean {
  return (
    said.kind === 'guard' &&
    said.event.name === 'guard_refused' &&
    said.event.problem === 'stale-token' &&
    said.event.scope === taskId
  );
}

/** Enough of a task's id to tell it from the others. */
export function short(taskId: string): string {
  return taskId.replace(/[0-9a-f]{64}/, (hash) => hash.slice(0, 8));
}
