import { expect, test } from 'vitest';
import type { TaskRecord } from '@leasehold/core';
import { missingEnd } from '../src/progress.ts';

const record = (state: TaskRecord['state'], more: Partial<TaskRecord> = {}): TaskRecord =>
  ({ taskId: 'a', state, ...more }) as TaskRecord;
const missing = (one: TaskRecord | undefined, waiting = 0, held = 0, reasons: readonly string[] = ['undecodable']) =>
  missingEnd(['a'], new Map(one && [['a', one]]), {
    waiting,
    held,
    deadLetters: reasons.map((reason) => ({ of: 'm', reason })),
  });

test('what the demo still waits for is named, down to the messages that only the queue knows of', () => {
  const settled = record('settled');
  expect(missing(undefined)).toBe('tool calls to be claimed: 1 of 1');
  expect(missing(record('running'), 1)).toBe('the end of tasks: 1');
  expect(missing(record('settled', { next: [] }))).toBe('the end of tasks: 1');
  expect(missing(settled, 1, 1)).toBe('messages to be delivered: 1');
  expect(missing(settled, 0, 1)).toMatch(/^the queue to let go of what a killed or stopped worker had received/);
  expect(missing(settled, 0, 0, [])).toBe('the unreadable message to be given up');
  expect(missing(settled)).toBeUndefined();
});
