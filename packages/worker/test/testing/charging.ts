import { defineTask, guarded, type TaskDefinition } from '@leasehold/worker';
import type { Manner } from '@leasehold/worker/testing';

export interface Charge {
  readonly amount: number;
}

const CHARGES = 'https://pay.example/charges';

/** A task with one effect that is made by `fetch` and read back by a function. */
export function charging(receiver: Manner = 'guarded'): TaskDefinition<Charge, { paid: string }> {
  return defineTask({
    type: 'charge',
    async run(input: Charge, ctx) {
      const charged = await ctx.effect('charge', {
        system: 'pay',
        receiver,
        commit: ({ headers, signal }) =>
          fetch(CHARGES, { method: 'POST', headers, signal, body: JSON.stringify(input) }),
        async readBack({ idempotencyKey, headers, signal }) {
          const found = await fetch(`${CHARGES}?key=${idempotencyKey}`, { headers, signal });
          return found.ok ? ((await found.json()) as { id: string }) : undefined;
        },
        receipt: ({ id }) => ({ externalId: id, status: 'paid' }),
      });
      return { paid: charged.id };
    },
  });
}

/** The same, read back through the look endpoint of a guarded receiver. */
export function looking(at = 'https://pay.example'): TaskDefinition<Charge, { paid: string }> {
  return defineTask({
    type: 'charge',
    async run(input: Charge, ctx) {
      const charged = await ctx.effect('charge', {
        system: 'pay',
        commit: ({ headers, signal }) =>
          fetch(CHARGES, { method: 'POST', headers, signal, body: JSON.stringify(input) }),
        readBack: guarded(at),
        receipt: (response) => ({ externalId: (response.json() as { id: string }).id, status: 'paid' }),
      });
      return { paid: charged.id };
    },
  });
}

/** Nothing but a bare request: what a lease alone does not make safe. */
export const bare: TaskDefinition<Charge, { paid: string }> = defineTask({
  type: 'charge',
  async run(input: Charge, ctx) {
    const answer = await fetch(CHARGES, { method: 'POST', signal: ctx.signal, body: JSON.stringify(input) });
    return { paid: ((await answer.json()) as { id: string }).id };
  },
});
