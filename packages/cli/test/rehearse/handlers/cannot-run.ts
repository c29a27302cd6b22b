import { createConnection } from 'node:net';
import { defineTask } from '@leasehold/worker';

const POST = { method: 'POST', body: '{}' } as const;

/** Wants something that no double answers. */
export const database = defineTask({
  type: 'database',
  async run() {
    await new Promise((resolve, reject) => {
      createConnection({ host: 'db.example', port: 5432 }).on('connect', resolve).on('error', reject);
    });
  },
});

/** Does not show the guard what a guard wants to see. */
export const forgetful = defineTask({
  type: 'forgetful',
  async run(_input: unknown, ctx) {
    await ctx.effect('open', {
      system: 'crm',
      receiver: 'guarded',
      commit: () => fetch('https://crm.example/cases', POST),
      readBack: () => undefined,
      receipt: () => ({ externalId: 'none', status: 'none' }),
    });
  },
});
