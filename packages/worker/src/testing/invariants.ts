import { isTerminal, openEffects } from '@leasehold/core';
import type { LedgerDriver, PutExpectation, PutOutcome, TaskRecord } from '@leasehold/core';

/** Watches what every process writes and notes what must not be: the invariants I1, I2, I3, I7 and the rule of closing. */
export class Invariants {
  readonly violations: string[] = [];
  /** Accepted writes by task, for counting what a path costs. */
  readonly writes: Map<string, number> = new Map();
  /** Accepted settles by task. */
  readonly settles: Map<string, number> = new Map();
  readonly #records = new Map<string, TaskRecord>();
  readonly #lost = new Set<string>();

  require(holds: boolean, what: string): void {
    if (!holds) this.violations.push(what);
  }

  /** A ledger whose writes by `process` are watched. */
  watch(driver: LedgerDriver, process: string): LedgerDriver {
    return {
      ...driver,
      put: async (next, lease, expect, signal) => {
        const outcome = await driver.put(next, lease, expect, signal);
        const longest = lease && lease.ms + driver.capabilities.clockErrorMs;
        this.#judge(process, this.#records.get(next.taskId), next, expect, outcome, longest);
        if (outcome.ok) this.#records.set(next.taskId, outcome.record);
        return outcome;
      },
    };
  }

  #judge(
    process: string,
    before: TaskRecord | undefined,
    next: TaskRecord,
    expect: PutExpectation,
    outcome: PutOutcome,
    longestMs: number | undefined,
  ): void {
    const claims = next.attempt !== (before?.attempt ?? 0);
    const owners = expect.version > 0 && 'lease' in expect && expect.lease === 'live';
    const mine = `${process} ${next.taskId} ${next.fencingToken}`;
    // I3: whoever was refused by a newer owner writes nothing any more.
    if (owners)
      this.require(
        !this.#lost.has(mine),
        `${process} wrote to ${next.taskId} under token ${next.fencingToken} after it had lost it`,
      );
    if (!outcome.ok) {
      if (owners && outcome.current && outcome.current.fencingToken > next.fencingToken) this.#lost.add(mine);
      return;
    }
    const { record, now } = outcome;
    this.writes.set(record.taskId, (this.writes.get(record.taskId) ?? 0) + 1);
    const token = before?.fencingToken ?? 0;
    this.require(
      record.fencingToken >= token,
      `I1: the token of ${record.taskId} fell from ${token} to ${record.fencingToken}`,
    );
    if (claims && record.state === 'running') {
      this.require(record.fencingToken > token, `I1: two grants of ${record.taskId} share token ${token}`);
      this.require(
        before?.state !== 'running' || (before.leaseExpiresAt ?? 0) <= now.earliest,
        `a live lease of ${record.taskId} was taken`,
      );
    }
    this.require(
      before?.state !== 'settled' || record.state === 'settled',
      `I2: ${record.taskId} was settled and is ${record.state} now`,
    );
    if (record.state === 'settled' && before?.state !== 'settled') {
      this.settles.set(record.taskId, (this.settles.get(record.taskId) ?? 0) + 1);
    }
    if (owners)
      this.require(
        (before?.leaseExpiresAt ?? 0) > now.latest,
        `I7: ${process} revived a lapsed lease of ${record.taskId}`,
      );
    if (longestMs !== undefined) {
      this.require(
        (record.leaseExpiresAt ?? 0) <= now.latest + longestMs,
        `I7: the lease of ${record.taskId} is longer than it was asked for`,
      );
    }
    if (isTerminal(record.state)) {
      this.require(
        openEffects(record).length === 0,
        `${record.taskId} is ${record.state} with an effect that is only intended`,
      );
    }
  }
}
