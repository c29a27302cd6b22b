// The producer in a process of its own. Killed, it goes on where its journal ends.
import { setTimeout as pause } from 'node:timers/promises';
import { cloudEvents, createLeaseBroker, createTaskClient, type Json, type NewTask } from '@leasehold/core';
import { Seeded } from '../simulation/seeded.ts';
import { startOptions, tellParent, watchClock, type ProducerStart } from './child.ts';
import { driversOf } from './drivers.ts';
import { openJournal, readJournals } from './journal.ts';
import { moment } from './moments.ts';
import { planTasks, type PlannedTask, type Step } from './task-plan.ts';
import { hash } from './tasks.ts';
import { unreliable } from './unreliable.ts';

const AGAIN_MS = 300;
/** An unreadable message: what a producer sends whose connection breaks in the middle. */
const poison = (mark: string): string =>
  `{"specversion":"1.0","type":"ticket","id":"${mark}","source":"leasehold","data":{`;

async function main(): Promise<void> {
  const start = startOptions() as ProducerStart;
  const { who, journals, seed } = start;
  const say = openJournal(journals, who);
  watchClock(start, say);
  const chance = new Seeded(seed ^ hash(who));
  const drivers = driversOf(start.connection);
  const driver = unreliable(drivers.broker(), ['send'], chance);
  const ledger = drivers.ledger();
  const broker = createLeaseBroker({ driver, ledger });
  const client = createTaskClient({ broker, ledger });
  const { steps } = planTasks(start);
  const done = new Set(readJournals(journals, 'producer').flatMap((said) => (said.kind === 'step' ? [said.step] : [])));

  const raw = async (body: Uint8Array, attributes: Readonly<Record<string, string>> = {}): Promise<boolean> => {
    const [sent] = await driver.send([{ body, attributes }], AbortSignal.timeout(10_000));
    return sent !== undefined && 'messageId' in sent;
  };
  /** True when the step is done; false when it has to be tried again. */
  const take = async (step: Step): Promise<boolean> => {
    switch (step.kind) {
      case 'enqueue': {
        const [outcome] = await client.enqueue([newTask(step.task, step.delayMs)]);
        return outcome?.ok === true;
      }
      case 'copy':
        return raw(messageOf(step.task, step.task.job));
      case 'poison':
        return raw(new TextEncoder().encode(poison(step.mark)));
      case 'impostor':
        // Only beside a record: whoever is claimed first is the task.
        if (!(await client.status(step.task.taskId)).record) return false;
        return raw(messageOf(step.task, { ...step.task.job, order: step.mark }));
      case 'cancel':
      case 'cancel-run': {
        const outcomes = await client.cancel(step.kind === 'cancel' ? step.task.taskId : { agentRunId: step.run });
        for (const { taskId, outcome } of outcomes) say({ kind: 'cancelled', taskId, outcome });
        return true;
      }
    }
  };

  say({ kind: 'ready' });
  tellParent({ kind: 'ready' });
  const open = steps
    .map((step, index) => ({ step, index, notBefore: step.at }))
    .filter(({ index }) => !done.has(index));
  while (open.length > 0) {
    const now = moment() - start.startedAt;
    const due = open.filter(({ notBefore }) => notBefore <= now);
    for (const entry of due) {
      let finished = false;
      try {
        finished = await take(entry.step);
      } catch (error) {
        say({ kind: 'warning', text: `step ${entry.index} failed: ${String(error)}` });
      }
      // Told only when it is done: killed before that, it is done once more.
      if (finished) {
        say({ kind: 'step', step: entry.index, taskIds: 'task' in entry.step ? [entry.step.task.taskId] : [] });
        open.splice(open.indexOf(entry), 1);
      } else entry.notBefore = now + AGAIN_MS;
    }
    await pause(20);
  }
  await broker.close();
  say({ kind: 'finished' });
  process.disconnect();
}

function newTask(task: PlannedTask, delayMs?: number): NewTask {
  const { taskId, kind, job, run } = task;
  return {
    type: kind,
    taskId,
    input: job,
    ...(run !== undefined && { agentRunId: run }),
    ...(delayMs !== undefined && { delayMs }),
  };
}

function messageOf({ taskId, kind, run }: PlannedTask, payload: object): Uint8Array {
  const { body } = cloudEvents().encode({
    type: kind,
    taskId,
    idempotencyKey: taskId,
    payload: payload as Json,
    ...(run !== undefined && { agentRunId: run }),
  });
  return body;
}

void main();
