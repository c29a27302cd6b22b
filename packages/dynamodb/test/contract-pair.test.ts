import { afterAll, beforeAll, describe, test } from 'vitest';
import { pairCases, runCases, type PairHarness } from '@leasehold/contract';
import { memoryBroker, memoryQueue } from '@leasehold/core/memory';
import { dynamoDbLedger } from '@leasehold/dynamodb';
import { machine, never, type Machine } from './machine.ts';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

/** All processes of a case share one queue in memory and one table. */
async function pairHarness(): Promise<PairHarness> {
  const table = await one.table({ table: 'pairs' });
  const queue = memoryQueue();
  return {
    clock: one.clock,
    async open() {
      const ledger = table.ledger();
      await ledger.open(never());
      return { broker: memoryBroker({ queue, clock: one.clock }), ledger };
    },
    advance: (ms) => one.time.advance(ms),
    stepWall: (ms) => one.clock.stepWall(ms),
    deadLetters: async () => queue.deadLetters,
    dispose: () => table.dispose(),
  };
}

describe('a broker in memory and the ledger', () => {
  const capabilities = {
    broker: memoryBroker().capabilities,
    ledger: dynamoDbLedger({ table: 'never-opened' }).capabilities,
  };
  runCases(pairCases, pairHarness, { test, capabilities });
});
