import {
  keepsMessage,
  createTaskClient,
  redriveTasks,
  sweepTasks,
  type OperatorParts,
  type RedriveReport,
  type SweepReport,
  type TaskRecord,
} from '@leasehold/core';
import { CliFailure, EXIT } from '../failure.ts';
import { findTask } from '../find-task.ts';
import { withLedger, type StoreOptions } from '../open-ledger.ts';
import { plainTable } from '../plain-table.ts';
import { counted, plain, shortId, spell } from '../wording.ts';
import { withQueue, withQueueOf, type OpenQueue } from './open-queue.ts';

/** Dead letters that a sweep shows; a queue may have thousands. */
const MOST_LETTERS = 20;
const MOST_NAMED = 5;

interface SweepOptions extends StoreOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** `leasehold sweep` */
export async function sweepCommand(options: SweepOptions): Promise<number> {
  const unsent: string[] = [];
  const report = await withQueue(options, ({ parts, broker, driver, address, named }) => {
    if (!driver.deadLetters && driver.capabilities.deadLetter !== 'none')
      process.stderr.write(
        `note: the dead letters of this ${driver.name} queue cannot be looked at; only ${address.kind} was swept\n`,
      );
    // A dead letter lies beside its queue, while a parked message may be of any.
    const resend = (record: TaskRecord): Promise<boolean> => {
      if (named) return broker.resend(record);
      unsent.push(record.taskId);
      return Promise.resolve(false);
    };
    const sender = { resend, sendFollowUps: broker.sendFollowUps.bind(broker) };
    return sweepTasks({ ...parts, broker: sender }, { dryRun: options.dryRun ?? false });
  });
  process.stdout.write(options.json ? `${JSON.stringify(report)}\n` : `${pageOf(report, options.dryRun ?? false)}\n`);
  if (unsent.length === 0) return EXIT.ok;
  throw new CliFailure(
    2,
    `--queue is missing: name the queue these tasks came from, whose parked messages were not sent again: ${unsent.map(shortId).join(', ')}.`,
  );
}

function pageOf(report: SweepReport, dryRun: boolean): string {
  const lines: string[] = [];
  if (report.lapsed.length > 0) {
    const rows = report.lapsed.map((group) => [
      plain(group.taskType),
      group.stage,
      String(group.count),
      spell(group.oldestMs),
    ]);
    lines.push(
      'running, but the lease is over (the next delivery takes them over):',
      plainTable(['type', 'stage', 'tasks', 'oldest'], rows),
      '',
    );
  }
  lines.push(`dead letters: ${report.deadLetters}, of which ${report.unrecorded} without a record`);
  if (report.unrecorded > 0)
    lines.push(
      'no task of the ledger is theirs; once what was wrong with them is mended (the producer, or the codec of the queue), they run again by',
      '"leasehold redrive MESSAGE" with the id of one, or "leasehold redrive --all" for every dead letter',
      ...lettersOf(report),
    );
  const name = (what: string, ids: readonly string[]): void => {
    if (ids.length > 0) lines.push(`${what}: ${ids.map(shortId).join(', ')}`);
  };
  name(
    dryRun ? 'would be closed, since their message is dead-lettered' : 'closed, since their message is dead-lettered',
    report.closed,
  );
  name('still being worked on, although their message is dead-lettered', report.live);
  name('an effect is open, which only a worker can read back (leasehold redrive)', report.needWorker);
  name(dryRun ? 'settled, with follow-ups still to be sent' : 'settled; their follow-ups were sent', report.followUps);
  name('to run again (approved, reopened, or to be cancelled); their parked message was sent', report.resent);
  return lines.join('\n');
}

function lettersOf({ unrecordedLetters: letters }: SweepReport): readonly string[] {
  const rows = letters.slice(0, MOST_LETTERS).map(({ messageId, reason }) => [plain(messageId), plain(reason)]);
  const more = letters.length - rows.length;
  return [
    plainTable(['message', 'reason'], rows),
    ...(more > 0 ? [`and ${more} more, which "leasehold sweep --dry-run --json" names`] : []),
  ];
}

/** `leasehold redrive` */
export async function redriveCommand(
  name: string | undefined,
  options: StoreOptions & { readonly all?: boolean; readonly json?: boolean },
): Promise<number> {
  if ((name === undefined) === !options.all) throw new CliFailure(2, 'name one task, or every dead letter with --all.');
  return withLedger(options, async (open) => {
    const record = name === undefined ? undefined : await findTask(open.client, name);
    // Its message was acknowledged long ago, and is in no dead-letter queue.
    if (record?.state === 'dead_lettered' && keepsMessage(record))
      return withQueueOf(options, open, (queue) => reopenParked(record, queue, options.json ?? false), true);
    return withQueueOf(options, open, async ({ parts }) => {
      const report = await redriven(parts, name, record?.taskId);
      if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`);
      else
        process.stdout.write(
          `${counted(report.moved, 'message')} moved back, ${counted(report.reopened.length, 'task')} reopened\n`,
        );
      if (report.missing !== undefined)
        throw new CliFailure(
          1,
          `${counted(report.missing, 'dead letter')} could not be found again: somebody is reading them too, or a reader that died hides them for some minutes. Redrive again.`,
        );
      if (report.moved === 0 && name !== undefined)
        throw new CliFailure(1, `the dead-letter queue has no message of ${plain(name)}.`);
      return EXIT.ok;
    });
  });
}

async function reopenParked({ taskId }: TaskRecord, { ledger, broker }: OpenQueue, json: boolean): Promise<number> {
  const { done, sent, message } = await createTaskClient({ ledger, broker }).reopen(taskId);
  if (!done) throw new CliFailure(1, `${shortId(taskId)} was not reopened: ${plain(message)}.`);
  const report: RedriveReport = { reopened: [taskId], moved: 0 };
  if (json) process.stdout.write(`${JSON.stringify({ ...report, sent })}\n`);
  if (!sent)
    throw new CliFailure(
      1,
      `${shortId(taskId)} is reopened, but the queue did not confirm its message: "leasehold sweep" sends it again after a minute.`,
    );
  if (!json) process.stdout.write(`${shortId(taskId)} is reopened; its parked message was sent again\n`);
  return EXIT.ok;
}

/** Every dead letter, those of one task, or the one message that was named by its id or the beginning of it. */
async function redriven(
  parts: OperatorParts,
  name: string | undefined,
  taskId: string | undefined,
): Promise<RedriveReport> {
  const wanted = taskId ?? name;
  const similar = new Set<string>();
  const report = await redriveTasks(parts, ({ messageId }, id) => {
    if (wanted === undefined || id === wanted || messageId === wanted) return true;
    if (taskId === undefined && messageId.startsWith(wanted)) similar.add(messageId);
    return false;
  });
  const [only, ...others] = [...similar];
  if (report.moved > 0 || only === undefined) return report;
  if (others.length > 0) {
    const several = [only, ...others].slice(0, MOST_NAMED).join(', ');
    const more = similar.size > MOST_NAMED ? ', …' : '';
    throw new CliFailure(
      1,
      `${plain(wanted ?? '')} fits ${similar.size} dead letters; write more of the id: ${plain(several)}${more}.`,
    );
  }
  return redriveTasks(parts, ({ messageId }) => messageId === only);
}
