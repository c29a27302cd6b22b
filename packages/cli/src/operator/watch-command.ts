import type { TaskStatus } from '@leasehold/core';
import { EXIT } from '../failure.ts';
import { needTask } from '../find-task.ts';
import { withLedger, type StoreOptions } from '../open-ledger.ts';
import { moment, plain, shortId, spell } from '../wording.ts';

/** `leasehold watch` */
export async function watchCommand(name: string, options: StoreOptions & { readonly json?: boolean }): Promise<number> {
  return withLedger(options, async ({ client }) => {
    const { taskId } = await needTask(client, name);
    let last: TaskStatus | undefined;
    for await (const status of client.watch(taskId)) {
      last = status;
      process.stdout.write(options.json ? `${JSON.stringify(summary(status))}\n` : `${line(status)}\n`);
    }
    return last?.state === 'settled' ? EXIT.ok : EXIT.failed;
  });
}

function summary({ taskId, state, live, remainingMs, record }: TaskStatus): object {
  return {
    taskId,
    state,
    live,
    remainingMs,
    stage: record?.stage,
    reason: record?.renewalReason,
    owner: record?.leaseOwner,
    token: record?.fencingToken,
    attempt: record?.attempt,
    updatedAt: record?.updatedAt,
  };
}

function line({ taskId, state, live, remainingMs, record }: TaskStatus): string {
  if (!record) return `${shortId(taskId)}  not claimed yet`;
  const held =
    state !== 'running'
      ? ''
      : live
        ? `  held by ${plain(record.leaseOwner ?? '?')} for ${spell(remainingMs ?? 0)}`
        : '  lease over';
  const reason = record.renewalReason === undefined ? '' : `: ${plain(record.renewalReason)}`;
  return `${moment(record.updatedAt)}  ${state}  token ${record.fencingToken}  ${record.stage}${reason}${held}`;
}
