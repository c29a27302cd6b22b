import type { HandleOutcome } from '@leasehold/core';
import type { SqsHandle } from './deliveries.ts';
import type { SqsCalls } from './sqs-client.ts';
import { failedHandle, type FailedEntry } from './sqs-errors.ts';

interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined;
  readonly Failed?: readonly (FailedEntry & { readonly Id?: string | undefined })[] | undefined;
}

/** One outcome per handle, in order. An entry that the answer does not name is not confirmed: some servers leave a list out. */
function outcomesOf(handles: readonly unknown[], answer: BatchAnswer): readonly HandleOutcome[] {
  const done = new Set(answer.Successful?.map(({ Id }) => Id));
  const failed = new Map(answer.Failed?.map((entry) => [entry.Id, entry]));
  return handles.map((_, index) => {
    const refused = failed.get(String(index));
    if (refused) return failedHandle(refused);
    return done.has(String(index)) ? 'done' : { failed: 'unknown' };
  });
}

/** Sets how long each stays invisible from now, in seconds. */
export async function changeVisibility(
  calls: SqsCalls,
  queueUrl: string,
  handles: readonly Pick<SqsHandle, 'receipt'>[],
  seconds: (index: number) => number,
  signal: AbortSignal,
): Promise<readonly HandleOutcome[]> {
  if (handles.length === 0) return [];
  const Entries = handles.map(({ receipt }, index) => ({
    Id: String(index),
    ReceiptHandle: receipt,
    VisibilityTimeout: seconds(index),
  }));
  return outcomesOf(handles, await calls.changeVisibility({ QueueUrl: queueUrl, Entries }, signal));
}

/** Deletes each. */
export async function remove(
  calls: SqsCalls,
  queueUrl: string,
  handles: readonly Pick<SqsHandle, 'receipt'>[],
  signal: AbortSignal,
): Promise<readonly HandleOutcome[]> {
  if (handles.length === 0) return [];
  const Entries = handles.map(({ receipt }, index) => ({ Id: String(index), ReceiptHandle: receipt }));
  return outcomesOf(handles, await calls.remove({ QueueUrl: queueUrl, Entries }, signal));
}
