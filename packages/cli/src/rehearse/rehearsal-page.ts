import { boxedTable } from '../plain-table.ts';
import { plain } from '../wording.ts';
import { tell, type Fault } from './fault.ts';
import type { CallVerdict, Verdict } from './judge.ts';
import type { Rehearsal } from './rehearsal.ts';

/** The first few say what it is about; --json has them all. */
const MOST_SHOWN = 3;
const MOST_ROWS = 30;

/** A rehearsal for people. */
export function pageOf(rehearsal: Rehearsal, verdict: Verdict, ms: number): string {
  const { task, steps, faulty } = rehearsal;
  const sections = [
    `${plain(task)}: ${steps.length} steps. At each of them the worker was killed, lost the answer, stood still before and after; another took over,` +
      `\nand the first came back where it could: ${faulty.length} runs in ${(ms / 1_000).toFixed(1)} s.`,
    callsTable(verdict.calls),
    ...verdict.calls.filter((call) => call.twice).map(twiceText),
    ...violationsText(verdict),
    rejectedText(verdict),
    ...unreadableText(verdict),
    ...unsettledText(verdict),
    endText(verdict),
  ];
  return sections.join('\n\n');
}

function callsTable(calls: readonly CallVerdict[]): string {
  if (calls.length === 0) return 'The task makes no external call that changes anything, as far as fetch shows.';
  const rows = calls.map(({ call, where, usual, most, twice, repeatable }) => [
    plain(call),
    plain(where),
    times(usual),
    times(most),
    twice ? 'MADE TWICE' : repeatable && most > usual ? 'repeated; said to be harmless' : 'ok',
  ]);
  const shown = boxedTable(['external call', 'made by', 'usually', 'at most', ''], rows.slice(0, MOST_ROWS));
  return rows.length > MOST_ROWS ? `${shown}\nand ${rows.length - MOST_ROWS} more (--json has them all)` : shown;
}

function twiceText({ call, where, changed, keyless, causes }: CallVerdict): string {
  const hints = [
    ...(changed ? ['  each time with another body or key: something in it is made up anew by every attempt'] : []),
    ...(keyless ? ["  it bears no idempotency key: pass on the commit's headers, or its idempotencyKey"] : []),
  ];
  return [`MADE TWICE: ${plain(call)} by ${plain(where)}`, ...hints, ...faultLines(causes)].join('\n');
}

function violationsText({ violations }: Verdict): readonly string[] {
  if (violations.length === 0) return [];
  const lines = violations
    .slice(0, MOST_SHOWN)
    .map(({ fault, what }) => `  ${fault ? `${plain(tell(fault))}: ` : ''}${plain(what)}`);
  return [['STALE RESULT ACCEPTED, which is a mistake of Leasehold; please report it:', ...lines].join('\n')];
}

function rejectedText({ rejected }: Verdict): string {
  if (rejected.length === 0) return 'Results rejected: none came too late.';
  return [
    `Results rejected: ${rejected.length}, of a worker that came back after its lease; none of them was stored`,
    ...faultLines(rejected.map(({ fault }) => fault)),
  ].join('\n');
}

function unreadableText({ unreadable }: Verdict): readonly string[] {
  if (unreadable.length === 0) return ['Effects without a usable read-back: none.'];
  return [
    [
      'Without a usable read-back:',
      ...unreadable.flatMap(({ what, problem, remedy }) => [
        `  ${plain(what)}`,
        `    ${plain(problem)}`,
        `    -> ${plain(remedy)}`,
      ]),
    ].join('\n'),
  ];
}

function unsettledText({ unsettled }: Verdict): readonly string[] {
  if (unsettled.length === 0) return [];
  const lines = unsettled
    .slice(0, MOST_SHOWN)
    .map(({ fault, outcome, why }) => `  ${plain(tell(fault))}: ${outcome}${why === '' ? '' : `, ${plain(why)}`}`);
  return [[`Did not settle in ${unsettled.length} runs:`, ...lines, ...more(unsettled.length)].join('\n')];
}

function endText({ verdict, calls }: Verdict): string {
  switch (verdict) {
    case 'clean':
      return 'Clean: whatever went wrong, no call was made twice and no stale result was accepted.';
    case 'made-twice':
      return `Not clean: ${calls.filter((call) => call.twice).length} of ${calls.length} external calls can be made twice.`;
    case 'stale-accepted':
      return 'Not clean: a stale result was accepted.';
  }
}

function faultLines(faults: readonly Fault[]): readonly string[] {
  return [...faults.slice(0, MOST_SHOWN).map((fault) => `  ${plain(tell(fault))}`), ...more(faults.length)];
}

function more(count: number): readonly string[] {
  return count > MOST_SHOWN ? [`  and ${count - MOST_SHOWN} more (--json has them all)`] : [];
}

function times(count: number): string {
  return count === 1 ? 'once' : count === 0 ? 'never' : `${count} times`;
}
