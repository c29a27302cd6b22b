import { isTerminal, type StoreTime, type TaskRecord } from '@leasehold/core';
import type { Child } from './fleet.ts';
import type { QueueSight } from './place.ts';

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
  /** What has still to happen before the demo is over; nothing when it is. */
  readonly awaited?: string;
}

/** What is missing until every task has ended and the queue is empty; nothing when nothing is. */
export function missingEnd(
  enqueued: readonly string[],
  records: ReadonlyMap<string, TaskRecord>,
  queue: QueueSight | undefined,
): string | undefined {
  const unclaimed = enqueued.filter((taskId) => !records.has(taskId)).length;
  if (!queue || unclaimed > 0) return `tool calls to be claimed: ${unclaimed} of ${enqueued.length}`;
  const open = [...records.values()].filter(({ state, next }) => next !== undefined || !isTerminal(state)).length;
  if (open > 0) return `the end of tasks: ${open}`;
  if (queue.waiting > 0) return `messages to be delivered: ${queue.waiting}`;
  if (queue.held > 0)
    return `the queue to let go of what a killed or stopped worker had received; messages: ${queue.held}`;
  if (!queue.deadLetters.some(({ reason }) => reason === 'undecodable')) return 'the unreadable message to be given up';
  return undefined;
}

/** Reads the ledger for people. */
export function progressOf(
  records: readonly TaskRecord[],
  now: StoreTime,
  children: readonly Child[],
  about: {
    readonly elapsedMs: number;
    readonly waiting: number;
    readonly undecodable: number;
    readonly awaited: string | undefined;
  },
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
    ...(about.awaited !== undefined && { awaited: about.awaited }),
  };
}
