import type {
  EffectRecord,
  FollowUp,
  HumanQuestion,
  ProgressClaim,
  SettlementReceipt,
  TaskRecord,
} from '@leasehold/core';

type Full<Type> = { readonly [Field in keyof Type]-?: Exclude<Type[Field], undefined> };

/** Every field of an effect; a field that is added to the type has to be added here. */
const effect: Full<EffectRecord> = {
  key: 'key-1:create',
  status: 'verified',
  token: 4,
  system: 'tickets',
  targetId: 'case-7',
  requestHash: 'b'.repeat(64),
  externalId: 'case-7',
  externalStatus: 'open',
  lookUrl: 'https://tickets.test/.well-known/leasehold/look',
  intendedAt: 3,
  leaseMs: 90_000,
  committedAt: 4,
  verifiedAt: 5,
};
const receipt: Full<SettlementReceipt> = {
  taskId: 'task-1',
  stage: 'settled',
  externalSystem: 'tickets',
  externalId: 'case-7',
  status: 'open',
  idempotencyKey: 'key-1',
  verifiedAt: 5,
  token: 4,
};
const question: Full<HumanQuestion> = { question: 'may I?', askedAt: 2, approved: true, reason: 'yes', answeredAt: 3 };
const followUp: Full<FollowUp> = {
  taskId: 'task-1:next:0',
  type: 'mail',
  idempotencyKey: 'task-1:next:0',
  input: null,
};
const claim: Full<ProgressClaim> = { stage: 'commit', reason: 'committing create', at: 3 };

/** A record that has every field there is, which no state has. */
export const fullRecord: Full<Omit<TaskRecord, 'extra'>> = {
  schemaVersion: '1.0',
  taskId: 'task-1',
  taskType: 'open-case',
  agentRunId: 'run-1',
  state: 'settled',
  stage: 'settled',
  stageEnteredAt: 6,
  renewalReason: 'verifying create',
  renewalCount: 2,
  history: [claim],
  leaseOwner: 'svc/a#1',
  leaseExpiresAt: 90_000,
  heartbeatAt: 4,
  fencingToken: 4,
  attempt: 3,
  failures: 2,
  idempotencyKey: 'key-1',
  effects: { create: effect },
  settlementReceipt: receipt,
  result: { inline: { caseId: 'case-7' } },
  checkpoint: { sha256: 'a'.repeat(64), bytes: 9_000, ref: 's3://content/1' },
  next: [followUp],
  parked: { omitted: 'not ours' },
  human: [question],
  lastError: { errorClass: 'retryable', code: 'E', message: 'the provider was down' },
  closing: { to: 'cancelled', reason: 'cancelled on request', errorClass: 'cancelled', failures: 1 },
  cancelRequested: true,
  deadLetterSent: false,
  deadlineAt: 3_600_000,
  retryAt: 5,
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  payloadHash: 'c'.repeat(64),
  version: 9,
  opId: 'op-9',
  createdAt: 1,
  updatedAt: 6,
  expiresAt: 2_592_000_006,
};

/** The same as a running task, which the schema accepts: without what only ended tasks have. */
export function runningRecord(): TaskRecord {
  const { settlementReceipt: _r, result: _e, next: _n, deadLetterSent: _d, expiresAt: _x, ...record } = fullRecord;
  return { ...record, state: 'running', stage: 'commit' };
}
