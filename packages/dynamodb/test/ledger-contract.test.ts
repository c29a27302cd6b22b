import { afterAll, beforeAll, describe, test } from 'vitest';
import { ledgerCases, runCases } from '@leasehold/contract';
import { dynamoDbLedger, type DynamoDbLedgerOptions } from '@leasehold/dynamodb';
import { harnessOn, machine, never, type Machine } from './machine.ts';

const KEYS = { partition: 'PK', sort: 'SK' };
const KINDS: Readonly<Record<string, Omit<DynamoDbLedgerOptions, 'table'> & { readonly table?: string }>> = {
  'a table of its own, with its index': {},
  'a part of a pk/sk table, without an index': { table: 'single-table', keys: KEYS, index: false },
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

describe.each(Object.entries(KINDS))('the ledger in %s', (_, kind) => {
  const { capabilities } = dynamoDbLedger({ table: 'never-opened', ...kind });
  const harness = async () => {
    const table = await one.table(kind);
    return harnessOn(one, table, async () => {
      const driver = table.ledger();
      await driver.open(never());
      return driver;
    });
  };
  runCases(ledgerCases, harness, { test, capabilities });
});
