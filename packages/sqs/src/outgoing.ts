import { createHash, randomUUID } from 'node:crypto';
import type { SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { TASK_ID_ATTRIBUTE, type BrokerErrorCode, type OutgoingMessage, type SendOutcome } from '@leasehold/core';
import { countedBytes, writeAttributes } from './message-attributes.ts';
import { textOfBody } from './message-text.ts';
import { BATCH, bodyBytes, MOST_BYTES } from './queue-settings.ts';
import type { SqsCalls } from './sqs-client.ts';
import { classifySqsError, failedEntry } from './sqs-errors.ts';

/** A message as SQS takes it, without an id yet. */
type Entry = Omit<SendMessageBatchRequestEntry, 'Id'>;

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html: groups and deduplication ids alike.
const GROUP_OF_ONE = 'leasehold-alone-';
const PLAIN_ID = /^[!-~]{1,128}$/;

function entryOf(message: OutgoingMessage, fifo: boolean): Entry {
  const { text, encoded } = textOfBody(message.body);
  const delay = Math.ceil((message.delayMs ?? 0) / 1_000);
  const { groupId, deduplicationId, attributes } = message;
  const alone = (): string => groupOfOne(attributes[TASK_ID_ATTRIBUTE] ?? deduplicationId ?? randomUUID());
  const group = groupId === undefined ? (fifo ? alone() : undefined) : plainId(groupId);
  return {
    MessageBody: text,
    MessageAttributes: writeAttributes(attributes, encoded),
    ...(group !== undefined && { MessageGroupId: group }),
    ...(fifo && { MessageDeduplicationId: plainId(deduplicationId ?? randomUUID()) }),
    ...(delay > 0 && { DelaySeconds: delay }),
  };
}

/** SQS takes no longer ids and no other characters: those are hashed, always alike. */
function plainId(id: string): string {
  return PLAIN_ID.test(id) ? id : hash(id);
}

/** A FIFO queue wants a group of every message: one without gets one of its own, so that it waits for no other task and may be copied like any. */
function groupOfOne(id: string): string {
  return GROUP_OF_ONE + hash(id);
}

/** The group a message was sent with; none where it got one only because it had to. */
export function groupOf(messageGroupId: string | undefined): string | undefined {
  return messageGroupId?.startsWith(GROUP_OF_ONE) ? undefined : messageGroupId;
}

function hash(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}

/** An entry, or why it cannot be sent at all. */
export type Prepared = Entry | { readonly failed: BrokerErrorCode };

/** Writes a message for a queue; one that is too large for it is refused here, since SQS would refuse its whole batch. */
export function prepare(message: OutgoingMessage, fifo: boolean, maxMessageBytes: number): Prepared {
  if (message.body.byteLength > bodyBytes(maxMessageBytes)) return { failed: 'invalid' };
  const entry = entryOf(message, fifo);
  return sizeOf(entry) > maxMessageBytes ? { failed: 'invalid' } : entry;
}

/**
 * Sends, in order, in as few calls as the sizes allow. One outcome per entry: what no call confirmed has failed. Rejects when the first call
 * does: nothing was sent then, as far as is known.
 *
 * A FIFO queue may take one entry of a call and refuse the one before it, so there each message of a group has a call of its own (shared with other
 * groups), and none is sent after one of its group that failed.
 */
export async function sendEntries(
  calls: SqsCalls,
  queueUrl: string,
  entries: readonly Prepared[],
  signal: AbortSignal,
): Promise<readonly SendOutcome[]> {
  const good = entries.filter((entry) => !('failed' in entry)) as readonly Entry[];
  const outcomes = new Map<Prepared, SendOutcome>();
  const stuck = new Map<string | undefined, SendOutcome>();
  let failed: BrokerErrorCode = 'unknown';
  for (const batch of batchesOf(good)) {
    const going = batch.filter((entry) => !stuck.has(orderOf(entry)));
    try {
      const sent = going.length === 0 ? [] : await sendBatch(calls, queueUrl, going, signal);
      going.forEach((entry, index) => outcomes.set(entry, sent[index] ?? { failed: 'unknown' }));
    } catch (error) {
      if (outcomes.size === 0) throw error;
      // No further call: later messages of a group are not to overtake those that failed.
      failed = classifySqsError(error);
      break;
    }
    for (const entry of batch) {
      const outcome = outcomes.get(entry) ?? stuck.get(orderOf(entry));
      if (!outcome || !('failed' in outcome)) continue;
      outcomes.set(entry, outcome);
      if (orderOf(entry) !== undefined) stuck.set(orderOf(entry), outcome);
    }
  }
  return entries.map((entry) =>
    'failed' in entry ? { failed: entry.failed } : (outcomes.get(entry) ?? stuck.get(orderOf(entry)) ?? { failed }),
  );
}

/** Whose order an entry is part of; only a FIFO queue keeps one, and only there is every message deduplicated. */
function orderOf({ MessageGroupId, MessageDeduplicationId }: Entry): string | undefined {
  return MessageDeduplicationId === undefined ? undefined : MessageGroupId;
}

async function sendBatch(
  calls: SqsCalls,
  queueUrl: string,
  batch: readonly Entry[],
  signal: AbortSignal,
): Promise<readonly SendOutcome[]> {
  const answer = await calls.send(
    { QueueUrl: queueUrl, Entries: batch.map((entry, index) => ({ ...entry, Id: String(index) })) },
    signal,
  );
  const sent = new Map(answer.Successful?.map((entry) => [entry.Id, entry.MessageId]));
  const failed = new Map(answer.Failed?.map((entry) => [entry.Id, entry]));
  return batch.map((_, index) => {
    const refused = failed.get(String(index));
    if (refused) return failedEntry(refused);
    const messageId = sent.get(String(index));
    return messageId === undefined ? { failed: 'unknown' } : { messageId };
  });
}

/** In order: by group where there is an order, by count, and by the bytes that SQS counts: base64 and types make them more than core knows of. */
function batchesOf(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  const batches: Entry[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const size = sizeOf(entry);
    const last = batches.at(-1);
    const order = orderOf(entry);
    const follows = order !== undefined && last?.some((other) => orderOf(other) === order);
    if (last && last.length < BATCH && bytes + size <= MOST_BYTES && !follows) {
      last.push(entry);
      bytes += size;
    } else {
      batches.push([entry]);
      bytes = size;
    }
  }
  return batches;
}

function sizeOf({ MessageBody = '', MessageAttributes = {} }: Entry): number {
  return countedBytes(MessageBody, MessageAttributes);
}
