import { effectViolations } from './audit-effects.ts';
import { endViolations, type Ends } from './audit-ends.ts';
import { ledgerViolations } from './audit-ledger.ts';
import { grouped, type Evidence, type Violation } from './evidence.ts';
import { FAULT_KINDS, type FaultKind } from './fault-plan.ts';
import { recoveryOf, type Recovery } from './recovery.ts';

/** The numbers of a run. */
export interface Tally extends Ends {
  readonly poison: number;
  /** What the receiver did. */
  readonly effects: number;
  readonly duplicateEffects: number;
  /** Calls that the receiver refused because it had seen a newer owner. */
  readonly staleRefused: number;
  /** Deliveries of settled tasks that were answered from the receipt. */
  readonly replays: number;
  /** Effects that an attempt found to exist already. */
  readonly readBacks: number;
  /** Results that came too late and were dropped. */
  readonly rejectedResults: number;
  readonly faults: Readonly<Record<FaultKind, number>>;
  readonly recovery: Recovery;
}

/** The numbers, and every promise that was not kept. Pure: the same evidence gives the same verdict. */
export function audit(evidence: Evidence): { readonly tally: Tally; readonly violations: readonly Violation[] } {
  const { rows, plan, faults, entries } = evidence;
  const { ends, violations } = endViolations(evidence);
  const { recovery, violations: slow } = recoveryOf(evidence);
  const distinct = Math.min(grouped(rows, ({ key }) => key).size, grouped(rows, ({ meaning }) => meaning).size);
  const events = (name: string, cause?: string): number =>
    entries.filter(
      (said) =>
        said.kind === 'event' && said.event.name === name && (cause === undefined || said.event.cause === cause),
    ).length;
  const tally: Tally = {
    ...ends,
    poison: plan.steps.filter(({ kind }) => kind === 'poison').length,
    effects: rows.length,
    duplicateEffects: rows.length - distinct,
    staleRefused: entries.filter(
      (said) => said.kind === 'guard' && said.event.name === 'guard_refused' && said.event.problem === 'stale-token',
    ).length,
    replays: events('task_replayed'),
    readBacks: events('effect_verified', 'read-back'),
    rejectedResults: events('result_rejected'),
    faults: Object.fromEntries(
      FAULT_KINDS.map((kind) => [kind, faults.filter((fault) => fault.kind === kind).length]),
    ) as Record<FaultKind, number>,
    recovery,
  };
  const unseen = faults
    .filter(({ seen }) => seen === false)
    .map(({ who, detail }): Violation => ({ of: 'clock', what: `${who} was never seen to have its clock ${detail}` }));
  return {
    tally,
    violations: [...violations, ...ledgerViolations(evidence), ...effectViolations(evidence), ...slow, ...unseen],
  };
}
