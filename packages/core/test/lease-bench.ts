import { claimTask, type ClaimOutcome } from '../src/claim-task.ts';
import { virtualClock, type VirtualClock } from '../src/clock.ts';
import { ledgerSession, type LedgerSession } from '../src/ledger-session.ts';
import type { LeaseTiming } from '../src/lease-timing.ts';
import type { OwnersRequest, TaskLease } from '../src/task-lease.ts';
import { slowLedger, type SlowLedger } from './slow-ledger.ts';
import {
  askHuman,
  beginClose,
  checkpoint,
  claim,
  deadLetter,
  endClose,
  handOff,
  intend,
  raiseToken,
  release,
  renew,
  settle,
} from './task-events.ts';

/** The defaults: L 90 s, H 30 s, J 20 s, R 1. */
export const TIMING: LeaseTiming = { leaseMs: 90_000, heartbeatMs: 30_000, marginMs: 20_000, tolerate: 1 };

export interface Bench {
  readonly clock: VirtualClock;
  readonly ledger: SlowLedger;
  readonly session: LedgerSession;
  /** Claims under another name, as another process would: with a session of its own. */
  claimAs(owner: string, fields?: Partial<Parameters<typeof claimTask>[3]>): Promise<ClaimOutcome>;
}

export function bench(options: { readonly rate?: number; readonly timing?: LeaseTiming } = {}): Bench {
  const clock = virtualClock();
  const ledger = slowLedger(clock, options);
  const timing = options.timing ?? TIMING;
  return {
    clock,
    ledger,
    session: ledgerSession(ledger, clock),
    claimAs(owner, fields = {}) {
      const { type: _type, opId: _opId, leaseMs: _leaseMs, ...asked } = claim({ owner });
      return claimTask(ledgerSession(ledger, clock), clock, timing, { ...asked, ...fields });
    },
  };
}

/** The lease of a claim that has to succeed. */
export async function granted(claiming: Promise<ClaimOutcome>): Promise<TaskLease> {
  const outcome = await claiming;
  if (!('lease' in outcome)) throw new Error(`the claim came to ${JSON.stringify(outcome)}`);
  return outcome.lease;
}

/** Moves the clock on until `work` is done, and gives what it came to. */
export async function finish<Result>(clock: VirtualClock, work: Promise<Result>, mostMs = 600_000): Promise<Result> {
  let done = false;
  const end = (): void => void (done = true);
  work.then(end, end);
  await clock.runUntil(() => done, mostMs);
  if (!done) throw new Error(`not done after ${mostMs} ms`);
  return work;
}

/** Every kind of owner's write, as it is asked of a lease. */
export const REQUESTS: Readonly<Record<OwnersRequest['type'], OwnersRequest>> = Object.fromEntries(
  [
    renew(),
    intend('create'),
    checkpoint(),
    settle(),
    release(),
    handOff(),
    deadLetter(),
    beginClose(),
    endClose(),
    raiseToken(),
    askHuman(),
  ].map(({ opId: _opId, owner: _owner, token: _token, carry: _carry, ...request }) => [request.type, request]),
) as unknown as Readonly<Record<OwnersRequest['type'], OwnersRequest>>;
export const KINDS: readonly OwnersRequest['type'][] = Object.keys(REQUESTS) as OwnersRequest['type'][];
