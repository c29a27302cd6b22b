import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import { TASK_ID_ATTRIBUTE, TOKEN_ATTRIBUTE, type HandleOutcome, type RejectReason } from '@leasehold/core';
import type { SqsHandle } from './deliveries.ts';
import { remove } from './handle-calls.ts';
import { countedBytes, writeAttributes } from './message-attributes.ts';
import { textOfBody } from './message-text.ts';
import { sendEntries } from './outgoing.ts';
import { isFifo } from './queue-settings.ts';
import type { SqsCalls } from './sqs-client.ts';

/** Why a message lies in a dead-letter queue, among its attributes. */
export const REASON_ATTRIBUTE = 'leaseholdreason';
export const DESCRIPTION_ATTRIBUTE = 'leaseholddescription';
/** The id it had in the queue it comes from: copies of a repeated reject bear the same. */
export const SOURCE_ATTRIBUTE = 'leaseholdmessageid';

/**
 * Sends the message to the dead-letter queue, then deletes it. Not atomic: in between there are two, and a repeated reject adds another copy on a
 * standard queue (a FIFO one drops it for five minutes). Each bears the id of the message it comes from, and task id and token, so that all but one
 * are told for what they are.
 */
export async function rejectMessage(
  calls: SqsCalls,
  queueUrl: string,
  deadLetterQueueUrl: string,
  handle: SqsHandle,
  why: RejectReason,
  maxMessageBytes: number,
  signal: AbortSignal,
): Promise<HandleOutcome> {
  const { text, encoded } = textOfBody(handle.body);
  const entry = {
    MessageBody: text,
    MessageAttributes: letterAttributes(handle, why, text, encoded, maxMessageBytes),
    ...(handle.groupId !== undefined && { MessageGroupId: handle.groupId }),
    ...(isFifo(deadLetterQueueUrl) && {
      MessageGroupId: handle.groupId ?? handle.messageId,
      MessageDeduplicationId: handle.messageId,
    }),
  };
  const [sent] = await sendEntries(calls, deadLetterQueueUrl, [entry], signal);
  if (!sent || 'failed' in sent) return sent ?? { failed: 'unknown' };
  const [outcome] = await remove(calls, queueUrl, [handle], signal);
  return outcome ?? { failed: 'unknown' };
}

/** All of them where they fit beside the body; else what says why it is here, then whose it is, then what it came with. */
function letterAttributes(
  handle: SqsHandle,
  why: RejectReason,
  text: string,
  encoded: boolean,
  maxMessageBytes: number,
): Record<string, MessageAttributeValue> {
  const all: Record<string, string> = {
    ...handle.attributes,
    ...why.attributes,
    [REASON_ATTRIBUTE]: why.reason,
    [DESCRIPTION_ATTRIBUTE]: why.description,
    [SOURCE_ATTRIBUTE]: handle.messageId,
  };
  const first = [TASK_ID_ATTRIBUTE, TOKEN_ATTRIBUTE, REASON_ATTRIBUTE, SOURCE_ATTRIBUTE];
  const last = [DESCRIPTION_ATTRIBUTE];
  const others = Object.keys(all).filter((name) => !first.includes(name) && !last.includes(name));
  const order = [...first.filter((name) => Object.hasOwn(all, name)), ...others, ...last];
  for (let kept = order.length; ; kept--) {
    const chosen = Object.fromEntries(order.slice(0, kept).map((name) => [name, all[name] as string]));
    const attributes = writeAttributes(chosen, encoded, handle.foreign);
    if (kept === 0 || countedBytes(text, attributes) <= maxMessageBytes) return attributes;
  }
}
