import { randomUUID } from 'node:crypto';
import { defineTask } from '@leasehold/worker';
import { seen } from './memory.ts';

const post = (url: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, { method: 'POST', headers, body: '{}' });

/** Remembers in a variable what it did, which the next process does not. */
export const forgets = defineTask({
  type: 'forgets',
  async run(_input: unknown, ctx) {
    if (seen.has(ctx.taskId)) return;
    await post('https://pay.example/charges');
    seen.add(ctx.taskId);
  },
});

/** Makes a new idempotency key for every attempt. */
export const newKey = defineTask({
  type: 'new-key',
  async run(_input: unknown, ctx) {
    await ctx.call('pay', {}, async () => {
      await post('https://pay.example/charges', { 'idempotency-key': randomUUID() });
    });
  },
});

/** Says that the provider knows the key, and does not send it. */
export const keyless = defineTask({
  type: 'keyless',
  async run(_input: unknown, ctx) {
    await ctx.effect('pay', {
      system: 'pay',
      commit: async () => (await post('https://pay.example/charges')).json() as Promise<{ id: string }>,
      readBack: 'provider-replays-key',
      receipt: ({ id }) => ({ externalId: id, status: 'paid' }),
    });
  },
});

/** A receiver that nothing is known of: never made twice, but not always told either. */
export const unknowing = defineTask({
  type: 'unknowing',
  limits: { attempts: 2 },
  async run(_input: unknown, ctx) {
    await ctx.effect('wire', {
      system: 'bank',
      commit: ({ headers }) => post('https://bank.example/wires', headers as Record<string, string>),
      async readBack({ idempotencyKey }) {
        const found = await fetch(`https://bank.example/wires?reference=${idempotencyKey}`);
        return found.ok ? ((await found.json()) as { id: string }) : undefined;
      },
      receipt: ({ id }) => ({ externalId: id, status: 'sent' }),
    });
  },
});

/** Asks a model, which may be asked again, and a person. */
export const asks = defineTask({
  type: 'asks',
  async run(_input: unknown, ctx) {
    const said = await ctx.call('summarise', { provider: 'model' }, async () => {
      const answer = await post('https://model.example/v1/completions');
      return (await answer.json()) as { choices: readonly { text: string }[] };
    });
    await ctx.askHuman('Send it?');
    return said.choices[0]?.text;
  },
});
