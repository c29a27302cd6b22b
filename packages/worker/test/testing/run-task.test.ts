import { expect, test } from 'vitest';
import { defineTask } from '@leasehold/worker';
import { receiverDouble, runTask } from '@leasehold/worker/testing';

const charge = defineTask({
  type: 'charge',
  async run(input: { amount: number }, ctx) {
    const charged = await ctx.effect('charge', {
      system: 'pay',
      commit: ({ headers, signal }) =>
        fetch('https://pay.example/charges', { method: 'POST', headers, signal, body: JSON.stringify(input) }),
      readBack: async ({ idempotencyKey, headers, signal }) => {
        const found = await fetch(`https://pay.example/charges?key=${idempotencyKey}`, { headers, signal });
        return found.ok ? ((await found.json()) as { id: string }) : undefined;
      },
      receiver: 'guarded',
      receipt: (found) => ({ externalId: found.id, status: 'paid' }),
    });
    return { paid: charged.id };
  },
});

test('x', async () => {
  const pay = receiverDouble();
  const clean = await runTask(charge, { amount: 12 }, { fetch: pay.fetch });
  console.log(clean.outcome, clean.result, clean.receipt, clean.calls, clean.tookMs, clean.violations, clean.settles);
  for (const p of ['claim', 'intent', 'commit', 'verify', 'settle'] as const) {
    for (const f of ['crashAfter', 'loseAnswerOf', 'after', 'before'] as const) {
      const pay = receiverDouble();
      const t = performance.now();
      const run = await runTask(charge, { amount: 12 }, { fetch: pay.fetch, ...(f === 'crashAfter' ? { crashAfter: p } : f === 'loseAnswerOf' ? { loseAnswerOf: p } : f === 'after' ? { pauseFor: { after: p } } : { pauseFor: { before: p } }) });
      console.log(p, f, run.outcome, run.result, pay.made.length, run.tookMs, run.rejected.length, run.violations, pay.requests.map((r) => `${r.method} ${r.outcome} ${r.refusal ?? ''}`).join(), Math.round(performance.now() - t));
    }
  }
  expect(1).toBe(1);
});
