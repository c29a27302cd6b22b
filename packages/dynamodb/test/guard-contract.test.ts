import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { guardCases, runCases } from '@leasehold/contract';
import type { DynamoDbGuardOptions } from '@leasehold/dynamodb';
import { harnessOn, machine, type Machine } from './machine.ts';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

const harnessFor = (options: Partial<DynamoDbGuardOptions>) => async () => {
  const table = await one.table(options);
  // The guard knows the service's clock as the ledger does.
  const { clockErrorMs } = table.ledger().capabilities;
  return { ...harnessOn(one, table, () => table.guard()), clockErrorMs };
};

describe('the guard store in a table of its own', () => {
  runCases(guardCases, harnessFor({}), { test, capabilities: undefined });
});

describe('the guard store in a part of a pk/sk table', () => {
  // Only the names of things differ.
  const some = guardCases.filter(({ name }) => /first request|tokens and keys|look seals|close/.test(name));
  const options = { table: 'single-table', keys: { partition: 'PK', sort: 'SK' } };
  const names = runCases(some, harnessFor(options), { test, capabilities: undefined });
  test('there are such cases', () => expect(names).toHaveLength(5));
});
