import type { CancelOutcome, TaskClient } from '@leasehold/core';
import { CliFailure, EXIT } from './failure.ts';
import { findTask } from './find-task.ts';
import { withLedger, type StoreOptions } from './open-ledger.ts';
import { plain, shortId } from './wording.ts';

interface CancelOptions extends StoreOptions {
  readonly run?: string;
  readonly unclaimed?: boolean;
  readonly json?: boolean;
}

const REASON = 'cancelled on the command line';

/** `leasehold cancel` */
export async function cancelCommand(name: string | undefined, options: CancelOptions): Promise<number> {
  const { run } = options;
  if ((name === undefined) === (run === undefined))
    throw new CliFailure(2, 'name one task, or the run of several with --run <id>.');
  if (options.unclaimed && run !== undefined)
    throw new CliFailure(2, '--unclaimed goes with a task: of a run only recorded tasks are known.');
  const outcomes = await withLedger(options, ({ client }) =>
    run === undefined ? cancelOne(client, name ?? '', options.unclaimed ?? false) : cancelRun(client, run),
  );
  if (options.json) process.stdout.write(`${JSON.stringify(outcomes)}\n`);
  else for (const outcome of outcomes) process.stdout.write(`${describe(outcome)}\n`);
  return outcomes.some(({ outcome }) => outcome === 'refused') ? EXIT.failed : EXIT.ok;
}

async function cancelOne(client: TaskClient, name: string, unclaimed: boolean): Promise<readonly CancelOutcome[]> {
  const taskId = unclaimed ? name : (await findTask(client, name))?.taskId;
  if (taskId !== undefined) return client.cancel(taskId, REASON);
  throw new CliFailure(
    1,
    `no task is known as ${name}: look for it with "leasehold list". One that still waits in the queue can be cancelled by its full id with --unclaimed.`,
  );
}

async function cancelRun(client: TaskClient, run: string): Promise<readonly CancelOutcome[]> {
  const outcomes = await client.cancel({ agentRunId: run }, REASON);
  if (outcomes.length > 0) return outcomes;
  throw new CliFailure(
    1,
    `run ${run} has no recorded task that has not ended: "leasehold list --run ${run}" shows what is known of it.`,
  );
}

function describe(outcome: CancelOutcome): string {
  const task = shortId(outcome.taskId);
  switch (outcome.outcome) {
    case 'cancelled':
      return `${task} is cancelled`;
    case 'requested':
      return `${task} is to be cancelled: an effect is open, so its owner, or the next one, reads it back and closes the task`;
    case 'refused':
      return `${task} was not cancelled: ${plain(outcome.message)}`;
  }
}
