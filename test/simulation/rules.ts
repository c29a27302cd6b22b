import { isTerminal, openEffects } from '@leasehold/core';
import type { EffectRecord, LedgerDriver, LeaseStamp, PutOutcome, TaskRecord } from '@leasehold/core';
import { Invariants } from '../../packages/worker/src/testing/invariants.ts';
import { ATTEMPTS, LEASE_MS } from './jobs.ts';

/** A late write may outlive its first sending by what the estimate of the store's clock is off. */
const STAMP_SLACK_MS = 1_200;

/** Watches the ledger: what the worker's tests watch, and what a record may turn into. */
export class Rules {
  readonly invariants: Invariants = new Invariants();
  /** Every record as it stands. */
  readonly records: Map<string, TaskRecord> = new Map();
  readonly settles: Map<string, number> = new Map();
  /** Owners that gave a task up by a write of their own and may not know it yet, as `<owner> <task>`. */
  readonly gaveUp: Set<string> = new Set();
  readonly #now: () => number;
  readonly #note: (text: () => string) => void;
  readonly #firstSent = new Map<string, number>();
  readonly #lost = new Set<string>();
  #calls = 0;

  constructor(now: () => number, note: (text: () => string) => void) {
    this.#now = now;
    this.#note = note;
  }

  get violation(): string | undefined {
    return this.invariants.violations[0];
  }

  require(holds: boolean, what: string): void {
    this.invariants.require(holds, what);
  }

  /** The store's side: judges what is written when it is written. */
  store(driver: LedgerDriver, worker: boolean): LedgerDriver {
    return {
      ...driver,
      put: async (next, lease, expect, signal) => {
        // By call, not by process: a write that was sent before its sender was refused may well arrive after that.
        const outcome = await this.invariants.watch(driver, `call ${++this.#calls}`).put(next, lease, expect, signal);
        if (!outcome.ok) {
          this.#note(() => `   refused: ${next.taskId} is ${show(outcome.current)}`);
          return outcome;
        }
        const before = this.records.get(next.taskId);
        this.#note(() => `   ${next.taskId}: ${show(before)} -> ${show(outcome.record)}`);
        this.#judge(before, outcome.record, lease, worker);
        this.records.set(next.taskId, outcome.record);
        return outcome;
      },
    };
  }

