import { guarded } from '@leasehold/worker';
import type { CommitContext, ReadableEffect, TaskContext, VerifiedEffect } from '@leasehold/worker';
import type { Host, World } from './harness.ts';
import type { Made, Manner } from './receiver.ts';

/** How a task of the tests makes its effect and reads it back. */
export type Style =
  | 'guarded look'
  | 'guarded function'
  | 'idempotent function'
  | 'replays key'
  | 'plain with quiesce'
  | 'plain'
  | 'human';

/** What a test may want otherwise. */
export type Otherwise = Partial<ReadableEffect<Made, Made>>;

const MANNERS: Readonly<Record<Style, Manner>> = {
  'guarded look': 'guarded',
  'guarded function': 'guarded',
  'idempotent function': 'keyed',
  'replays key': 'keyed',
  'plain with quiesce': 'plain',
  plain: 'plain',
  human: 'plain',
};

/** The effect of the tests: makes one thing at the world's receiver. Notes a commit that starts while the lease is not held (I6). */
export async function make(
  world: World,
  host: Host,
  ctx: TaskContext,
  name: string,
  style: Style,
  otherwise: Otherwise = {},
): Promise<VerifiedEffect<unknown>> {
  const { receiver } = world;
  const manner = MANNERS[style];
  const { commit = (call: CommitContext) => receiver.make(manner, call, host.process), ...more } = otherwise;
  const parts = {
    system: 'crm',
    commit(call: CommitContext) {
      world.invariants.require(
        ctx.ownership === 'held',
        `I6: ${host.name} started a commit while the lease was ${ctx.ownership}`,
      );
      world.invariants.require(!call.signal.aborted, `${host.name} started a commit with an aborted signal`);
      const record = world.record(ctx.taskId);
      world.invariants.require(
        record?.fencingToken === call.fence,
        `I6: ${host.name} started a commit under a token that is not the last`,
      );
      world.invariants.require(
        record?.effects[name]?.status === 'intended',
        `${host.name} started a commit without its intent in the ledger`,
      );
      return commit(call);
    },
    readBack: (call: CommitContext) => receiver.find(manner, call, host.process),
    receipt: (made: Made) => ({ externalId: made.id, status: 'made' }),
    ...more,
  };
  switch (style) {
    case 'guarded look': {
      const { receipt, ...rest } = parts;
      const readBack = guarded('https://receiver.test');
      return ctx.effect(name, { ...rest, readBack, receipt: (found) => receipt(found.json() as unknown as Made) });
    }
    case 'guarded function':
      return ctx.effect(name, { ...parts, receiver: 'guarded' });
    case 'idempotent function':
      return ctx.effect(name, { ...parts, receiver: 'idempotent' });
    case 'replays key':
      return ctx.effect(name, { ...parts, readBack: 'provider-replays-key' });
    case 'human':
      return ctx.effect(name, { ...parts, readBack: 'human' });
    case 'plain with quiesce':
      return ctx.effect(name, { quiesce: '5s', ...parts });
    case 'plain':
      return ctx.effect(name, parts);
  }
}
