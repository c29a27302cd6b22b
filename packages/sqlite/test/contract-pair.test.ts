import { describe, test } from 'vitest';
import { pairCases, runCases, type PairCapabilities, type PairHarness } from '@leasehold/contract';
import type { BrokerDriver, LedgerDriver } from '@leasehold/core';
import { faultPlan, faultyBroker, faultyLedger } from '@leasehold/core/testing';
import { sqliteBroker, sqliteLedger, type SqliteBrokerOptions } from '@leasehold/sqlite';
import { machine, never } from './machine.ts';

interface Around {
  readonly broker: (driver: BrokerDriver) => BrokerDriver;
  readonly ledger: (driver: LedgerDriver) => LedgerDriver;
}

/** Both drivers on one file; every pair has connections of its own, as if it were in a process of its own. */
function pairHarness(
  options: Partial<SqliteBrokerOptions> = {},
  around: (one: PairHarness['clock']) => Around = () => ({ broker: (driver) => driver, ledger: (driver) => driver }),
): PairHarness {
  const one = machine();
  const wrap = around(one.clock);
  const opened: { close(): Promise<void> }[] = [];
  const open = () => {
    const [broker, ledger] = [sqliteBroker({ ...one.process(), ...options }), sqliteLedger(one.process())];
    opened.push(broker, ledger);
    return { broker, ledger };
  };
  return {
    clock: one.clock,
    async open() {
      const { broker, ledger } = open();
      return { broker: wrap.broker(broker), ledger: wrap.ledger(ledger) };
    },
    advance: (ms) => one.clock.advance(ms),
    stepWall: (ms) => one.clock.stepWall(ms),
    deadLetters: async () => (await open().broker.deadLetters({}, never())).letters,
    async dispose() {
      await Promise.all(opened.map((driver) => driver.close()));
      one.dispose();
    },
  };
}

const file = './never-opened.db';
const declared = (options: Partial<SqliteBrokerOptions> = {}): PairCapabilities => ({
  broker: sqliteBroker({ file, ...options }).capabilities,
  ledger: sqliteLedger({ file }).capabilities,
});

describe('the broker and the ledger on one file', () => {
  runCases(pairCases, () => pairHarness(), { test, capabilities: declared() });
});

describe('the broker with a delivery limit and the ledger, behind wrappers without faults', () => {
  const options = { maxDeliveries: 4 };
  const around = (clock: PairHarness['clock']): Around => ({
    broker: (driver) => faultyBroker(driver, faultPlan(), clock),
    ledger: (driver) => faultyLedger(driver, faultPlan(), clock),
  });
  runCases(pairCases, () => pairHarness(options, around), { test, capabilities: declared(options) });
});
