import type { Message } from '@aws-sdk/client-sqs';
import type { DeadLetter, DeadLetterPage } from '@leasehold/core';
import { deliveryOf, type SqsHandle } from './deliveries.ts';
import { changeVisibility, remove } from './handle-calls.ts';
import { writeAttributes } from './message-attributes.ts';
import { textOfBody } from './message-text.ts';
import { sendEntries } from './outgoing.ts';
import { BATCH } from './queue-settings.ts';
import { DESCRIPTION_ATTRIBUTE, REASON_ATTRIBUTE, SOURCE_ATTRIBUTE } from './rejecting.ts';
import type { SqsCalls } from './sqs-client.ts';

/** Reads and moves what lies in a standard dead-letter queue. */
export interface DeadLetterReader {
  page(ask: { readonly limit: number; readonly cursor?: string }, signal: AbortSignal): Promise<DeadLetterPage>;
  redrive(messageIds: readonly string[], signal: AbortSignal): Promise<number>;
}

type Receipt = Pick<SqsHandle, 'receipt'>;

/** How long a letter that was read stays out of sight, should its reader die. */
const HIDDEN_SECONDS = 300;
/** Waits for an answer of all of SQS's servers; without a wait it asks some of them only. */
const WAIT_SECONDS = 1;
const MORE = 'more';
/** A call without an end would keep the process. */
const GIVE_BACK_MS = 5_000;

/**
 * SQS has no way to look at a message without receiving it. So a listing takes the letters page by page, which keeps them from coming twice, and gives all
 * of them back when it has seen the last one. Meanwhile others do not see them, and each counts one more receive.
 * In a FIFO queue a taken message would hide the rest of its group: there it cannot be done.
 */
export function deadLetterReader(calls: SqsCalls, queueUrl: string, deadLetterQueueUrl: string): DeadLetterReader {
  /** Receipts of what a listing that goes on has taken, by message id. */
  let seen = new Map<string, Receipt>();

  const take = async (max: number, signal: AbortSignal): Promise<readonly SqsHandle[]> => {
    const answer = await calls.receive(
      {
        QueueUrl: deadLetterQueueUrl,
        MaxNumberOfMessages: Math.min(max, BATCH),
        VisibilityTimeout: HIDDEN_SECONDS,
        WaitTimeSeconds: WAIT_SECONDS,
        MessageSystemAttributeNames: ['All'],
        MessageAttributeNames: ['All'],
      },
      signal,
    );
    return (answer.Messages ?? []).map((message: Message) => deliveryOf(message, HIDDEN_SECONDS * 1_000, 0).handle);
  };
  const giveBack = async (handles: readonly Receipt[], signal: AbortSignal): Promise<void> => {
    for (let at = 0; at < handles.length; at += BATCH)
      await changeVisibility(calls, deadLetterQueueUrl, handles.slice(at, at + BATCH), () => 0, signal);
  };
  const move = async (handles: readonly SqsHandle[], signal: AbortSignal): Promise<readonly SqsHandle[]> => {
    if (handles.length === 0) return [];
    const entries = handles.map((handle) => {
      const { text, encoded } = textOfBody(handle.body);
      return { MessageBody: text, MessageAttributes: writeAttributes(ownAttributes(handle), encoded, handle.foreign) };
    });
    const outcomes = await sendEntries(calls, queueUrl, entries, signal);
    const sent = handles.filter((_, index) => 'messageId' in (outcomes[index] ?? {}));
    // A letter that stays after all is one that comes twice; its token tells.
    await remove(calls, deadLetterQueueUrl, sent, signal);
    return sent;
  };
  return {
    async page({ limit, cursor }, signal) {
      const end = async (): Promise<void> => {
        const all = [...seen.values()];
        seen = new Map();
        await giveBack(all, signal);
      };
      if (cursor === undefined) await end();
      const letters: DeadLetter[] = [];
      while (letters.length < limit) {
        const taken = await take(limit - letters.length, signal);
        const fresh = taken.filter(({ messageId }) => !seen.has(messageId));
        for (const { messageId, receipt } of taken) seen.set(messageId, { receipt });
        letters.push(...fresh.map(letterOf));
        // Nothing more, or the first ones come again because the listing took so long.
        if (fresh.length === 0) {
          await end();
          return { letters };
        }
      }
      return { letters, cursor: MORE };
    },
    async redrive(messageIds, signal) {
      const wanted = new Set(messageIds);
      /** Taken, and still in the dead-letter queue. */
      const held = new Map<string, Receipt>();
      let moved = 0;
      try {
        while (wanted.size > 0) {
          const some = await take(BATCH, signal);
          if (some.length === 0) break;
          for (const { messageId, receipt } of some) held.set(messageId, { receipt });
          const sent = await move(
            some.filter(({ messageId }) => wanted.delete(messageId)),
            signal,
          );
          for (const { messageId } of sent) held.delete(messageId);
          moved += sent.length;
        }
      } finally {
        // Also when it was stopped halfway, for the next try is to find them. Refused, they come back by themselves.
        await giveBack([...held.values()], AbortSignal.timeout(GIVE_BACK_MS)).catch(() => undefined);
      }
      return moved;
    },
  };
}

function letterOf({ messageId, body, attributes }: SqsHandle): DeadLetter {
  return {
    messageId,
    body,
    attributes,
    // Moved by SQS itself it bears none.
    reason: attributes[REASON_ATTRIBUTE] ?? 'max-deliveries',
    description: attributes[DESCRIPTION_ATTRIBUTE] ?? '',
  };
}

/** Without what said why it was there. */
function ownAttributes({ attributes }: SqsHandle): Readonly<Record<string, string>> {
  const dropped = [REASON_ATTRIBUTE, DESCRIPTION_ATTRIBUTE, SOURCE_ATTRIBUTE];
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => !dropped.includes(name)));
}
