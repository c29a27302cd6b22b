import {
  badOption,
  LeaseholdError,
  type BrokerDriver,
  type DeadLetterPage,
  type Delivery,
  type HandleOutcome,
} from '@leasehold/core';
import { deadLetterReader, type DeadLetterReader } from './dead-letter-queue.ts';
import { deliveryOf, SYSTEM_ATTRIBUTES, type SqsHandle } from './deliveries.ts';
import { changeVisibility, remove } from './handle-calls.ts';
import { brokerOptions, type SqsBrokerOptions } from './options.ts';
import { prepare, sendEntries } from './outgoing.ts';
import { createPolls } from './polls.ts';
import {
  capabilitiesOf,
  isFifo,
  MOST_BYTES,
  readDepth,
  readSettings,
  TOTAL_LEASE_MS,
  type SqsQueueDepth,
} from './queue-settings.ts';
import { rejectMessage } from './rejecting.ts';
import { sqsCalls } from './sqs-client.ts';
import { classifySqsError } from './sqs-errors.ts';

/** A broker driver on SQS, with what operators need beside it. */
export interface SqsBroker extends BrokerDriver<SqsHandle> {
  /**
   * Asks for the queue's attributes (`sqs:GetQueueAttributes`) unless `settings` were given; from then on `capabilities` are final. May be called again.
   *
   * @throws LeaseholdError `not-found` or `refused`, saying what to do; else the SDK's own error.
   */
  open(signal: AbortSignal): Promise<void>;
  /**
   * Standard queues only. Dead letters in no particular order, at most `limit` (default 100) at a time. They are received, and given back when the
   * last page was read: until then, 5 minutes at most, others do not see them, and each counts one more receive.
   */
  deadLetters?(
    ask?: { readonly limit?: number; readonly cursor?: string },
    signal?: AbortSignal,
  ): Promise<DeadLetterPage>;
  /** Standard queues only. Sends dead letters back to the queue and deletes them. Gives how many were found. */
  redrive?(messageIds: readonly string[], signal?: AbortSignal): Promise<number>;
  /** How many messages there are, by what keeps them; approximate. */
  depth(signal?: AbortSignal): Promise<SqsQueueDepth>;
}

const PAGE = 100;
// SQS counts the total from when it got the receive, which is later than when it left; clocks run apart a little.
const TOTAL_SLACK_SECONDS = 1;

/**
 * A queue of AWS SQS, standard or FIFO, over the AWS SDK.
 *
 * @throws LeaseholdError `bad-option` at once, naming the option. Calls reject with the SDK's own errors.
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/Welcome.html
 *
 * @example
 * ```ts
 * import { sqsBroker } from '@leasehold/sqs';
 *
 * const broker = sqsBroker({ queueUrl: 'https://sqs.eu-central-1.amazonaws.com/123456789012/tickets' });
 * ```
 */
