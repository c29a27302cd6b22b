import { keepsMessage, type CancelOutcome, type TaskClient } from '@leasehold/core';
import { CliFailure, EXIT } from './failure.ts';
import { checkTaskName, findTask, tasksBeginning } from './find-task.ts';
import { withLedger, type StoreOptions } from './open-ledger.ts';
import { plain, shortId } from './wording.ts';

interface CancelOptions extends StoreOptions {
  readonly run?: string;
  readonly unclaimed?: boolean;
  readonly json?: boolean;
}

/** What became of it; `recorded: false`: nothing was known of the task, and what was written waits for one that may come under this id. */
type Outcome = CancelOutcome & { readonly recorded?: false };

/** The beginning of a hash, as `list` prints it; of a follow-up the beginning of its parent's. */
const CUT_SHORT = /^[0-9a-f]{0,63}(?::|$)/i;
/** A hash, or a follow-up of one: nothing else begins like it but its own follow-ups. */
const WHOLE = /^[0-9a-f]{64}(?::|$)/;
const REASON = 'cancelled on the command line';
const MOST_NAMED = 5;

/** `leasehold cancel` */
export async function cancelCommand(name: string | undefined, options: CancelOptions): Promise<number> {
  const { run } = options;
  if ((name === undefined) === (run === undefined))
    throw new CliFailure(2, 'name one task, or the run of several with --run <id>.');
  if (options.unclaimed && run !== undefined)
    throw new CliFailure(2, '--unclaimed goes with a task: of a run only recorded tasks are known.');
  if (name !== undefined) checkTaskName(name);
  const outcomes = await withLedger<readonly Outcome[]>(options, ({ client }) =>
    run === undefined ? cancelOne(client, name ?? '', options.unclaimed ?? false) : cancelRun(client, run),
  );
  if (options.json) process.stdout.write(`${JSON.stringify(outcomes)}\n`);
  else for (const outcome of outcomes) process.stdout.write(`${describe(outcome)}\n`);
  return outcomes.some(({ outcome }) => outcome === 'refused') ? EXIT.failed : EXIT.ok;
}

async function cancelOne(client: TaskClient, name: string, unclaimed: boolean): Promise<readonly Outcome[]> {
  const known = !unclaimed || CUT_SHORT.test(name) ? await findTask(client, name) : (await client.status(name)).record;
  if (known) {
    const outcomes = await client.cancel(known.taskId, REASON);
    if (
      known.state === 'waiting_human' &&
      keepsMessage(known) &&
      outcomes.some(({ outcome }) => outcome === 'requested')
    )
      process.stderr.write(
        `note: ${shortId(known.taskId)} waited for a person, so its message is parked; after a minute "leasehold sweep --queue QUEUE" sends it\n`,
      );
    return outcomes;
  }
  if (!unclaimed)
    throw new CliFailure(
      1,
      `no task is known as ${name}: look for it with "leasehold list". One that still waits in the queue can be cancelled by its full id with --unclaimed.`,
    );
  if (CUT_SHORT.test(name))
    throw new CliFailure(
      2,
      `${name} looks like an id that was cut short, and no record begins with it: give the full id, which "leasehold list --json" shows, and whoever dispatched the task was told. Nothing was written. Where it is a whole id of your own making, cancel it in code: createTaskClient({ ledger }).cancel(id).`,
    );
  // An id of somebody's own making may well be the beginning of another: that one is not meant, but may have been.
  for (const { taskId } of WHOLE.test(name) ? [] : (await tasksBeginning(client, name)).slice(0, MOST_NAMED))
    process.stderr.write(`note: ${shortId(taskId)} begins like it, and is left as it is\n`);
  const outcomes = await client.cancel(name, REASON);
  return outcomes.map((outcome) => (outcome.outcome === 'cancelled' ? { ...outcome, recorded: false } : outcome));
}

async function cancelRun(client: TaskClient, run: string): Promise<readonly CancelOutcome[]> {
  const outcomes = await client.cancel({ agentRunId: run }, REASON);
  if (outcomes.length > 0) return outcomes;
  throw new CliFailure(
    1,
    `run ${run} has no recorded task that has not ended: "leasehold list --run ${run}" shows what is known of it.`,
  );
}

function describe(outcome: Outcome): string {
  if (outcome.recorded === false)
    return `no record of ${plain(outcome.taskId)} was there; a task enqueued under exactly this id will not run`;
  const task = shortId(outcome.taskId);
  switch (outcome.outcome) {
    case 'cancelled':
      return `${task} is cancelled`;
    case 'requested':
      return `${task} is to be cancelled: an effect is open, so its owner, or the next one, reads it back first; if the effect exists, the task is not cancelled but runs on to its end, with the effects that are left`;
    case 'refused':
      return `${task} was not cancelled: ${plain(outcome.message)}`;
  }
}
