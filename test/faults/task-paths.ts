import { PermanentError, RetryableError, sleep } from '@leasehold/core';
import { defineTask, guarded, type AnyTask, type CommitContext, type TaskContext } from '@leasehold/worker';
import type { Made } from '../../packages/worker/test/receiver.ts';
import type { FaultWorld, Host } from './fault-world.ts';

/** One path through a task's life. */
export interface TaskPath {
  readonly tasks: (world: FaultWorld, host: Host) => readonly AnyTask[];
  /** How the task has to end, whatever befell its first worker. */
  readonly ends: 'settled' | 'dead_lettered' | 'cancelled';
  /** How many tasks and how many effects there are in the end. */
  readonly leaves: { readonly records: number; readonly made: number };
}

/** Longer than a heartbeat, so that every path renews. */
const WORK_MS = 4_000;

type Run = (ctx: TaskContext, world: FaultWorld, host: Host) => Promise<unknown>;

function task(type: string, run: Run): TaskPath['tasks'] {
  return (world, host) => [
    defineTask({
      type,
      lease: '9s',
      limits: { attempts: 6 },
      backoff: { first: '1s' },
      run: (_input, ctx) => run(ctx, world, host),
    }),
  ];
}

/** Makes one thing at the guarded receiver; notes a commit that starts without the right to it (I6). */
async function make(
  { ctx, world, host }: { readonly ctx: TaskContext; readonly world: FaultWorld; readonly host: Host },
  name: string,
  instead?: (call: CommitContext) => Promise<Made>,
): Promise<string> {
  const { invariants, receiver } = world;
  const made = await ctx.effect(name, {
    system: 'crm',
    commit: (call: CommitContext) => {
      const record = world.records.get(ctx.taskId);
      const who = `I6: ${host.name} started a commit`;
      invariants.require(ctx.ownership === 'held', `${who} while the lease was ${ctx.ownership}`);
      invariants.require(record?.fencingToken === call.fence, `${who} under a token that is not the last`);
      invariants.require(record?.effects[name]?.status === 'intended', `${who} without its intent in the ledger`);
      return instead ? instead(call) : receiver.make('guarded', call, host.process);
    },
    readBack: guarded('https://receiver.test'),
    receipt: (found) => ({ externalId: (found.json() as unknown as Made).id, status: 'made' }),
  });
  return made.id;
}

/** A tool call that changes nothing: the stage is external_call from then on. */
function work(ctx: TaskContext, host: Host): Promise<void> {
  return ctx.call('think', {}, ({ signal }) => sleep(host.process.clock, WORK_MS, signal));
}

/** The paths by name. Between them they make every call that a worker makes. */
export const TASK_PATHS: Readonly<Record<string, TaskPath>> = {
  'one-effect': {
    tasks: task('task', async (ctx, world, host) => {
      await work(ctx, host);
      return make({ ctx, world, host }, 'create');
    }),
    ends: 'settled',
    leaves: { records: 1, made: 1 },
  },
  'two-effects': {
    tasks: task('task', async (ctx, world, host) => {
      const first = await make({ ctx, world, host }, 'first');
      ctx.progress('the first is there');
      await sleep(host.process.clock, WORK_MS, ctx.signal);
      return [first, await make({ ctx, world, host }, 'second')];
    }),
    ends: 'settled',
    leaves: { records: 1, made: 2 },
  },
  'follow-ups': {
    tasks: (world, host) => [
      ...task('task', async (ctx) => {
        ctx.next('child', { number: 1 });
        await make({ ctx, world, host }, 'create');
        ctx.next('child', { number: 2 });
      })(world, host),
      ...task('child', async (ctx) => {
        await make({ ctx, world, host }, 'create');
      })(world, host),
    ],
    ends: 'settled',
    leaves: { records: 3, made: 3 },
  },
  'hand-off': {
    tasks: task('task', async (ctx, world, host) => {
      if (ctx.checkpointed === undefined) {
        await ctx.checkpoint({ half: true });
        return ctx.handOff();
      }
      await work(ctx, host);
      return make({ ctx, world, host }, 'create');
    }),
    ends: 'settled',
    leaves: { records: 1, made: 1 },
  },
  retry: {
    tasks: task('task', async (ctx, world, host) => {
      if (ctx.attempt === 1) throw new RetryableError('not yet');
      return make({ ctx, world, host }, 'create');
    }),
    ends: 'settled',
    leaves: { records: 1, made: 1 },
  },
  'permanent-error': {
    tasks: task('task', async (ctx, world, host) => {
      await sleep(host.process.clock, WORK_MS, ctx.signal);
      await make({ ctx, world, host }, 'create', () => Promise.reject(new PermanentError('refused by us')));
    }),
    ends: 'dead_lettered',
    leaves: { records: 1, made: 0 },
  },
  cancel: {
    tasks: task('task', async (ctx, world, host) => {
      await work(ctx, host);
      await make({ ctx, world, host }, 'create', async ({ signal }) => {
        await sleep(host.process.clock, WORK_MS, signal);
        await world.client.cancel(ctx.taskId);
        throw new Error('not sent');
      });
    }),
    ends: 'cancelled',
    leaves: { records: 1, made: 0 },
  },
};
