import { expect } from 'vitest';
import { isTerminal } from '@leasehold/core';
import { defineTask, PermanentError, type AnyTask, type TaskContext } from '@leasehold/worker';
import type { CommitContext } from '@leasehold/worker';
import type { Host, World } from './harness.ts';
import { make, type Style } from './making.ts';
import type { Fate } from '../src/testing/process.ts';

/** A person who looks every second and says yes, again if need be, until the task has ended. */
function answersYes(world: World, taskId: string): void {
  const record = world.record(taskId);
  if (record?.state === 'waiting_human' || record?.state === 'queued')
    void world.client.answer(taskId, { approve: true, reason: 'yes' });
  if (record === undefined || !isTerminal(record.state)) world.clock.timer(1_000, () => answersYes(world, taskId));
}

/** One path through a task's life that a fate may interrupt anywhere. */
export interface Path {
  readonly name: string;
  readonly tasks: (world: World, host: Host) => readonly AnyTask[];
  /** What happens meanwhile outside of the workers. */
  readonly outside?: (world: World, taskId: string) => void;
  /** What the world's end has to look like besides what holds for every path. */
  readonly ends?: (world: World, taskId: string) => void;
  /** What may befall it; everything unless given. */
  readonly fates?: readonly Fate[];
  /** The fewest calls this path makes: fewer points than that were not all points. */
  readonly calls: number;
}

export const FATES: readonly Fate[] = [
  'killed before',
  'killed after',
  'paused before',
  'paused after',
  'late',
  'answer lost',
];
const LEASE = '9s';

const simple = (run: (ctx: TaskContext, world: World, host: Host) => Promise<unknown>, limits = {}): Path['tasks'] => {
  return (world, host) => [
    defineTask({
      type: 'task',
      lease: LEASE,
      limits: { attempts: 4, ...limits },
      backoff: { first: '1s' },
      run: (_input, ctx) => run(ctx, world, host),
    }),
  ];
};
const settled = (world: World, taskId: string): void => {
  expect(world.record(taskId)?.state).toBe('settled');
};

const oneEffect = (style: Style): Path => ({
  name: `one effect, ${style}`,
  calls: 8,
  tasks: simple(async (ctx, world, host) => {
    const made = await make(world, host, ctx, 'create', style);
    return { id: made.id };
  }),
  ends: settled,
});

export const paths: readonly Path[] = [
  oneEffect('guarded look'),
  oneEffect('guarded function'),
  oneEffect('replays key'),
  oneEffect('idempotent function'),
  // No pause outlasts what such an effect declares, and no call is on its way for longer.
  { ...oneEffect('plain with quiesce'), fates: ['killed before', 'killed after'] },
  {
    name: 'no effect',
    calls: 5,
    tasks: simple(async () => ({ done: true })),
    ends: settled,
  },
  {
    name: 'one effect under a key that lets one task run at a time',
    calls: 10,
    tasks: (world, host) => [
      defineTask({
        type: 'task',
        lease: LEASE,
        serialize: () => 'key',
        run: (_input, ctx) => make(world, host, ctx, 'create', 'guarded look').then(({ id }) => id),
      }),
    ],
    ends: settled,
  },
  {
    name: 'a question to a person, then an effect',
    calls: 9,
    tasks: simple(async (ctx, world, host) => {
      await ctx.askHuman('May it?');
      await make(world, host, ctx, 'create', 'guarded look');
    }),
    outside: answersYes,
    ends: settled,
  },
  {
    name: 'two effects',
    calls: 11,
    tasks: simple(async (ctx, world, host) => {
      const first = await make(world, host, ctx, 'first', 'guarded look');
      ctx.progress('the first is there');
      const second = await make(world, host, ctx, 'second', 'guarded function');
      return [first.id, second.id];
    }),
    ends: settled,
  },
  {
    name: 'an effect and two follow-ups',
    calls: 10,
    tasks: (world, host) => [
      ...simple(async (ctx) => {
        ctx.next('child', { number: 1 });
        await make(world, host, ctx, 'create', 'guarded look');
        ctx.next('child', { number: 2 });
      })(world, host),
      defineTask({
        type: 'child',
        lease: LEASE,
        run: async (_input, ctx) => {
          await make(world, host, ctx, 'create', 'guarded look');
        },
      }),
    ],
    ends(world, taskId) {
      for (const id of [taskId, `${taskId}:next:0`, `${taskId}:next:1`]) settled(world, id);
      expect(world.table.records).toHaveLength(3);
      expect(world.record(taskId)?.next).toBeUndefined();
    },
  },
  {
    name: 'a checkpoint, a hand-off, an effect',
    calls: 11,
    tasks: simple(async (ctx, world, host) => {
      if (ctx.checkpointed === undefined) {
        await ctx.checkpoint({ half: true });
        return ctx.handOff();
      }
      await make(world, host, ctx, 'create', 'guarded look');
      return ctx.checkpointed;
    }),
    ends(world, taskId) {
      settled(world, taskId);
      expect(world.record(taskId)?.result).toEqual({ inline: { half: true } });
    },
  },
  {
    name: 'a permanent error after the effect was made',
    calls: 9,
    tasks: simple(async (ctx, world, host) => {
      await make(world, host, ctx, 'create', 'guarded look', {
        receipt: () => {
          throw new PermanentError('no receipt');
        },
      });
    }),
    ends(world, taskId) {
      const record = world.record(taskId);
      expect(record?.state).toBe('dead_lettered');
    },
  },
  {
    name: 'a permanent error instead of the call, after the intent',
    calls: 8,
    tasks: simple(async (ctx, world, host) => {
      await make(world, host, ctx, 'create', 'guarded look', {
        commit: () => {
          throw new PermanentError('refused by us');
        },
      });
    }),
    ends(world, taskId) {
      expect(world.record(taskId)).toMatchObject({ state: 'dead_lettered' });
      expect(world.receiver.made).toEqual([]);
    },
  },
  {
    name: 'a cancellation while the effect is being made',
    calls: 8,
    tasks: simple(async (ctx, world, host) => {
      const effect = {
        commit: async (call: CommitContext) => {
          const made = await world.receiver.make('guarded', call, host.process);
          await world.client.cancel(ctx.taskId);
          return made;
        },
      };
      await make(world, host, ctx, 'create', 'guarded look', effect);
    }),
    // What exists cannot be cancelled.
    ends: settled,
  },
  {
    name: 'a cancellation while the effect is open and does not exist',
    calls: 8,
    tasks: simple(async (ctx, world, host) => {
      const effect = {
        commit: async () => {
          await world.client.cancel(ctx.taskId);
          throw new Error('not sent');
        },
      };
      await make(world, host, ctx, 'create', 'guarded look', effect);
    }),
    ends(world, taskId) {
      expect(world.record(taskId)).toMatchObject({ state: 'cancelled', effects: { create: { status: 'absent' } } });
      expect(world.receiver.made).toEqual([]);
    },
  },
  ...([false, true] as const).map((exists): Path => ({
    name: `attempts exhausted with an open effect that ${exists ? 'exists' : 'does not exist'}`,
    calls: 8,
    tasks: simple(
      async (ctx, world, host) => {
        const effect = {
          commit: async (call: CommitContext) => {
            if (exists) await world.receiver.make('guarded', call, host.process);
            throw new Error('the answer was lost');
          },
          receipt: () => {
            throw new Error('and cannot be read');
          },
        };
        await make(world, host, ctx, 'create', 'guarded look', effect);
      },
      { attempts: 1 },
    ),
    ends(world, taskId) {
      expect(world.record(taskId)?.state).toBe('dead_lettered');
    },
  })),
];
