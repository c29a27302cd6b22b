import { expect, test } from 'vitest';
import { failBefore } from '@leasehold/core/testing';
import { defineTask } from '@leasehold/worker';
import { World } from './harness.ts';

test('a ledger that refuses every claim is told of once, not never and not for every message', async () => {
  const world = new World();
  const a = world.host('a');
  for (const method of ['put', 'get'] as const) a.ledgerFaults.on(method, failBefore('denied'), { times: Infinity });
  const { warnings, worker } = a.work([defineTask({ type: 'task', run: () => 'done' })], { concurrency: 5 });
  for (let number = 0; number < 30; number++) await world.enqueue({ type: 'task', input: { number } });
  await world.clock.advance(10_000);
  expect(worker.stats.claimed).toBe(0);
  const told = warnings.filter((warning) => warning.includes('could not be claimed'));
  expect(told).toEqual([expect.stringMatching(/denied \(ledger memory\)\. Check what this role may do/) as string]);
  a.ledgerFaults.reset();
  await world.until(() => world.quiet);
  await world.end();
});
