import type { StoreTime, TaskRecord } from '@leasehold/core';
import type { Child } from './fleet.ts';

/** A task that somebody holds right now. */
export interface HeldTask {
  readonly worker: string;
  readonly workerState: 'running' | 'stopped' | 'gone';
  readonly taskId: string;
  readonly type: string;
  readonly stage: string;
  readonly reason: string;
  readonly token: number;
  /** Milliseconds until the lease ends unless it is renewed; 0 when it has lapsed. */
  readonly remainingMs: number;
}

/** How things stand. */
export interface DemoProgress {
  readonly elapsedMs: number;
  readonly held: readonly HeldTask[];
  readonly settled: number;
  readonly cancelled: number;
  readonly deadLettered: number;
  /** In the queue, and not held. */
  readonly waiting: number;
}

/** Reads the ledger for people. */
export function progressOf(
  records: readonly TaskRecord[],
  now: StoreTime,
  children: readonly Child[],
  about: { readonly elapsedMs: number; readonly waiting: number; readonly undecodable: number },
): DemoProgress {
  const count = (state: TaskRecord['state']): number => records.filter((record) => record.state === state).length;
  const held = records
    .filter(({ state }) => state === 'running')
    .map((record): HeldTask => {
      // The owner reads <service>/<host>-<pid>#<nonce>.
      const owner = /^(.*)\/.*-(\d+)#/.exec(record.leaseOwner ?? '');
      const child = children.find(({ pid }) => pid === Number(owner?.[2]));
      return {
        worker: owner?.[1] ?? '',
        workerState: child?.paused ? 'stopped' : child && !child.exited ? 'running' : 'gone',
        taskId: record.taskId,
        type: record.taskType,
        stage: record.stage,
        reason: record.renewalReason ?? '',
        token: record.fencingToken,
        remainingMs: Math.max(0, (record.leaseExpiresAt ?? 0) - now.earliest),
      };
    })
    .toSorted((a, b) => a.worker.localeCompare(b.worker) || a.taskId.localeCompare(b.taskId));
  return {
    elapsedMs: about.elapsedMs,
    held,
    settled: count('settled'),
    cancelled: count('cancelled'),
    deadLettered: count('dead_lettered') + about.undecodable,
    waiting: about.waiting,
  };
}
