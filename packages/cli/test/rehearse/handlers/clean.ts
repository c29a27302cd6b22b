import { defineTask } from '@leasehold/worker';

interface Order {
  readonly order: string;
  readonly cents: number;
}

/** Everything irreversible is an effect, and every effect can be read back. */
export const charge = defineTask({
  type: 'charge',
  input: {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate(value) {
        const { order, cents } = value as Partial<Order>;
        const issues = [
          ...(typeof order === 'string' ? [] : [{ message: 'expected text', path: ['order'] }]),
          ...(typeof cents === 'number' ? [] : [{ message: 'expected a number', path: [{ key: 'cents' }] }]),
        ];
        return issues.length > 0 ? { issues } : { value: value as Order };
      },
    },
  },
  async run(input, ctx) {
    const risk = await ctx.call('risk', { timeout: '30s' }, async ({ signal }) => {
      const answer = await fetch(`https://scores.example/orders/${input.order}`, { signal });
      return (await answer.json()) as { score?: number };
    });
    const charged = await ctx.effect('charge', {
      system: 'pay',
      receiver: 'guarded',
      commit: ({ headers, signal }) =>
        fetch('https://pay.example/charges', { method: 'POST', headers, signal, body: JSON.stringify(input) }),
      async readBack({ idempotencyKey, headers, signal }) {
        const found = await fetch(`https://pay.example/charges?key=${idempotencyKey}`, { headers, signal });
        return found.ok ? ((await found.json()) as { id: string }) : undefined;
      },
      receipt: ({ id }) => ({ externalId: id, status: 'paid' }),
    });
    process.stdout.write(`charged ${charged.id}, risk ${risk.score}\n`);
    return { charge: charged.id };
  },
});
