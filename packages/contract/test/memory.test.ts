import { describe, test } from 'vitest';
import { virtualClock, type BrokerCapabilities } from '@leasehold/core';
import { memoryBroker, memoryGuard, memoryGuardState, memoryLedger, memoryQueue, memoryTable, type MemoryBrokerOptions } from '@leasehold/core/memory';
import { brokerCases, guardCases, ledgerCases, runCases, type BrokerHarness, type GuardHarness, type LedgerHarness } from '@leasehold/contract';

const QUEUES: Readonly<Record<string, MemoryBrokerOptions>> = {
  'a queue with the usual capabilities': {},
  'a queue that hides stale handles, without delays, counts or a dead-letter queue': {
    staleHandle: 'silent',
    releaseDelayMs: 0,
    sendDelayMs: 0,
    deliveryCount: false,
    deadLetter: 'none',
  },
  'an ordered queue with caps on time and deliveries': {
    ordering: true,
    maxDeliveries: 4,
    totalLeaseMs: 30_000,
    deadLetter: 'copy',
    maxBatchBytes: 262_144,
  },
  'pushed deliveries that cannot be prolonged, one at a time': {
    extend: false,
    maxBatch: { send: 1, receive: 1, handles: 1 },
    leaseMs: { min: 600_000, max: 600_000, step: 600_000 },
    maxBodyBytes: 1_000,
  },
};

function brokerHarness(options: MemoryBrokerOptions): BrokerHarness {
  const clock = virtualClock();
  const queue = memoryQueue();
  const opened: { close(): Promise<void> }[] = [];
  return {
    async open() {
      const driver = memoryBroker({ ...options, queue, clock });
      opened.push(driver);
      return driver;
    },
    advance: (ms) => clock.advance(ms),
    deadLetters: async () => queue.deadLetters,
    async dispose() {
      for (const driver of opened) await driver.close();
    },
  };
}

function ledgerHarness(clockErrorMs: number): LedgerHarness {
  const clock = virtualClock();
  const table = memoryTable();
  return { open: async () => memoryLedger({ table, clock, clockErrorMs }), advance: (ms) => clock.advance(ms), dispose: async () => undefined };
}

function guardHarness(): GuardHarness {
  const clock = virtualClock();
  const state = memoryGuardState();
  return { open: async () => memoryGuard({ state, clock }), advance: (ms) => clock.advance(ms), dispose: async () => undefined };
}

for (const [name, options] of Object.entries(QUEUES)) {
  describe(`memoryBroker, ${name}`, () => {
    const capabilities: BrokerCapabilities = memoryBroker(options).capabilities;
    runCases(brokerCases, () => brokerHarness(options), { test, capabilities });
  });
}

for (const clockErrorMs of [0, 750]) {
  describe(`memoryLedger, clock error ${clockErrorMs} ms`, () => {
    runCases(ledgerCases, () => ledgerHarness(clockErrorMs), { test, capabilities: memoryLedger({ clockErrorMs }).capabilities });
  });
}

describe('memoryGuard', () => {
  runCases(guardCases, guardHarness, { test, capabilities: undefined });
});
