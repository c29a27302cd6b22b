import { redriveTasks, sweepTasks } from '@leasehold/core';
import { CliFailure, EXIT } from '../failure.ts';
import { findTask } from '../find-task.ts';
import type { StoreOptions } from '../open-ledger.ts';
import { plainTable } from '../plain-table.ts';
import { counted, plain, shortId, spell } from '../wording.ts';
import { withQueue } from './open-queue.ts';

interface SweepOptions extends StoreOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** `leasehold sweep` */
export async function sweepCommand(options: SweepOptions): Promise<number> {
  const report = await withQueue(options, ({ parts, driver, address }) => {
    if (!driver.deadLetters && driver.capabilities.deadLetter !== 'none')
      process.stderr.write(
        `note: the dead letters of this ${driver.name} queue cannot be looked at; only ${address.kind} was swept\n`,
      );
    return sweepTasks(parts, { dryRun: options.dryRun ?? false });
  });
  if (options.json) {
    process.stdout.write(`${JSON.stringify(report)}\n`);
    return EXIT.ok;
  }
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
      'nothing is known of those; once what was wrong with them is mended (the producer, or the codec of the queue), they run again by',
      '"leasehold redrive MESSAGE" with the id of one, or "leasehold redrive --all" for every dead letter',
    );
  const name = (what: string, ids: readonly string[]): void => {
    if (ids.length > 0) lines.push(`${what}: ${ids.map(shortId).join(', ')}`);
  };
  name(
    options.dryRun
      ? 'would be closed, since their message is dead-lettered'
      : 'closed, since their message is dead-lettered',
    report.closed,
  );
  name('still being worked on, although their message is dead-lettered', report.live);
  name('an effect is open, which only a worker can read back (leasehold redrive)', report.needWorker);
  name(
    options.dryRun ? 'settled, with follow-ups still to be sent' : 'settled; their follow-ups were sent',
    report.followUps,
  );
  name('approved, and sent again', report.resent);
  process.stdout.write(`${lines.join('\n')}\n`);
  return EXIT.ok;
}

/** `leasehold redrive` */
export async function redriveCommand(
  name: string | undefined,
  options: StoreOptions & { readonly all?: boolean; readonly json?: boolean },
): Promise<number> {
  if ((name === undefined) === !options.all) throw new CliFailure(2, 'name one task, or every dead letter with --all.');
  return withQueue(options, async ({ client, parts }) => {
    const taskId = name === undefined ? undefined : ((await findTask(client, name))?.taskId ?? name);
    const report = await redriveTasks(
      parts,
      (letter, id) => taskId === undefined || id === taskId || letter.messageId === taskId,
    );
    if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`);
    else
      process.stdout.write(
        `${counted(report.moved, 'message')} moved back, ${counted(report.reopened.length, 'task')} reopened\n`,
      );
    if (report.moved === 0 && taskId !== undefined)
      throw new CliFailure(1, `the dead-letter queue has no message of ${plain(name ?? '')}.`);
    return EXIT.ok;
  });
}
