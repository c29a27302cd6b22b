import type { TaskRecord } from '@leasehold/core';
import { expect, test } from 'vitest';
import { Gathering } from '../src/evidence.ts';

const empty = { waiting: 0, held: 0, deadLetters: [] };
const seen = (version: number, fencingToken: number): TaskRecord =>
  ({ taskId: 't', version, fencingToken }) as TaskRecord;

test('an older sight of a record changes nothing, and a token that fell is remembered', () => {
  const gathering = new Gathering(new AbortController().signal);
  gathering.polled([seen(2, 1)], empty);
  gathering.polled([seen(4, 2), seen(3, 1)], empty);
  expect(gathering.records.get('t')).toEqual(seen(4, 2));
  expect(gathering.tokenHistory.get('t')).toEqual([1, 2]);
  gathering.polled([seen(5, 1)], empty);
  expect(gathering.tokenHistory.get('t')).toEqual([1, 2, 1]);
});

test('whoever waits for evidence gets it when it is there, or learns what it waited for when the demo is stopped', async () => {
  const stopping = new AbortController();
  const gathering = new Gathering(stopping.signal);
  const found = gathering.until('a worker', () => gathering.workers[0]);
  const never = gathering.until('the impossible', () => undefined);
  gathering.workers.push({ pid: 1, event: { name: 'task_claimed', at: 1 } });
  gathering.changed();
  expect(await found).toMatchObject({ pid: 1 });
  stopping.abort(new Error('enough'));
  await expect(never).rejects.toThrow('stopped while waiting for the impossible');
  await expect(gathering.until('more', () => undefined)).rejects.toThrow('stopped while waiting for more');
});
