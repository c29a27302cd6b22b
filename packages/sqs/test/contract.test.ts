import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { brokerCases, runCases } from '@leasehold/contract';
import { brokerHarness, declared, machine, type Machine, type MachineQueue } from './machine.ts';

const KINDS: Readonly<Record<string, MachineQueue>> = {
  'a standard queue': {},
  'a standard queue with a dead-letter queue, after 4 receives': { maxReceiveCount: 4 },
  'a FIFO queue': { fifo: true },
  'a FIFO queue with a dead-letter queue, after 4 receives': { fifo: true, maxReceiveCount: 4 },
};

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

describe.each(Object.entries(KINDS))('%s', (_, queue) => {
  const names = runCases(brokerCases, () => brokerHarness(one, queue), { test, capabilities: declared(queue) });
  test('most cases apply', () => expect(names.length).toBeGreaterThan(25));
});
