import type { Evidence } from './evidence.ts';
import type { Entry } from './journal.ts';

/** What happened to a task, in order: who did what under which token, with its external id, and the faults of those who held it. */
export function storyOf(evidence: Evidence, taskId: string, startedAt: number): readonly string[] {
  const own = evidence.entries.filter((entry) => taskOf(entry) === taskId);
  const holders = new Set(own.map(({ who }) => who));
  const from = Math.min(...own.map(({ at }) => at));
  const to = Math.max(...own.map(({ at }) => at));
  const lines = [
    ...own.flatMap((entry) => {
      const text = tell(entry);
      return text === undefined ? [] : [{ at: entry.at, text: `${entry.who}  ${text}` }];
    }),
    ...evidence.faults
      .filter(({ who, at }) => holders.has(who) && at >= from - 1_000 && at <= to + 1_000)
      .map(({ who, at, kind, detail }) => ({ at, text: `${who}  *** ${kind} ${detail}` })),
  ];
  const record = evidence.records.get(taskId);
  const rows = evidence.rows
    .filter((row) => row.taskId === taskId)
    .map(({ id, token }) => `${id} under token ${token}`);
  return [
    ...lines
      .toSorted((one, other) => one.at - other.at)
      .map(({ at, text }) => `${((at - startedAt) / 1_000).toFixed(2).padStart(8)} s  ${text}`),
    `  at the end: ${record ? `${record.state}, token ${record.fencingToken}, version ${record.version}` : 'not in the ledger'}; the receiver did: ${rows.join(', ') || 'nothing'}`,
  ];
}

function taskOf(entry: Entry): string | undefined {
  switch (entry.kind) {
    case 'sent':
    case 'call':
    case 'applied':
    case 'cancelled':
      return entry.taskId;
    case 'event':
      return entry.event.taskId;
    case 'guard':
      return entry.event.scope;
    case 'step':
      return entry.taskIds[0];
    default:
      return undefined;
  }
}

function tell(entry: Entry): string | undefined {
  switch (entry.kind) {
    case 'sent':
      return `writes version ${entry.next.version}: ${entry.next.state}, token ${entry.next.token} (${entry.expect})`;
    case 'call':
      return `calls the receiver for ${entry.effect}, token ${entry.token}, ${entry.ownership}`;
    case 'applied':
      return `does it, token ${entry.token}`;
    case 'cancelled':
      return `cancellation ${entry.outcome}`;
    case 'step':
      return 'asked for';
    case 'event': {
      const { name, token, externalId, cause, errorClass, errorCode } = entry.event;
      return [name, token !== undefined && `token ${token}`, externalId, cause, errorClass, errorCode]
        .filter(Boolean)
        .join(', ');
    }
    case 'guard': {
      const { name, token, problem, highest, state } = entry.event;
      return [name, `token ${token}`, problem, highest !== undefined && `highest ${highest}`, state]
        .filter(Boolean)
        .join(', ');
    }
    default:
      return undefined;
  }
}
