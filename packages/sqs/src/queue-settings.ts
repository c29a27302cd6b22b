import { LeaseholdError, type BrokerCapabilities } from '@leasehold/core';
import type { SqsCalls } from './sqs-client.ts';
import { MOST_ATTRIBUTES, TYPE_BYTES } from './message-attributes.ts';
import { ENCODING_ATTRIBUTE } from './message-text.ts';
import { classifySqsError } from './sqs-errors.ts';

/** What the queue's own attributes say. Given in the options, they are not asked for. */
export interface SqsQueueSettings {
  /** The queue named by its `RedrivePolicy`; left out: it has none. */
  readonly deadLetterQueueUrl?: string;
  /** `maxReceiveCount` of its `RedrivePolicy`. */
  readonly maxReceiveCount?: number;
  /** `MaximumMessageSize`, in bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
}

/** Of a message, and of all messages of one batch. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MOST_BYTES = 1_048_576;
/** The longest a message is held in all, from the ReceiveMessage that brought it. */
export const TOTAL_LEASE_MS = 43_200_000;
export const BATCH = 10;

const SECOND = 1_000;
// What core does not count: the types of the attributes, and the one that marks an encoded body.
const RESERVED_BYTES = (MOST_ATTRIBUTES + 1) * TYPE_BYTES + ENCODING_ATTRIBUTE.length + 'base64'.length;

/** True for the URL of a FIFO queue: their names end so, and only theirs. */
export function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith('.fifo');
}

/** The longest body of a message, its attributes apart. */
export function bodyBytes(maxMessageBytes: number): number {
  return maxMessageBytes - RESERVED_BYTES;
}

/** What a queue with these settings can do. */
export function capabilitiesOf(queueUrl: string, settings: SqsQueueSettings): BrokerCapabilities {
  const { deadLetterQueueUrl, maxReceiveCount, maxMessageBytes = MOST_BYTES } = settings;
  const fifo = isFifo(queueUrl);
  return {
    // A FIFO queue puts several messages of a group into one receive; one at a time is what ordering means to core.
    maxBatch: { send: BATCH, receive: fifo ? 1 : BATCH, handles: BATCH },
    maxBodyBytes: bodyBytes(maxMessageBytes),
    maxBatchBytes: MOST_BYTES - BATCH * RESERVED_BYTES,
    // A wait is whole seconds and half a lease at most, so a lease of one second could not wait at all.
    leaseMs: { min: 2 * SECOND, max: TOTAL_LEASE_MS, step: SECOND },
    totalLeaseMs: TOTAL_LEASE_MS,
    // A standard queue answers 200 for stale handles; what a FIFO queue detects is documented for deletes only.
    staleHandle: 'silent',
    ...(maxReceiveCount !== undefined && { maxDeliveries: maxReceiveCount }),
    // A release is a visibility timeout, and counts towards the total.
    releaseDelayMs: TOTAL_LEASE_MS - 60 * SECOND,
    // A FIFO queue refuses a delay per message.
    sendDelayMs: fifo ? 0 : 900 * SECOND,
    deliveryCount: true,
    ordering: fifo,
    deadLetter: deadLetterQueueUrl === undefined ? 'none' : 'copy',
    extend: true,
  };
}

/**
 * Asks the queue for its settings.
 *
 * @throws LeaseholdError `not-found` or `refused` with what to do; else the SDK's own error.
 */
export async function readSettings(calls: SqsCalls, queueUrl: string, signal: AbortSignal): Promise<SqsQueueSettings> {
  const attributes = await askAttributes(calls, queueUrl, signal);
  const maxMessageBytes = Number(attributes['MaximumMessageSize']);
  const policy = redrivePolicy(attributes['RedrivePolicy']);
  return {
    ...(maxMessageBytes > 0 && { maxMessageBytes: Math.min(maxMessageBytes, MOST_BYTES) }),
    ...(policy && {
      deadLetterQueueUrl: urlOf(policy.target, queueUrl),
      ...(policy.maxReceiveCount >= 1 && { maxReceiveCount: policy.maxReceiveCount }),
    }),
  };
}

