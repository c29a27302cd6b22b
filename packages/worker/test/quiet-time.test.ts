import { expect, test } from 'vitest';
import { dropAnswer } from '@leasehold/core/testing';
import type { LedgerDriver } from '@leasehold/core';
import { defineTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';
import { make } from './making.ts';

const never = (): Promise<never> => new Promise<never>(() => undefined);

/**
 * Worker a makes the call late in its lease and dies; the receiver gets it within the quiet time. Worker b is to find it.
 */
function scene() {
  const world = new World();
  const [a, b] = [world.host('a'), world.host('b')];
  const type = (host: Host, lease: string) =>
    defineTask({
      type: 'task',
      lease,
      run: async (_input, ctx) =>
        void (await make(world, host, ctx, 'create', 'plain', {
          quiesce: '60s',
          commit(call) {
            if (host === b) return world.receiver.make('plain', call, b.process);
            world.clock.timer(55_000, () => void world.receiver.make('plain', call, b.process));
            a.process.kill();
            return never();
          },
        })),
    });
  const start = world.clock.monotonic();
  const early = (): boolean => world.clock.monotonic() - start < 60_000;
  return { world, a, b, type, early };
}

test('the quiet time of an effect counts from the lease under which it was intended, also after a deploy with a shorter one', async () => {
  const { world, a, b, type, early } = scene();
  // The intent is applied at once, and its answers are lost for 60 of the 90 seconds.
  a.ledgerFaults.on('put', dropAnswer(), {
    times: Infinity,
    when: (next) => next.effects['create'] !== undefined && early(),
  });
  a.work([type(a, '90s')]);
  await world.enqueue({ type: 'task' });
  await world.until(() => !a.process.alive, 100_000);
  b.work([type(b, '9s')]);
  await world.clock.advance(600_000);
  expect(world.receiver.made).toHaveLength(1);
  await world.end();
});

test('the quiet time does not count from the lease of an earlier intent, which an older worker left in the record', async () => {
  const { world, a, b, type, early } = scene();
  // It keeps what it does not know, beside an instant of its own.
  a.ledgerFaults.on(
    'put',
    async (call) => {
      const [next, ...others] = call.args as Parameters<LedgerDriver['put']>;
      const { create } = next.effects;
      const old = create ? { ...next, effects: { create: { ...create, leaseMs: 9_000 } } } : next;
      const answer = await call.apply([old, ...others], call.signal);
      if (create && early()) throw new Error('lost');
      return answer;
    },
    { times: Infinity },
  );
  a.work([type(a, '90s')]);
  await world.enqueue({ type: 'task' });
  await world.until(() => !a.process.alive, 100_000);
  b.work([type(b, '90s')]);
  await world.clock.advance(600_000);
  expect(world.receiver.made).toHaveLength(1);
  await world.end();
});
