import type { LedgerDriver, TaskRecord } from '@leasehold/core';
import { overriding } from './overriding.ts';
import type { Said, Seen } from './said.ts';

/** Writes down every conditional write before it leaves, and its answer: the audit's view of the ledger, whatever store it is. */
export function watchedLedger(driver: LedgerDriver, say: (said: Said) => void): LedgerDriver {
  let sent = 0;
  return overriding(driver, {
    async put(next, lease, expect, signal) {
      const n = ++sent;
      const { taskId } = next;
      say({
        kind: 'sent',
        n,
        taskId,
        next: seen(next),
        expect: 'lease' in expect ? expect.lease : 'nothing',
        ...(lease && { leaseMs: lease.ms }),
      });
      try {
        const outcome = await driver.put(next, lease, expect, signal);
        if (outcome.ok) say({ kind: 'answered', n, answer: 'ok' });
        else say({ kind: 'answered', n, answer: 'refused', ...(outcome.current && { shown: seen(outcome.current) }) });
        return outcome;
      } catch (error) {
        say({ kind: 'answered', n, answer: 'failed', error: String(error) });
        throw error;
      }
    },
  });
}

function seen(record: TaskRecord): Seen {
  const { version, fencingToken, attempt, state, opId, leaseOwner, settlementReceipt } = record;
  return {
    version,
    token: fencingToken,
    attempt,
    state,
    opId,
    ...(leaseOwner !== undefined && { owner: leaseOwner }),
    ...(settlementReceipt && { receipt: { token: settlementReceipt.token, id: settlementReceipt.externalId } }),
  };
}