async function askAttributes(
  calls: SqsCalls,
  queueUrl: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  try {
    const answer = await calls.attributes(
      { QueueUrl: queueUrl, AttributeNames: ['RedrivePolicy', 'MaximumMessageSize'] },
      signal,
    );
    return answer.Attributes ?? {};
  } catch (cause) {
    switch (classifySqsError(cause)) {
      case 'not-found':
        throw new LeaseholdError(
          'not-found',
          `queueUrl ${queueUrl} names no queue: check the URL, account and region.`,
          {
            field: 'queueUrl',
            cause,
          },
        );
      case 'denied':
        throw new LeaseholdError(
          'refused',
          `queueUrl ${queueUrl}: reading its attributes was denied. Check the credentials, allow sqs:GetQueueAttributes, or pass its settings as the option settings.`,
          { field: 'settings', cause },
        );
      default:
        throw cause;
    }
  }
}

function redrivePolicy(
  text: string | undefined,
): { readonly target: string; readonly maxReceiveCount: number } | undefined {
  if (!text) return undefined;
  let policy: unknown;
  try {
    policy = JSON.parse(text);
  } catch (cause) {
    throw new LeaseholdError('bad-request', 'The RedrivePolicy of the queue is not JSON; pass the option settings.', {
      field: 'settings',
      cause,
    });
  }
  const { deadLetterTargetArn, maxReceiveCount } = (policy ?? {}) as Record<string, unknown>;
  return typeof deadLetterTargetArn === 'string' && deadLetterTargetArn !== ''
    ? { target: deadLetterTargetArn, maxReceiveCount: Number(maxReceiveCount) }
    : undefined;
}

const ACCOUNT = /^\d{12}$/;

/**
 * The URL of the queue that an ARN names, made from that of its source queue, so that no permission is needed to ask for it. It may belong to another
 * account, but not to another Region, for which other signatures would be needed
 * (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html).
 *
 * @throws LeaseholdError `refused` for one of another Region.
 */
function urlOf(arn: string, queueUrl: string): string {
  const [region = '', account = '', name = ''] = arn.split(':').slice(3);
  const place = regionOf(queueUrl);
  if (place !== undefined && region !== place) {
    throw new LeaseholdError(
      'refused',
      `queueUrl ${queueUrl}: its dead-letter queue ${arn} is in another Region. Name one of ${place} in its RedrivePolicy, or pass the option settings without one.`,
      { field: 'settings' },
    );
  }
  const parts = queueUrl.split('/');
  const own = parts.length - 2;
  if (ACCOUNT.test(account) && ACCOUNT.test(parts[own] ?? '')) parts[own] = account;
  return [...parts.slice(0, -1), name].join('/');
}

/** The Region in a queue's URL, where it is one of AWS itself. */
export function regionOf(queueUrl: string): string | undefined {
  return /(?:^|\.)sqs(?:-fips)?\.([a-z]{2,4}(?:-[a-z]+)+-\d)\./.exec(new URL(queueUrl).hostname)?.[1];
}

/** How many messages a queue has, by what keeps them; approximate, as SQS counts. */
export interface SqsQueueDepth {
  /** Can be handed out, or (FIFO) wait for another of their group. */
  readonly visible: number;
  /** Held by somebody, or released with a delay. */
  readonly inFlight: number;
  /** Sent with a delay that is not over. */
  readonly delayed: number;
  /** SQS does not tell these apart: always 0. */
  readonly blocked: number;
  /** In the dead-letter queue, held ones included; 0 where there is none. */
  readonly deadLetters: number;
}

const COUNTS = {
  visible: 'ApproximateNumberOfMessages',
  inFlight: 'ApproximateNumberOfMessagesNotVisible',
  delayed: 'ApproximateNumberOfMessagesDelayed',
} as const;

/** Counts the queue and its dead-letter queue. */
export async function readDepth(
  calls: SqsCalls,
  queueUrl: string,
  deadLetterQueueUrl: string | undefined,
  signal: AbortSignal,
): Promise<SqsQueueDepth> {
  const count = async (url: string): Promise<Record<keyof typeof COUNTS, number>> => {
    const { Attributes } = await calls.attributes({ QueueUrl: url, AttributeNames: Object.values(COUNTS) }, signal);
    const number = (name: keyof typeof COUNTS): number => Number(Attributes?.[COUNTS[name]] ?? 0);
    return { visible: number('visible'), inFlight: number('inFlight'), delayed: number('delayed') };
  };
  const [own, dead] = await Promise.all([
    count(queueUrl),
    deadLetterQueueUrl === undefined ? undefined : count(deadLetterQueueUrl),
  ]);
  const deadLetters = dead ? dead.visible + dead.inFlight + dead.delayed : 0;
  return { ...own, blocked: 0, deadLetters };
}
