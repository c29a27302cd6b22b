import {
  badOption,
  canonicalJson,
  checkNames,
  checkPart,
  hashJson,
  identify,
  leaseTiming,
  ledgerSession,
  claimTask,
  LeaseholdError,
  systemClock,
  DEFAULT_RETENTION_MS,
} from '@leasehold/core';
import type {
  Clock,
  ContentStore,
  LeaseOption,
  LedgerDriver,
  OptionNames,
  Refusal,
  SettlementReceipt,
  TaskMessage,
  TaskRecord,
} from '@leasehold/core';
import { Attempt } from './attempt.ts';
import type { AttemptOutcome } from './attempt-services.ts';
import { ledgerPort } from './attempt-port.ts';
import { defineTask, type TaskLimits } from './define-task.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createLimitTable } from './limits.ts';
import { processOwner } from './process-owner.ts';
import type { TaskContext } from './task-context.ts';

/** What {@link withLease} takes. */
export interface WithLeaseOptions {
  readonly ledger: LedgerDriver;
  /** Stable across deliveries of the same work. */
  readonly taskId: string;
  readonly type: string;
  /** What the work is about; another input under the same id is refused. */
  readonly input?: unknown;
  readonly idempotencyKey?: string;
  readonly agentRunId?: string;
  readonly lease?: LeaseOption;
  readonly limits?: TaskLimits;
  /** Keeps the message that brought the work, for that many milliseconds more; called after each confirmed renewal. */
  readonly extend?: (leaseMs: number) => Promise<unknown>;
  /** When the queue took the message in, epoch milliseconds: older than the retention, it is never started anew. */
  readonly sentAt?: number;
  readonly retentionMs?: number;
  readonly clock?: Clock;
  readonly contentStore?: ContentStore;
}

/** What came of it. Acknowledge the message on `settled`, `replay`, `cancelled` and `dead-lettered`; keep it on the others. */
export type WithLeaseResult<Result> =
  | { readonly outcome: 'settled'; readonly result: Result; readonly receipt: SettlementReceipt | undefined }
  /** It was done before; the work did not run. */
  | { readonly outcome: 'replay'; readonly receipt: SettlementReceipt | undefined; readonly record: TaskRecord }
  /** Somebody is at it; look again in `waitMs`. */
  | { readonly outcome: 'busy'; readonly waitMs: number }
  /** `cause`: why the ledger did not answer the claim, such as `denied`. */
  | { readonly outcome: Exclude<AttemptOutcome, 'settled'>; readonly error?: unknown; readonly cause?: string }
  /** The ledger says no, for a reason that another delivery does not mend. */
  | { readonly outcome: 'refused'; readonly cause: string; readonly message: string };

const OPTIONS: OptionNames<WithLeaseOptions> = {
  ledger: true,
  taskId: true,
  type: true,
  input: true,
  idempotencyKey: true,
  agentRunId: true,
  lease: true,
  limits: true,
  extend: true,
  sentAt: true,
  retentionMs: true,
  clock: true,
  contentStore: true,
};

/**
 * Runs one piece of work under a lease, inside a consumer you already have: the ledger's half, with beats and effects; the message stays yours.
 *
 * @throws LeaseholdError for bad options. What `run` throws is answered as `released` or `dead-lettered` with its `error`.
 */
export async function withLease<Result>(
  options: WithLeaseOptions,
  run: (ctx: TaskContext) => Promise<Result> | Result,
): Promise<WithLeaseResult<Result>> {
  checkNames(options, OPTIONS);
  if (typeof run !== 'function')
    throw badOption('run', run, 'pass the function that does the work, after the options.');
  checkPart('ledger', options.ledger, 'a ledger driver');
  const clock = options.clock ?? systemClock();
  let failure: unknown;
  const definition = defineTask<unknown, Result>({
    type: options.type,
    ...(options.lease !== undefined && { lease: options.lease }),
    ...(options.limits && { limits: options.limits }),
    async run(_input, ctx) {
      try {
        return await run(ctx);
      } catch (error) {
        failure = error;
        throw error;
      }
    },
  });
  const capabilities = options.ledger.capabilities;
  const timing = leaseTiming(options.lease, 'lease', {
    minLeaseMs: capabilities.minLeaseMs,
    uncertaintyMs: capabilities.clockErrorMs,
  });
  const session = ledgerSession(options.ledger, clock);
  const retentionMs = options.retentionMs ?? DEFAULT_RETENTION_MS;
  const payload = JSON.parse(canonicalJson(options.input ?? null, 'input')) as TaskMessage['payload'];
  const message: TaskMessage = {
    ...identify(options),
    taskType: options.type,
    payload,
    payloadHash: hashJson(payload),
    identity: 'task-id',
    ...(options.agentRunId !== undefined && { agentRunId: options.agentRunId }),
  };
  const claim = await claimTask(session, clock, timing, {
    taskId: message.taskId,
    taskType: message.taskType,
    owner: processOwner('with-lease'),
    idempotencyKey: message.idempotencyKey,
    payloadHash: message.payloadHash,
    attempts: definition.attempts,
    retentionMs,
    ...(definition.deadlineMs !== undefined && { deadlineMs: definition.deadlineMs }),
    ...(options.agentRunId !== undefined && { agentRunId: options.agentRunId }),
    ...(options.sentAt !== undefined && { sentAt: options.sentAt }),
  });
  if ('ended' in claim) return { outcome: claim.ended.state === 'cancelled' ? 'cancelled' : 'dead-lettered' };
  if ('unknown' in claim) {
    const why = `the claim of ${message.taskId} had no answer: ${claim.unknown} (ledger ${options.ledger.name}). Nothing ran; keep the message.`;
    return { outcome: 'unknown', cause: claim.unknown, error: new LeaseholdError('unavailable', why) };
  }
  if ('refused' in claim) return refusal(claim.refused, claim.record);
  const { lease } = claim;
  lease.announce('task_claimed');
  const attempt = new Attempt({
    port: ledgerPort(lease, { retentionMs, ...(options.extend && { extend: options.extend }) }),
    definition,
    message,
    services: {
      clock,
      heartbeat: createHeartbeat(clock),
      limits: createLimitTable(clock),
      graceMs: 5_000,
      ...(options.contentStore && { contentStore: options.contentStore }),
    },
  });
  const outcome = await new Promise<AttemptOutcome>((resolve) => attempt.run(resolve));
  if (outcome === 'settled')
    return { outcome, result: attempt.result as Result, receipt: lease.record.settlementReceipt };
  return { outcome, ...(failure !== undefined && { error: failure }) };
}

function refusal(refused: Refusal, record: TaskRecord | undefined): WithLeaseResult<never> {
  switch (refused.refused) {
    case 'settled':
      return record ? { outcome: 'replay', receipt: record.settlementReceipt, record } : { outcome: 'unknown' };
    case 'busy':
    case 'not-yet':
      return { outcome: 'busy', waitMs: refused.waitMs ?? 0 };
    case 'cancelled':
    case 'dead-lettered':
      return { outcome: refused.refused };
    default:
      return { outcome: 'refused', cause: refused.refused, message: refused.message };
  }
}
