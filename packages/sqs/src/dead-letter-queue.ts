import type { Message } from '@aws-sdk/client-sqs';
import { LeaseholdError, type Clock, type DeadLetter, type DeadLetterPage } from '@leasehold/core';
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
  /** Ends what is under way between two of its calls, and gives back what was taken. Never rejects. */
  close(): Promise<void>;
}

type Receipt = Pick<SqsHandle, 'receipt'>;

/** How long a letter that was read stays out of sight, should its reader die. */
const HIDDEN_SECONDS = 300;
/** Waits for an answer of all of SQS's servers; without a wait it asks some of them only. */
const WAIT_SECONDS = 1;
/** Calls at once. After an outage tens of thousands of letters are there, and each call of ours has ten seconds. */
const TOGETHER = 16;
/** So many are given back for one page; the next page goes on. */
const BACK_AT_ONCE = 1_000;
/** A call without an end would keep the process. */
const GIVE_BACK_MS = 5_000;
/** Where a listing is: before its first letter, among them, or behind the last one. */
const [BEGIN, MORE, END] = ['begin', 'more', 'end'];

/**
 * SQS has no way to look at a message without receiving it. So a listing takes the letters page by page, which keeps them from coming twice, and gives all
 * of them back when it has seen the last one. Meanwhile others do not see them, and each counts one more receive.
 * In a FIFO queue a taken message would hide the rest of its group: there it cannot be done.
 */
