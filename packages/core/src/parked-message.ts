import type { Delivery, LedgerDriver, OutgoingMessage } from './driver.ts';
import { TASK_ID_ATTRIBUTE, TOKEN_ATTRIBUTE } from './envelope.ts';
import { LeaseholdError } from './errors.ts';
import type { Content, TaskRecord } from './record.ts';

/** A message that waits in the record of its task for a person's answer. */
interface Parcel {
  /** Base64. */
  readonly body: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly group_id?: string;
}

/**
 * A delivery as its record keeps it.
 *
 * @throws LeaseholdError `content-too-large` when it would take more than half of a record of this ledger.
 */
export function parcelOf(
  { body, groupId }: Delivery,
  attributes: Readonly<Record<string, string>>,
  ledger: LedgerDriver,
): Content {
  const most = Math.floor(ledger.capabilities.maxRecordBytes / 2);
  const size = Math.ceil((body.byteLength * 4) / 3);
  if (size > most) {
    throw new LeaseholdError(
      'content-too-large',
      `A message of ${size} bytes cannot wait for a person: a record of ${ledger.name} holds ${most} of it.`,
      { field: 'input' },
    );
  }
  return {
    inline: {
      body: Buffer.from(body).toString('base64'),
      attributes,
      ...(groupId !== undefined && { group_id: groupId }),
    },
  };
}

/** Whether the record keeps the message of its task; that of a task of somebody else's consumer is its own. */
export function keepsMessage({ parked }: TaskRecord): boolean {
  return parked !== undefined && 'inline' in parked;
}

/** The message of a record that keeps one, to be sent again. Under one token it is one message. */
export function unparcel({ parked, taskId, fencingToken }: TaskRecord): OutgoingMessage | undefined {
  if (!parked || !('inline' in parked)) return undefined;
  const { body, attributes, group_id: groupId } = parked.inline as unknown as Parcel;
  return {
    body: Buffer.from(body, 'base64'),
    attributes: { ...attributes, [TASK_ID_ATTRIBUTE]: taskId, [TOKEN_ATTRIBUTE]: String(fencingToken) },
    deduplicationId: `${taskId}:${fencingToken}`,
    ...(groupId !== undefined && { groupId }),
  };
}
