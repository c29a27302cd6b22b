import { describe, expect, test } from 'vitest';
import {
  brokerCases,
  guardCases,
  ledgerCases,
  runCases,
  type BrokerHarness,
  type CaseHarness,
} from '@leasehold/contract';
import {
  sqliteBroker,
  sqliteGuard,
  sqliteLedger,
  type SqliteBrokerOptions,
  type SqliteFileOptions,
} from '@leasehold/sqlite';
import { machine, never } from './machine.ts';

/** Each driver it opens has a connection of its own, as if it were in a process of its own. */
function harness<Driver extends { close(): Promise<void> }>(
  make: (options: SqliteFileOptions) => Driver,
): CaseHarness<Driver> {
  const one = machine();
  const opened: Driver[] = [];
  return {
    async open() {
      const driver = make(one.process());
      opened.push(driver);
      return driver;
    },
    advance: (ms) => one.clock.advance(ms),
    async dispose() {
      await Promise.all(opened.map((driver) => driver.close()));
      one.dispose();
    },
  };
}

function brokerHarness(options: Partial<SqliteBrokerOptions> = {}): BrokerHarness {
  const base = harness((file) => sqliteBroker({ ...file, ...options }));
  return {
    ...base,
    async deadLetters() {
      const broker = await base.open();
      return (await broker.deadLetters({}, never())).letters;
    },
  };
}

const file = './never-opened.db';

describe('the broker', () => {
  const { capabilities } = sqliteBroker({ file });
  const names = runCases(brokerCases, () => brokerHarness(), { test, capabilities });
  test('every case applies but those for weaker brokers', () => expect(names.length).toBeGreaterThan(25));
});

describe('the broker with a delivery limit', () => {
  const { capabilities } = sqliteBroker({ file, maxDeliveries: 4 });
  runCases(brokerCases, () => brokerHarness({ maxDeliveries: 4 }), { test, capabilities });
});

describe('a dead-letter queue, read as a queue', () => {
  const { capabilities } = sqliteBroker({ file, queue: 'default.dead' });
  runCases(brokerCases, () => brokerHarness({ queue: 'default.dead' }), { test, capabilities });
});

describe('the ledger', () => {
  runCases(ledgerCases, () => harness((options) => sqliteLedger(options)), {
    test,
    capabilities: sqliteLedger({ file }).capabilities,
  });
});

describe('the guard store', () => {
  runCases(guardCases, () => harness((options) => sqliteGuard(options)), { test, capabilities: undefined });
});