  /** The owner's side, I3: whoever was told that the task is another's sends nothing more under that token. */
  sending(owner: string, next: TaskRecord, expect: object): void {
    // A claim keeps its name while it goes from one record to the next; what it sent before can never be applied.
    const name = `${next.opId} ${next.version}`;
    if (!this.#firstSent.has(name)) this.#firstSent.set(name, this.#now());
    if (!('lease' in expect) || expect.lease !== 'live') return;
    this.require(
      !this.#lost.has(`${owner} ${next.taskId} ${next.fencingToken}`),
      `I3: ${next.taskId} was written under token ${next.fencingToken} by an owner that had been refused`,
    );
  }

  /** The owner has seen this answer. */
  answered(owner: string, next: TaskRecord, expect: object, outcome: PutOutcome): void {
    if (outcome.ok || !('lease' in expect) || expect.lease !== 'live') return;
    const { current } = outcome;
    if (current?.opId === next.opId) return;
    if (current?.state !== 'running' || current.leaseOwner?.startsWith(`${owner}/`) !== true)
      this.#lost.add(`${owner} ${next.taskId} ${next.fencingToken}`);
  }

  #judge(before: TaskRecord | undefined, after: TaskRecord, lease: LeaseStamp | undefined, worker: boolean): void {
    const id = after.taskId;
    const now = this.#now();
    this.require(
      after.version === (before?.version ?? 0) + 1,
      `the version of ${id} went from ${before?.version} to ${after.version}`,
    );
    const granted = after.attempt > (before?.attempt ?? 0);
    const live = (before?.leaseExpiresAt ?? 0) > now;
    if (before?.leaseOwner !== undefined && after.state !== 'running') this.gaveUp.add(`${before.leaseOwner} ${id}`);
    if (granted) {
      this.gaveUp.delete(`${after.leaseOwner} ${id}`);
      this.require(
        after.state === 'running' && after.leaseOwner !== undefined,
        `a grant of ${id} left it ${after.state}`,
      );
      this.require(
        after.failures < ATTEMPTS || after.closing !== undefined,
        `${id} was granted again after ${after.failures} failures`,
      );
      this.require(
        before?.state !== 'running' || after.failures === before.failures + 1,
        `the lapse of ${id} was not counted`,
      );
      this.require(
        !after.cancelRequested || after.closing !== undefined || hasVerified(after),
        `${id} was granted although it is to be cancelled`,
      );
      this.require(
        before?.state !== 'queued' || before.retryAt === undefined || before.retryAt <= now,
        `${id} was granted before its time`,
      );
      this.require(
        before?.state !== 'cancelled' && before?.state !== 'settled' && before?.state !== 'waiting_human',
        `${id} was granted while ${before?.state}`,
      );
    } else if (
      worker &&
      before?.state === 'running' &&
      ['running', 'settled', 'queued', 'waiting_human'].includes(after.state)
    ) {
      this.require(live, `I7: an owner wrote ${after.state} to ${id} after its lease had ended`);
    }
    if (before?.state === 'running' && after.state !== 'running')
      this.require(!live || after.leaseExpiresAt === undefined, `${id} is ${after.state} and keeps a lease`);
    if (lease) {
      const bound = (this.#firstSent.get(`${after.opId} ${after.version}`) ?? now) + LEASE_MS + STAMP_SLACK_MS;
      this.require(
        (after.leaseExpiresAt ?? 0) <= bound,
        `I7: a lease of ${id} outlives its first sending by ${Math.round((after.leaseExpiresAt ?? 0) - bound + STAMP_SLACK_MS)} ms more than its length`,
      );
    }
    if (before && isTerminal(before.state) && before.state !== 'dead_lettered')
      this.require(after.state === before.state, `I2: ${id} was ${before.state} and is ${after.state} now`);
    if (after.state === 'settled' && before?.state !== 'settled') this.#settled(before, after);
    if (after.state === 'cancelled')
      this.require(!hasVerified(after), `${id} was cancelled although an effect of it exists`);
    if (isTerminal(after.state))
      this.require(openEffects(after).length === 0, `${id} is ${after.state} with an effect that is only intended`);
    if (before?.checkpoint && !isTerminal(after.state))
      this.require(after.checkpoint !== undefined, `the checkpoint of ${id} was lost`);
    if (before?.closing && after.state === 'running' && !granted && !after.closing)
      this.require(before.closing.to === 'cancelled' && hasVerified(after), `the closing of ${id} was given up`);
    if (worker && !granted && !before?.closing && after.closing && before?.state === 'running')
      this.require(after.fencingToken > before.fencingToken, `the closing of ${id} was begun without a new token`);
    for (const [name, effect] of Object.entries(after.effects))
      this.#effect(before, before?.effects[name], effect, id, name, after);
  }

  #settled(before: TaskRecord | undefined, after: TaskRecord): void {
    const id = after.taskId;
    this.settles.set(id, (this.settles.get(id) ?? 0) + 1);
    this.require(this.settles.get(id) === 1, `I2: ${id} was settled twice`);
    this.require(
      after.settlementReceipt?.token === after.fencingToken,
      `the receipt of ${id} bears another token than the one that settled it`,
    );
    this.require(
      !before?.cancelRequested || hasVerified(after),
      `${id} was settled although it is cancelled and nothing of it exists`,
    );
    this.require(
      before?.closing === undefined || (before.closing.to === 'cancelled' && hasVerified(after)),
      `${id} was settled while it was being closed`,
    );
  }

  #effect(
    before: TaskRecord | undefined,
    known: EffectRecord | undefined,
    effect: EffectRecord,
    id: string,
    name: string,
    after: TaskRecord,
  ): void {
    if (known?.status === 'verified')
      this.require(
        effect.status === 'verified' &&
          (effect.externalId === known.externalId || known.externalId?.startsWith('key:') === true),
        `effect ${name} of ${id} was verified and is ${effect.status} now`,
      );
    if (known) this.require(known.key === effect.key, `effect ${name} of ${id} changed its key`);
    const intended =
      effect.status === 'intended' &&
      (known?.status !== 'intended' || known.token !== effect.token || known.intendedAt !== effect.intendedAt);
    if (!intended) return;
    this.require(
      before?.closing === undefined,
      `I6: effect ${name} of ${id} was intended while the task was being closed`,
    );
    this.require(
      !before?.cancelRequested || hasVerified(after),
      `I6: effect ${name} of ${id} was intended although the task is to be cancelled`,
    );
  }
}

function hasVerified(record: TaskRecord): boolean {
  return Object.values(record.effects).some(({ status }) => status === 'verified');
}

function show(record: TaskRecord | undefined): string {
  if (!record) return 'nothing';
  const effects = Object.entries(record.effects).map(([name, { status }]) => ` ${name}:${status}`);
  const lease = record.leaseExpiresAt === undefined ? '' : ` until ${record.leaseExpiresAt - 1_700_000_000_000}`;
  return `v${record.version} ${record.state}/${record.stage} token ${record.fencingToken} failures ${record.failures}${lease}${effects.join('')}${record.closing ? ` closing to ${record.closing.to}` : ''}${record.cancelRequested ? ' cancel requested' : ''}${record.lastError ? ` (${record.lastError.errorClass})` : ''}`;
}
