import { expect, test } from 'vitest';
import type { TaskRecord } from '@leasehold/core';
import { timelineOf } from '../src/timeline.ts';

const AT = Date.UTC(2026, 0, 5, 12);

test('a task is created first, also where the clock of the store put its creation after the first claim', () => {
  const record: TaskRecord = {
    schemaVersion: '1.0',
    taskId: 't-1',
    taskType: 'charge',
    state: 'running',
    stage: 'external_call',
    stageEnteredAt: AT + 3_000,
    renewalCount: 1,
    heartbeatAt: AT + 3_000,
    history: [
      { stage: 'preflight', reason: 'claimed', at: AT - 900 },
      { stage: 'external_call', reason: 'page 1', at: AT + 3_000 },
    ],
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: 't-1',
    effects: {},
    version: 2,
    opId: 'x',
    createdAt: AT,
    updatedAt: AT + 3_000,
  };
  expect(timelineOf(record).map(({ what, at }) => [what, at - AT])).toEqual([
    ['created', -900],
    ['preflight', -900],
    ['external_call', 3_000],
    ['last beat', 3_000],
  ]);
});