export function sqsBroker(options: SqsBrokerOptions): SqsBroker {
  const { queueUrl, connection, clients, clock, longPollSeconds, settings: given } = brokerOptions(options);
  const fifo = isFifo(queueUrl);
  const calls = sqsCalls(connection, clients);
  const polls = createPolls(clock, async (messages, signal) => {
    const receipts = messages.map(({ ReceiptHandle = '' }) => ({ receipt: ReceiptHandle }));
    // Refused, they come back when their lease ends.
    await changeVisibility(calls, queueUrl, receipts, () => 0, signal).catch(() => undefined);
  });
  let settings = given ?? {};
  let opened = given !== undefined;
  let capabilities = capabilitiesOf(queueUrl, settings);
  let closing: Promise<void> | undefined;
  let reader: DeadLetterReader | undefined;

  const check = (signal: AbortSignal): void => {
    if (closing) throw new LeaseholdError('closed', 'The driver of this SQS queue was closed; make another one.');
    signal.throwIfAborted();
  };
  const open = async (signal: AbortSignal): Promise<void> => {
    check(signal);
    if (opened) return;
    settings = await readSettings(calls, queueUrl, signal);
    capabilities = capabilitiesOf(queueUrl, settings);
    opened = true;
  };
  const releaseAll = (
    handles: readonly SqsHandle[],
    delayMs: number,
    signal: AbortSignal,
  ): Promise<readonly HandleOutcome[]> => {
    const now = clock.monotonic();
    const seconds = (index: number): number => {
      const age = now - (handles[index]?.receivedAt ?? now);
      // Longer would be refused, and the message come back when its lease ends; so it comes back too early, which the ledger notices.
      const left = Math.floor((TOTAL_LEASE_MS - age) / 1_000) - TOTAL_SLACK_SECONDS;
      return Math.max(0, Math.min(Math.ceil(delayMs / 1_000), left));
    };
    return changeVisibility(calls, queueUrl, handles, seconds, signal);
  };
  const letters = async (signal: AbortSignal): Promise<DeadLetterReader | undefined> => {
    await open(signal);
    const { deadLetterQueueUrl } = settings;
    if (deadLetterQueueUrl === undefined) return undefined;
    return (reader ??= deadLetterReader(calls, queueUrl, deadLetterQueueUrl, clock));
  };

  return {
    specVersion: 1,
    name: 'sqs',
    get capabilities() {
      return capabilities;
    },
    open,
    async send(messages, signal) {
      check(signal);
      const entries = messages.map((message) => prepare(message, fifo, settings.maxMessageBytes ?? MOST_BYTES));
      return sendEntries(calls, queueUrl, entries, signal);
    },
    async receive({ max, leaseMs, waitMs }, signal) {
      check(signal);
      const visibility = Math.ceil(leaseMs / 1_000);
      let left = waitMs > 0 ? Math.max(1, Math.floor(waitMs / 1_000)) : 0;
      for (;;) {
        const wait = Math.min(left, longPollSeconds);
        left -= wait;
        const receivedAt = clock.monotonic();
        const messages = await polls.run(wait, signal, (cut) =>
          calls.receive(
            {
              QueueUrl: queueUrl,
              MaxNumberOfMessages: max,
              VisibilityTimeout: visibility,
              WaitTimeSeconds: wait,
              MessageSystemAttributeNames: SYSTEM_ATTRIBUTES,
              MessageAttributeNames: ['All'],
            },
            cut,
          ),
        );
        const taken = messages.map((message): Delivery<SqsHandle> =>
          deliveryOf(message, visibility * 1_000, receivedAt),
        );
        if (taken.length > 0) return taken;
        check(signal);
        if (left === 0) return [];
      }
    },
    async extend(handles, leaseMs, signal) {
      check(signal);
      const seconds = Math.ceil(leaseMs / 1_000);
      return changeVisibility(calls, queueUrl, handles, () => seconds, signal);
    },
    async complete(handles, signal) {
      check(signal);
      return remove(calls, queueUrl, handles, signal);
    },
    async release(handles, delayMs, signal) {
      check(signal);
      return releaseAll(handles, delayMs, signal);
    },
    async reject(handle, why, signal) {
      await open(signal);
      const { deadLetterQueueUrl } = settings;
      if (deadLetterQueueUrl === undefined) return { failed: 'invalid' };
      const { maxMessageBytes = MOST_BYTES } = settings;
      return rejectMessage(calls, queueUrl, deadLetterQueueUrl, handle, why, maxMessageBytes, signal);
    },
    classify: classifySqsError,
    ...(!fifo && {
      async deadLetters(ask: { readonly limit?: number; readonly cursor?: string } = {}, signal: AbortSignal = never) {
        const { limit = PAGE, cursor } = ask;
        if (!Number.isInteger(limit) || limit < 1 || limit > 1_000)
          throw badOption('limit', limit, 'write a whole number from 1 to 1000.');
        const found = await letters(signal);
        return found ? found.page({ limit, ...(cursor !== undefined && { cursor }) }, signal) : { letters: [] };
      },
      async redrive(messageIds: readonly string[], signal: AbortSignal = never) {
        return (await letters(signal))?.redrive(messageIds, signal) ?? 0;
      },
    }),
    async depth(signal = never) {
      await open(signal);
      return readDepth(calls, queueUrl, settings.deadLetterQueueUrl, signal);
    },
    close() {
      closing ??= Promise.all([polls.close(), reader?.close()])
        .then(() => undefined)
        .finally(() => calls.destroy());
      return closing;
    },
  };
}

const never = new AbortController().signal;
