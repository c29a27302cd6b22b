import type { Message, MessageAttributeValue, MessageSystemAttributeName } from '@aws-sdk/client-sqs';
import type { Delivery } from '@leasehold/core';
import { readAttributes } from './message-attributes.ts';
import { bodyOfText } from './message-text.ts';
import { groupOf } from './outgoing.ts';

/** A held message: its receipt handle, and what is needed to send it elsewhere. Plain data. */
export interface SqsHandle {
  readonly receipt: string;
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  /** Attributes of another type than `String`, as they came. */
  readonly foreign?: Record<string, MessageAttributeValue>;
  readonly groupId?: string;
  /** The monotonic instant before the receive left, by the driver's clock. */
  readonly receivedAt: number;
}

/** What of SQS's own attributes a delivery is made from; asked for by name, since each costs time on both sides. */
export const SYSTEM_ATTRIBUTES: MessageSystemAttributeName[] = [
  'ApproximateReceiveCount',
  'SentTimestamp',
  'MessageGroupId',
];

/**
 * A message that was received. No age is told: the 12 hours count from the ReceiveMessage that brought it, not from the first one
 * (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html), and were it otherwise, an extension
 * that is refused costs a delivery, while an age beyond the cap would make a task that waits for long impossible to run.
 */
export function deliveryOf(message: Message, leaseMs: number, receivedAt: number): Delivery<SqsHandle> {
  const { Attributes: system = {} } = message;
  const { attributes, foreign, encoded } = readAttributes(message.MessageAttributes);
  const body = bodyOfText({ text: message.Body ?? '', encoded });
  const messageId = message.MessageId ?? '';
  const groupId = groupOf(system.MessageGroupId);
  const deliveryCount = Number(system.ApproximateReceiveCount);
  const sentAt = Number(system.SentTimestamp);
  return {
    handle: {
      receipt: message.ReceiptHandle ?? '',
      messageId,
      body,
      attributes,
      ...(foreign && { foreign }),
      ...(groupId !== undefined && { groupId }),
      receivedAt,
    },
    messageId,
    body,
    attributes,
    leaseMs,
    ...(deliveryCount >= 1 && { deliveryCount }),
    ...(groupId !== undefined && { groupId }),
    ...(sentAt > 0 && { sentAt }),
  };
}
