import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ledgerCases, runCases } from '@leasehold/contract';
import { dynamoDbLedger, type DynamoDbLedgerOptions } from '@leasehold/dynamodb';
import { harnessOn, machine, never, type Machine } from './machine.ts';

const KEYS = { partition: 'PK', sort: 'SK' };
const KINDS: Readonly<Record<string, Omit<DynamoDbLedgerOptions, 'table'> & { readonly table?: string }>> = {
  'a table of its own, with its index': {},
  'a part of a pk/sk table, in an index that is there for other things too': {
    table: 'overloaded-table',
    keys: KEYS,
    ttl: 'expires',
    index: { name: 'GSI1', partition: 'GSI1PK', sort: 'GSI1SK' },
  },
};

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

const harnessFor = (kind: Partial<DynamoDbLedgerOptions>) => async () => {
  const table = await one.table(kind);
  return harnessOn(one, table, async () => {
    const driver = table.ledger();
    await driver.open(never());
    return driver;
  });
};

describe.each(Object.entries(KINDS))('the ledger in %s', (_, kind) => {
  const { capabilities } = dynamoDbLedger({ table: 'never-opened', ...kind });
  runCases(ledgerCases, harnessFor(kind), { test, capabilities });
});

describe('the ledger in a part of a pk/sk table, without an index', () => {
  const kind = { table: 'single-table', keys: KEYS, index: false } as const;
  const { capabilities } = dynamoDbLedger(kind);
  // The index has a part in lists alone.
  const lists = ledgerCases.filter(({ name }) => /filter|list|page|cursor/.test(name));
  const names = runCases(lists, harnessFor(kind), { test, capabilities });
  test('every case about lists is among them', () => expect(names.length).toBeGreaterThan(5));
});
