import type {
  AnswerEvent,
  AskHumanEvent,
  BeginCloseEvent,
  CancelEvent,
  CheckpointEvent,
  ClaimEvent,
  DeadLetterEvent,
  EndCloseEvent,
  HandOffEvent,
  IntendEvent,
  RaiseTokenEvent,
  ReleaseEvent,
  RenewEvent,
  SettleEvent,
  SweepEvent,
} from '../src/events.ts';
import type { StoreTime } from '../src/record.ts';

/** Some moment of a store's clock. */
export const START = 1_700_000_000_000;
export const LEASE_MS = 90_000;
export const RETENTION_MS = 30 * 86_400_000;

export function at(ms: number, errorMs = 0): StoreTime {
  return { earliest: START + ms - errorMs, latest: START + ms + errorMs };
}

type Fields<Event extends { readonly type: string }> = Partial<Omit<Event, 'type'>>;
/** The owner that the events below are written by, unless told otherwise. */
const MINE = { opId: 'op', owner: 'svc/a#1', token: 1 } as const;

export const claim = (fields: Fields<ClaimEvent> = {}): ClaimEvent => ({
  type: 'claim',
  opId: 'op-claim',
  taskId: 'task-1',
  taskType: 'charge',
  owner: 'svc/a#1',
  idempotencyKey: 'key-1',
  payloadHash: 'hash-1',
  leaseMs: LEASE_MS,
  attempts: 3,
  retentionMs: RETENTION_MS,
  ...fields,
});
export const renew = (fields: Fields<RenewEvent> = {}): RenewEvent => ({
  type: 'renew',
  ...MINE,
  leaseMs: LEASE_MS,
  ...fields,
});
export const intend = (effect: string, fields: Fields<IntendEvent> = {}): IntendEvent => ({
  type: 'intend',
  ...MINE,
  leaseMs: LEASE_MS,
  effect,
  details: { key: `key-of-${effect}`, system: 'crm' },
  ...fields,
});
export const checkpoint = (fields: Fields<CheckpointEvent> = {}): CheckpointEvent => ({
  type: 'checkpoint',
  ...MINE,
  leaseMs: LEASE_MS,
  checkpoint: { inline: { page: 3 } },
  ...fields,
});
export const settle = (fields: Fields<SettleEvent> = {}): SettleEvent => ({
  type: 'settle',
  ...MINE,
  retentionMs: RETENTION_MS,
  receipt: {
    taskId: 'task-1',
    stage: 'settled',
    externalSystem: 'crm',
    externalId: 'c-7',
    status: 'open',
    idempotencyKey: 'key-1',
    verifiedAt: START,
  },
  ...fields,
});
export const release = (fields: Fields<ReleaseEvent> = {}): ReleaseEvent => ({
  type: 'release',
  ...MINE,
  error: { errorClass: 'retryable', code: 'E', message: 'the provider was down' },
  delayMs: 0,
  failure: true,
  ...fields,
});
export const handOff = (fields: Fields<HandOffEvent> = {}): HandOffEvent => ({
  type: 'hand-off',
  ...MINE,
  reason: 'the function ends',
  progressed: true,
  ...fields,
});
export const deadLetter = (fields: Fields<DeadLetterEvent> = {}): DeadLetterEvent => ({
  type: 'dead-letter',
  ...MINE,
  error: { errorClass: 'permanent', code: 'E', message: 'no such customer' },
  retentionMs: RETENTION_MS,
  ...fields,
});
export const beginClose = (fields: Fields<BeginCloseEvent> = {}): BeginCloseEvent => ({
  type: 'begin-close',
  ...MINE,
  closing: { to: 'dead_lettered', reason: 'no such customer', errorClass: 'permanent' },
  leaseMs: LEASE_MS,
  ...fields,
});
export const endClose = (fields: Fields<EndCloseEvent> = {}): EndCloseEvent => ({
  type: 'end-close',
  ...MINE,
  retentionMs: RETENTION_MS,
  leaseMs: LEASE_MS,
  ...fields,
});
export const raiseToken = (fields: Fields<RaiseTokenEvent> = {}): RaiseTokenEvent => ({
  type: 'raise-token',
  ...MINE,
  above: 7,
  leaseMs: LEASE_MS,
  ...fields,
});
export const askHuman = (fields: Fields<AskHumanEvent> = {}): AskHumanEvent => ({
  type: 'ask-human',
  ...MINE,
  question: 'may I?',
  parked: { inline: { envelope: 'kept' } },
  ...fields,
});
export const answer = (fields: Fields<AnswerEvent> = {}): AnswerEvent => ({
  type: 'answer',
  opId: 'op-answer',
  approve: true,
  reason: 'looks right',
  retentionMs: RETENTION_MS,
  ...fields,
});
export const cancel = (fields: Fields<CancelEvent> = {}): CancelEvent => ({
  type: 'cancel',
  opId: 'op-cancel',
  taskId: 'task-1',
  reason: 'not needed any more',
  retentionMs: RETENTION_MS,
  ...fields,
});
export const sweep = (fields: Fields<SweepEvent> = {}): SweepEvent => ({
  type: 'sweep',
  opId: 'op-sweep',
  reason: 'its message is gone',
  retentionMs: RETENTION_MS,
  ...fields,
});
