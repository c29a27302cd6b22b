import { createTaskClient } from '@leasehold/core';
import { CliFailure, EXIT } from '../failure.ts';
import { needTask } from '../find-task.ts';
import type { StoreOptions } from '../open-ledger.ts';
import { plain, shortId } from '../wording.ts';
import { withQueue } from './open-queue.ts';

interface AnswerOptions extends StoreOptions {
  readonly reason?: string;
  readonly json?: boolean;
}

/** `leasehold approve` and `leasehold reject` */
export async function answerCommand(approve: boolean, name: string, options: AnswerOptions): Promise<number> {
  return withQueue(options, async ({ client, ledger, broker }) => {
    const record = await needTask(client, name);
    const question = record.human?.at(-1)?.question;
    const sender = createTaskClient({ ledger, broker });
    const outcome = await sender.answer(record.taskId, { approve, reason: options.reason ?? '' });
    if (options.json)
      process.stdout.write(`${JSON.stringify({ taskId: record.taskId, question, approve, ...outcome })}\n`);
    if (!outcome.done)
      throw new CliFailure(1, `${shortId(record.taskId)} was not answered: ${plain(outcome.message)}.`);
    if (!options.json) {
      if (question !== undefined) process.stdout.write(`asked: ${plain(question)}\n`);
      process.stdout.write(`${shortId(record.taskId)}: ${plain(outcome.message)}\n`);
    }
    // Approved but not on its way: the same command again, or a sweep, sends it.
    return approve && !outcome.sent ? EXIT.failed : EXIT.ok;
  });
}
