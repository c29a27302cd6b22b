import { createTaskClient, type TaskClient, type TaskClientParts } from '@leasehold/core';
import { CliFailure, EXIT } from '../failure.ts';
import { checkTaskName, needTask } from '../find-task.ts';
import { withLedger, type StoreOptions } from '../open-ledger.ts';
import { plain, shortId } from '../wording.ts';
import { withQueue } from './open-queue.ts';

interface AnswerOptions extends StoreOptions {
  readonly reason?: string;
  readonly json?: boolean;
}

/** `leasehold approve` */
export async function approveCommand(name: string, options: AnswerOptions): Promise<number> {
  checkTaskName(name);
  return withQueue(
    options,
    ({ client, ledger, broker }) => answer(client, { ledger, broker }, name, true, options),
    true,
  );
}

/** `leasehold reject`, which sends nothing: the message stays in the record, for a redrive. */
export async function rejectCommand(name: string, options: AnswerOptions): Promise<number> {
  checkTaskName(name);
  return withLedger(options, ({ client, ledger }) => answer(client, { ledger }, name, false, options));
}

async function answer(
  client: TaskClient,
  parts: TaskClientParts,
  name: string,
  approve: boolean,
  options: AnswerOptions,
): Promise<number> {
  const record = await needTask(client, name);
  const question = record.human?.at(-1)?.question;
  const outcome = await createTaskClient(parts).answer(record.taskId, { approve, reason: options.reason ?? '' });
  if (options.json)
    process.stdout.write(`${JSON.stringify({ taskId: record.taskId, question, approve, ...outcome })}\n`);
  if (!outcome.done) throw new CliFailure(1, `${shortId(record.taskId)} was not answered: ${plain(outcome.message)}.`);
  if (!options.json) {
    if (question !== undefined) process.stdout.write(`asked: ${plain(question)}\n`);
    process.stdout.write(`${shortId(record.taskId)}: ${plain(outcome.message)}\n`);
  }
  // Approved but not on its way: the same command again, or a sweep, sends it.
  return approve && !outcome.sent ? EXIT.failed : EXIT.ok;
}
