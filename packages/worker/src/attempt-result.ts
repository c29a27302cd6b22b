import { hashJson, sha256, type SettlementReceipt, type TaskLease } from '@leasehold/core';
import type { VerifiedEffect } from './effect-options.ts';

/** The receipt of a task: of its last effect, or, without one, of its result. `verifiedAt` is the store's time. */
export function receiptOf(
  task: TaskLease,
  effect: VerifiedEffect<unknown> | undefined,
  value: unknown,
  verifiedAt: number,
): Omit<SettlementReceipt, 'token'> {
  return {
    taskId: task.taskId,
    stage: 'settled',
    externalSystem: effect?.system ?? 'none',
    externalId: effect?.id ?? resultHash(value),
    status: effect?.status ?? 'done',
    idempotencyKey: task.record.idempotencyKey,
    verifiedAt,
  };
}

/** A result that came too late or under a lost lease: reported, never stored as the outcome. */
export function rejectResult(
  task: TaskLease,
  effect: VerifiedEffect<unknown> | undefined,
  value: unknown,
  sink: ((rejected: { readonly taskId: string; readonly token: number; readonly result: unknown }) => void) | undefined,
): void {
  task.announce('result_rejected', {
    resultHash: resultHash(value),
    ownership: task.ownership(),
    lastConfirmedAt: task.lastConfirmedAt,
    ...(effect && { externalSystem: effect.system, externalId: effect.id }),
  });
  try {
    sink?.({ taskId: task.taskId, token: task.token, result: value });
  } catch (error) {
    task.announce('warning', {
      reason: 'onRejected failed',
      errorCode: error instanceof Error ? error.name : 'unknown',
    });
  }
}

function resultHash(value: unknown): string {
  try {
    return hashJson(value);
  } catch {
    return sha256(typeof value);
  }
}
