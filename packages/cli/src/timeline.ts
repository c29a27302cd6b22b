import { isTerminal, type TaskRecord } from '@leasehold/core';
import { counted } from './wording.ts';

/** Something that happened to a task, as far as its record remembers. */
export interface Happening {
  /** Epoch milliseconds of the store's clock. */
  readonly at: number;
  readonly what: string;
  readonly detail: string;
}

/** What a record remembers, in order of time: its creation, the last claims of progress, its effects, its last beat, its end. */
export function timelineOf(record: TaskRecord): readonly Happening[] {
  const happenings: Happening[] = [];
  for (const { stage, reason, at } of record.history) happenings.push({ at, what: stage, detail: reason });
  for (const [name, effect] of Object.entries(record.effects)) {
    happenings.push({ at: effect.intendedAt, what: 'intended', detail: `${name} at ${effect.system}` });
    if (effect.committedAt !== undefined) happenings.push({ at: effect.committedAt, what: 'committed', detail: name });
    if (effect.verifiedAt !== undefined)
      happenings.push({
        at: effect.verifiedAt,
        what: 'verified',
        detail: `${name} is ${effect.externalId ?? 'there'}`,
      });
  }
  if (record.state === 'running' && record.heartbeatAt !== undefined) {
    happenings.push({ at: record.heartbeatAt, what: 'last beat', detail: counted(record.renewalCount, 'renewal') });
  }
  if (isTerminal(record.state)) {
    // The stage says when it settled; the record may have been written to since, to note that its follow-ups were sent.
    const at = record.state === 'settled' ? record.stageEnteredAt : record.updatedAt;
    const detail = record.state === 'settled' ? '' : (record.lastError?.message ?? '');
    happenings.push({ at, what: record.state, detail });
  }
  const ordered = happenings.toSorted((a, b) => a.at - b.at);
  // Nothing comes before it, though a store that tells the time roughly may have noted a later one than the first claim does.
  return [
    { at: Math.min(record.createdAt, ordered[0]?.at ?? record.createdAt), what: 'created', detail: '' },
    ...ordered,
  ];
}
