import { afterAll, beforeAll, describe, test } from 'vitest';
import { guardCases, runCases } from '@leasehold/contract';
import type { DynamoDbGuardOptions } from '@leasehold/dynamodb';
import { harnessOn, machine, type Machine } from './machine.ts';

const KINDS: Readonly<Record<string, Partial<DynamoDbGuardOptions>>> = {
  'a table of its own': {},
  'a part of a pk/sk table': { table: 'single-table', keys: { partition: 'PK', sort: 'SK' } },
};
/** The service's clock is known to about a second: where a case lets a hold run out to the millisecond, both when it is taken and when it is judged. */
const CLOCK_ERROR_MS = 2_100;

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

describe.each(Object.entries(KINDS))('the guard store in %s', (_, kind) => {
  const harness = async () => {
    const table = await one.table(kind);
    return harnessOn(one, table, () => table.guard(), CLOCK_ERROR_MS);
  };
  runCases(guardCases, harness, { test, capabilities: undefined });
});
