import type { Json } from '@leasehold/core';
import { guarded, type TaskContext } from '@leasehold/worker';
import { expect, test } from 'vitest';
import { addPage, articlesOf, EMPTY_INDEX } from '../src/articles.ts';
import type { StatementInput } from '../src/inputs.ts';
import { readToolCalls } from '../src/tool-calls.ts';
import type { ServiceClient } from '../src/service-client.ts';
import { helpdeskTasks } from '../src/tasks.ts';

interface Played {
  readonly read: string[];
  readonly posted: [path: string, body: Json][];
  readonly claims: string[];
  readonly checkpoints: unknown[];
  readonly next: [type: string, input: unknown][];
}

/** Runs one task with a context that only notes what is done with it. */
async function play(type: string, input: unknown, checkpointed?: unknown): Promise<Played> {
  const played: Played = { read: [], posted: [], claims: [], checkpoints: [], next: [] };
  const service: ServiceClient = {
    async read(path) {
      played.read.push(path);
      const page = /page=(\d+)/.exec(path)?.[1];
      return page === undefined ? {} : articlesOf('faq', Number(page));
    },
    posting(path, body) {
      played.posted.push([path, body]);
      return {
        system: 'helpdesk',
        commit: () => undefined,
        readBack: guarded('http://localhost'),
        receipt: () => ({ externalId: 'X', status: 'done' }),
      };
    },
  };
  const ctx = {
    taskId: 'task',
    checkpointed,
    signal: new AbortController().signal,
    call: async (_name: string, _options: unknown, run: (call: object) => unknown) => run({}),
    stage: (_stage: string, reason: string) => void played.claims.push(reason),
    progress: (reason: string) => void played.claims.push(reason),
    checkpoint: async (data: unknown) => void played.checkpoints.push(data),
    effect: async () => ({ id: 'X' }),
    next(next: string, nextInput: unknown) {
      played.next.push([next, nextInput]);
      return `task:next:${played.next.length - 1}`;
    },
  };
  await helpdeskTasks(service, '3s')
    .find((task) => task.type === type)
    ?.run(input, ctx as unknown as TaskContext);
  return played;
}

test('a rebuild goes on from its checkpoint: no page is read twice, and the index is the same', async () => {
  const input = { collection: 'faq', pages: 5, reason: 'new rules' };
  const whole = await play('rebuild_index', input);
  expect(whole.claims).toEqual(['page 1 of 5', 'page 2 of 5', 'page 3 of 5', 'page 4 of 5', 'page 5 of 5']);
  const half = [0, 1, 2].reduce((index, page) => addPage(index, articlesOf('faq', page)), EMPTY_INDEX);
  expect(whole.checkpoints[2]).toEqual(half);
  const resumed = await play('rebuild_index', input, half);
  expect(resumed.claims).toEqual(['page 4 of 5', 'page 5 of 5']);
  expect(resumed.read).toEqual(['/articles/faq?page=3', '/articles/faq?page=4']);
  expect(resumed.posted).toEqual(whole.posted);
});

test('an import walks through its stages, each a task that carries all the next one needs', async () => {
  const call = readToolCalls().find(({ tool }) => tool === 'import_statement');
  const { entries } = (call?.arguments ?? {}) as unknown as StatementInput;
  let [stage, input] = ['import_statement', call?.arguments as unknown];
  const stages: string[] = [];
  const booked: unknown[] = [];
  for (;;) {
    const { next, posted } = await play(stage, input);
    stages.push(stage);
    for (const [path, body] of posted)
      if (path === '/bookings') booked.push(...(body as { entries: unknown[] }).entries);
    const [following] = next;
    if (!following) break;
    [stage, input] = following;
  }
  expect(stages).toEqual(['import_statement', 'book_entries', 'book_entries', 'reconcile_statement']);
  expect(booked).toEqual(entries);
});