export function deadLetterReader(
  calls: SqsCalls,
  queueUrl: string,
  deadLetterQueueUrl: string,
  clock: Clock,
): DeadLetterReader {
  /** Receipts of what a listing has taken, by message id. */
  const seen = new Map<string, Receipt>();
  const underWay = new Set<Promise<unknown>>();
  let closed = false;
  const tracked = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const running = work();
    underWay.add(running);
    try {
      return await running;
    } finally {
      underWay.delete(running);
    }
  };

  const receive = async (max: number, signal: AbortSignal): Promise<readonly SqsHandle[]> => {
    const answer = await calls.receive(
      {
        QueueUrl: deadLetterQueueUrl,
        MaxNumberOfMessages: max,
        VisibilityTimeout: HIDDEN_SECONDS,
        WaitTimeSeconds: WAIT_SECONDS,
        MessageSystemAttributeNames: ['All'],
        MessageAttributeNames: ['All'],
      },
      signal,
    );
    return (answer.Messages ?? []).map((message: Message) => deliveryOf(message, HIDDEN_SECONDS * 1_000, 0).handle);
  };
  /** Takes letters, several calls at once where there are many, until `enough` or until none is left. Keeps the receipts of all in `taken`. */
  const take = async (
    taken: Map<string, Receipt>,
    enough: (fresh: readonly SqsHandle[]) => number | Promise<number>,
    signal: AbortSignal,
  ): Promise<void> => {
    let width = 1;
    let again = 0;
    for (let missing = await enough([]); missing > 0;) {
      const asks = Array.from({ length: Math.min(width, Math.ceil(missing / BATCH)) }, (_, index) =>
        Math.min(BATCH, missing - index * BATCH),
      );
      const answers = await Promise.allSettled(asks.map((max) => receive(max, signal)));
      const some = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
      const fresh = some.filter(({ messageId }) => !taken.has(messageId));
      for (const { messageId, receipt } of some) taken.set(messageId, { receipt });
      for (const answer of answers) if (answer.status === 'rejected') throw answer.reason;
      // Those that come again since this takes so long hide the others, but each only once.
      again += some.length - fresh.length;
      if (closed) throw new LeaseholdError('closed', 'The driver was closed while its dead letters were read.');
      if (some.length === 0 || again > taken.size) return;
      missing = await enough(fresh);
      // SQS brings fewer than there are, and than it was asked for, as it likes.
      width = Math.min(2 * width, TOGETHER);
    }
  };
  /** At most so many; what was not answered stays in `taken`. What SQS refuses comes back by itself. */
  const giveBack = async (taken: Map<string, Receipt>, most: number, signal: AbortSignal): Promise<void> => {
    const next = batchesOf([...taken].slice(0, most)).values();
    const line = async (): Promise<void> => {
      for (const batch of next) {
        const receipts = batch.map(([, receipt]) => receipt);
        await changeVisibility(calls, deadLetterQueueUrl, receipts, () => 0, signal);
        for (const [messageId] of batch) taken.delete(messageId);
      }
    };
    await allEnded(Array.from({ length: TOGETHER }, line));
  };
  /** What is not given back comes back by itself. */
  const giveBackAtLast = async (taken: Map<string, Receipt>): Promise<void> => {
    const bound = new AbortController();
    const timer = clock.timer(GIVE_BACK_MS, () => bound.abort(new Error(`longer than ${GIVE_BACK_MS} ms`)));
    await giveBack(taken, Infinity, bound.signal).catch(() => undefined);
    timer.cancel();
  };
  /** Sends a batch to the queue, then deletes it here. `onSent` is told of each that was sent, also where the rest fails. */
  const move = async (
    handles: readonly SqsHandle[],
    onSent: (handle: SqsHandle) => void,
    signal: AbortSignal,
  ): Promise<void> => {
    const entries = handles.map((handle) => {
      const { text, encoded } = textOfBody(handle.body);
      return {
        MessageBody: text,
        MessageAttributes: writeAttributes(ownAttributes(handle), encoded, handle.foreign),
        ...(handle.groupId !== undefined && { MessageGroupId: handle.groupId }),
      };
    });
    const outcomes = await sendEntries(calls, queueUrl, entries, signal);
    const sent = handles.filter((_, index) => 'messageId' in (outcomes[index] ?? {}));
    for (const handle of sent) onSent(handle);
    // A letter that stays after all is one that comes twice; its token tells.
    await remove(calls, deadLetterQueueUrl, sent, signal);
  };
  return {
    page: ({ limit, cursor = BEGIN }, signal) =>
      tracked(async () => {
        if (cursor !== MORE) {
          await giveBack(seen, BACK_AT_ONCE, signal);
          if (seen.size > 0) return { letters: [], cursor };
          if (cursor === END) return { letters: [] };
        }
        const letters: DeadLetter[] = [];
        await take(
          seen,
          (fresh) => {
            letters.push(...fresh.map(letterOf));
            return limit - letters.length;
          },
          signal,
        );
        if (letters.length === limit) return { letters, cursor: MORE };
        await giveBack(seen, BACK_AT_ONCE, signal);
        return { letters, ...(seen.size > 0 && { cursor: END }) };
      }),
    redrive: (messageIds, signal) =>
      tracked(async () => {
        const wanted = new Set(messageIds);
        // A listing that goes on hides what it has shown; the rest of it stays hidden, for the listing to end.
        const shown = new Map([...seen].filter(([messageId]) => wanted.has(messageId)));
        await giveBack(shown, Infinity, signal);
        for (const messageId of wanted) seen.delete(messageId);
        const held = new Map<string, Receipt>();
        let moved = 0;
        try {
          await take(
            held,
            async (fresh) => {
              const chosen = fresh.filter(({ messageId }) => wanted.delete(messageId));
              const onSent = ({ messageId }: SqsHandle): void => {
                held.delete(messageId);
                moved++;
              };
              await allEnded(batchesOf(chosen).map((batch) => move(batch, onSent, signal)));
              return wanted.size === 0 ? 0 : TOGETHER * BATCH;
            },
            signal,
          );
        } finally {
          // Also when it was stopped halfway, for the next try is to find them.
          if (!signal.aborted) await giveBack(held, Infinity, signal).catch(() => undefined);
          await giveBackAtLast(held);
        }
        return moved;
      }),
    async close() {
      closed = true;
      await Promise.allSettled(underWay);
      await giveBackAtLast(seen);
    },
  };
}

/** As many to a call as SQS takes. */
function batchesOf<Item>(items: readonly Item[]): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / BATCH) }, (_, index) =>
    items.slice(index * BATCH, (index + 1) * BATCH),
  );
}

/** Waits for all, whatever becomes of one; then rejects with the first failure. */
async function allEnded(work: readonly Promise<void>[]): Promise<void> {
  for (const ended of await Promise.allSettled(work)) if (ended.status === 'rejected') throw ended.reason;
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
