import { afterAll, beforeAll, describe, test } from 'vitest';
import { pairCases, runCases, type PairHarness } from '@leasehold/contract';
import { memoryLedger } from '@leasehold/core/memory';
import { brokerHarness, declared, machine, type Machine, type MachineQueue } from './machine.ts';

const KINDS: Readonly<Record<string, MachineQueue>> = {
  'a standard queue': {},
  'a standard queue with a dead-letter queue': { deadLetter: true },
  'a FIFO queue that gives a message up after 4 receives': { fifo: true, maxReceiveCount: 4 },
};

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

/** All processes of a case share one ledger in memory. */
async function pairHarness(options: MachineQueue): Promise<PairHarness> {
  const queue = await brokerHarness(one, options);
  const ledger = memoryLedger({ clock: one.clock });
  return {
    clock: one.clock,
    async open() {
      // Closing a broker of one process must not close the table of all.
      const shared = { ...ledger, close: () => Promise.resolve() };
      return { broker: await queue.open(), ledger: shared };
    },
    advance: (ms) => one.time.advance(ms),
    stepWall: (ms) => one.clock.stepWall(ms),
    deadLetters: () => queue.deadLetters(),
    dispose: () => queue.dispose(),
  };
}

describe.each(Object.entries(KINDS))('%s and a ledger in memory', (_, queue) => {
  const capabilities = { broker: declared(queue), ledger: memoryLedger().capabilities };
  runCases(pairCases, () => pairHarness(queue), { test, capabilities });
});
