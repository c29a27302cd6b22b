import { expect, test } from 'vitest';
import { defineTask } from '@leasehold/worker';
import { World } from './harness.ts';

const never = (): Promise<never> => new Promise<never>(() => undefined);

test.each(['askHuman', 'handOff'] as const)(
  '%s does not give a task away while a tool call that was given up goes on',
  async (end) => {
    const world = new World();
    const a = world.host('a');
    const { worker } = a.work([
      defineTask({
        type: 'task',
        lease: '30s',
        limits: { tool: '20s' },
        run: (_input, ctx) => ctx.call('book', {}, never).catch(() => ctx[end]('The tool is silent. Try again?')),
      }),
    ]);
    const id = await world.enqueue({ type: 'task' });
    await world.until(() => worker.stats.claimed === 1);
    await world.until(() => worker.stats.running === 0, 60_000);
    expect(worker.stats.outcomes).toMatchObject({ leaked: 1, 'waiting-human': 0, 'handed-off': 0 });
    expect(world.record(id)?.state).toBe('running');
  },
);
