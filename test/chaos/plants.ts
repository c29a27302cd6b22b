import type { BrokerDriver, LedgerDriver } from '@leasehold/core';
import { overriding } from './overriding.ts';

/** Weaknesses that a run can be given on purpose, and the invariants by which the audit has to find each. */
export const PLANTS = {
  /** The receiver does whatever it is told, and answers look requests from its rows without any fence. */
  'no-guard': ['I4'],
  /** The ledger takes every lease for lapsed and every writer for the owner. */
  'lawless-ledger': ['I1', 'I2', 'I7', 'ledger'],
  /** The worker acknowledges a message when it gets it. */
  'early-ack': ['I5'],
  /** A read-back that finds what it hopes for. */
  'hopeful-read-back': ['I4'],
} as const satisfies Record<string, readonly string[]>;

export type Plant = keyof typeof PLANTS;

/** Knows no condition: whoever writes is taken for the owner, and whoever asks for a task is shown that its lease is over. */
export function lawlessLedger(driver: LedgerDriver): LedgerDriver {
  return overriding(driver, {
    async put(next, lease, expect, signal) {
      if (!('lease' in expect)) {
        const outcome = await driver.put(next, lease, expect, signal);
        if (outcome.ok || outcome.current?.state !== 'running') return outcome;
        return { ...outcome, current: { ...outcome.current, leaseExpiresAt: outcome.now.earliest - 1 } };
      }
      const { record } = await driver.get(next.taskId, signal);
      const version = record?.version ?? 0;
      const forced = await driver.put({ ...next, version: version + 1 }, lease, { version, lease: 'any' }, signal);
      // The caller is told of the version that it asked for.
      return forced.ok ? { ...forced, record: { ...forced.record, version: next.version } } : forced;
    },
  });
}

/** At most once: gone from the queue before anything is done. */
export function earlyAck(driver: BrokerDriver): BrokerDriver {
  return overriding(driver, {
    async receive(ask, signal) {
      const deliveries = await driver.receive(ask, signal);
      if (deliveries.length > 0)
        await driver.complete(
          deliveries.map(({ handle }) => handle),
          signal,
        );
      return deliveries;
    },
  });
}
