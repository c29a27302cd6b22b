import { guarded } from '@leasehold/worker';
import type { EffectOptions, TaskContext, VerifiedEffect } from '@leasehold/worker';
import type { Host, World } from './harness.ts';
import type { Made, Manner } from './receiver.ts';

/** How a task of the tests makes its effect and reads it back. */
export type Style = 'guarded look' | 'guarded function' | 'idempotent function' | 'replays key' | 'plain with quiesce' | 'plain' | 'human';

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
export function making(
  world: World,
  host: Host,
  ctx: TaskContext,
  style: Style,
  more: Partial<EffectOptions<Made, Made>> = {},
): EffectOptions<Made, Made> {
  const { receiver } = world;
  const manner = MANNERS[style];
  const common: EffectOptions<Made, Made> = {
    system: 'crm',
    commit(call) {
      world.invariants.require(ctx.ownership === 'held', `I6: ${host.name} started a commit while the lease was ${ctx.ownership}`);
      world.invariants.require(!call.signal.aborted, `${host.name} started a commit with an aborted signal`);
      return receiver.make(manner, call, host.process);
    },
    readBack: (call) => receiver.find(manner, call, host.process),
    receipt: (made) => ({ externalId: made.id, status: 'made' }),
  };
  switch (style) {
    case 'guarded look':
      return {
        ...common,
        // What a look answers is the stored response.
        readBack: guarded('https://receiver.test') as unknown as EffectOptions<Made, Made>['readBack'],
        receipt: (found) => ({ externalId: ((found as unknown as { json(): unknown }).json() as Made).id, status: 'made' }),
        ...more,
      };
    case 'guarded function':
      return { ...common, receiver: 'guarded', ...more };
    case 'idempotent function':
      return { ...common, receiver: 'idempotent', ...more };
    case 'replays key':
      return { ...common, readBack: 'provider-replays-key', ...more };
    case 'human':
      return { ...common, readBack: 'human', ...more };
    case 'plain with quiesce':
      return { ...common, quiesce: '5s', ...more };
    case 'plain':
      return { ...common, ...more };
  }
}

/** Makes the effect `name` in some style. */
export function make(
  world: World,
  host: Host,
  ctx: TaskContext,
  name: string,
  style: Style,
  more: Partial<EffectOptions<Made, Made>> = {},
): Promise<VerifiedEffect<Made>> {
  return ctx.effect(name, making(world, host, ctx, style, more));
}
