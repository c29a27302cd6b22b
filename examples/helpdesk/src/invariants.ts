import type { TaskRecord } from '@leasehold/core';
import type { Evidence, WorkerEvent } from './evidence.ts';
import { short } from './scenario.ts';

/** I1: tokens of a task strictly increase, and no two grants share one. */
export function tokenProblems({ workers, records, tokenHistory }: Evidence): string[] {
  const problems: string[] = [];
  const byId = new Map(records.map((record) => [record.taskId, record]));
  for (const [taskId, events] of byTask(workers.filter(({ event }) => event.name === 'task_claimed'))) {
    const tokens = events.map(({ event }) => event.token ?? 0);
    if (new Set(tokens).size < tokens.length)
      problems.push(`${short(taskId)} was granted twice under one token (${tokens.join(', ')})`);
    // Within one process events come in their order; between processes only the ledger knows it.
    for (const own of grouped(events, ({ pid }) => pid).values()) {
      if (!rises(own.map(({ event }) => event.token ?? 0)))
        problems.push(`${short(taskId)} was granted with a falling token`);
    }
    const last = byId.get(taskId)?.fencingToken ?? 0;
    if (Math.max(...tokens) > last)
      problems.push(`${short(taskId)} ended with token ${last}, below one that was granted`);
  }
  for (const [taskId, tokens] of tokenHistory) {
    if (!rises(tokens)) problems.push(`the ledger showed ${short(taskId)} with the tokens ${tokens.join(', ')}`);
  }
  return problems;
}

/** I2: at most one settle per task is accepted, and it is the one whose token the receipt bears. */
export function settleProblems({ workers, records }: Evidence): string[] {
  const problems: string[] = [];
  const settles = byTask(workers.filter(({ event }) => event.name === 'task_settled'));
  for (const record of records) {
    const own = settles.get(record.taskId) ?? [];
    if (own.length > 1) problems.push(`${short(record.taskId)} was settled ${own.length} times`);
    if (own.length > 0 && record.state !== 'settled')
      problems.push(`${short(record.taskId)} was settled, and is ${record.state}`);
    const receipt = record.settlementReceipt;
    if (record.state === 'settled' && !receipt) problems.push(`${short(record.taskId)} is settled without a receipt`);
    if (own.some(({ event }) => event.token !== receipt?.token))
      problems.push(`${short(record.taskId)} bears the receipt of another owner`);
  }
  return problems;
}

/** I3, the receiver's half: once the service has seen a token, nothing with a lower one changes anything. */
export function fenceProblems({ service }: Evidence): string[] {
  const problems: string[] = [];
  const highest = new Map<string, number>();
  for (const said of service) {
    if (said.kind !== 'guard') continue;
    const { name, scope = '', token = 0, state } = said.event;
    const seen = highest.get(scope) ?? 0;
    if (name === 'guard_stored' && token < seen)
      problems.push(`${short(scope)} changed something with token ${token} after ${seen} was seen`);
    if (name === 'guard_stored' || (name === 'guard_looked' && state !== 'stale'))
      highest.set(scope, Math.max(seen, token));
  }
  return problems;
}

/** I4: no effect happens twice; and the ledger and the service agree on which there are. */
export function effectProblems({ effects, records }: Evidence): string[] {
  const problems: string[] = [];
  for (const field of ['key', 'meaning'] as const) {
    for (const [value, rows] of grouped(effects, (row) => (field === 'key' ? row.key : `${row.kind} ${row.meaning}`))) {
      if (rows.length > 1) problems.push(`${rows.map(({ id }) => id).join(' and ')} have the same ${field}: ${value}`);
    }
  }
  const rowOf = new Map(effects.map((row) => [row.key, row]));
  const vouched = new Set<string>();
  for (const record of records) {
    for (const { key, status, externalId } of Object.values(record.effects)) {
      if (status === 'intended') problems.push(`${short(record.taskId)} ended with an effect that nobody read back`);
      if (status !== 'verified') continue;
      vouched.add(key);
      if (rowOf.get(key)?.id !== externalId)
        problems.push(`${short(record.taskId)} says ${externalId ?? '?'}, which the service does not have`);
    }
    const missing = missingEffect(record, vouched);
    if (missing) problems.push(missing);
  }
  for (const row of effects) if (!vouched.has(row.key)) problems.push(`${row.id} exists, and no task vouches for it`);
  return problems;
}

const WITHOUT_EFFECT = ['import_statement'];

function missingEffect(record: TaskRecord, vouched: ReadonlySet<string>): string | undefined {
  if (record.state !== 'settled' || WITHOUT_EFFECT.includes(record.taskType)) return undefined;
  const has = Object.values(record.effects).some(({ key }) => vouched.has(key));
  return has ? undefined : `${short(record.taskId)} is settled without its effect`;
}

function rises(tokens: readonly number[]): boolean {
  return tokens.every((token, index) => index === 0 || token > (tokens[index - 1] ?? 0));
}

function byTask(events: readonly WorkerEvent[]): ReadonlyMap<string, readonly WorkerEvent[]> {
  return grouped(events, ({ event }) => event.taskId ?? '');
}

function grouped<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key): ReadonlyMap<Key, readonly Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
