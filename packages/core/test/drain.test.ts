import { expect, test } from 'vitest';
import { createLeaseBroker, virtualClock } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';

test('a drain waits for what was told to the broker, not for a poll that waits for messages', async () => {
  const clock = virtualClock();
  const broker = createLeaseBroker({ driver: memoryBroker({ clock }), ledger: memoryLedger({ clock }), clock });
  const poll = broker.receive({ max: 1, leaseMs: 60_000, waitMs: 20_000 });
  let drained = false;
  void broker.drain().then(() => (drained = true));
  await clock.advance(0);
  expect(drained).toBe(true);
  await clock.advance(20_000);
  expect(await poll).toEqual([]);
});
