import type { DatabaseSync } from 'node:sqlite';
import { isLeaseholdError, LeaseholdError, type Json } from '@leasehold/core';
import type { PlainResponse } from '@leasehold/guard';
import type { TransactionDatabase } from '@leasehold/sqlite';
import { addPage, articlesOf, EMPTY_INDEX } from './articles.ts';
import { sumOf, toCents } from './money.ts';
import type { StatementEntry } from './inputs.ts';

/** What the service has done: one row each. */
export interface EffectRow {
  readonly id: string;
  readonly kind: 'case' | 'booking' | 'reconciliation' | 'index';
  /** What was done, in words that two different deeds never share. */
  readonly meaning: string;
  /** The task on whose behalf, its fencing token and the idempotency key. */
  readonly task: string;
  readonly token: number;
  readonly key: string;
}

/** On whose behalf a call is made. */
export type Caller = Pick<EffectRow, 'task' | 'token' | 'key'>;

// No unique index on key or meaning: nothing but the guard keeps doubles out, so that doubles would show.
const TABLES = `
CREATE TABLE IF NOT EXISTS tickets (
  number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, meaning TEXT NOT NULL, content TEXT NOT NULL,
  task TEXT NOT NULL, token INTEGER NOT NULL, idempotency_key TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS tickets_meaning ON tickets (kind, meaning);
`;

/** Makes the service's own tables. */
export function createTables(db: DatabaseSync): void {
  db.exec(TABLES);
}

/** Every row, in the order in which they came. */
export function listEffects(db: DatabaseSync): readonly EffectRow[] {
  const rows = db.prepare('SELECT * FROM tickets ORDER BY number').all();
  return rows.map((row) => ({
    id: idOf(String(row['kind']), Number(row['number'])),
    kind: String(row['kind']) as EffectRow['kind'],
    meaning: String(row['meaning']),
    task: String(row['task']),
    token: Number(row['token']),
    key: String(row['idempotency_key']),
  }));
}

/** What a call would do, as a function for the guard's transaction; nothing is done before it runs. */
export function effectOf(path: string, content: Json, caller: Caller): (db: TransactionDatabase) => PlainResponse {
  let row: { readonly kind: EffectRow['kind']; readonly meaning: string };
  let check: (db: TransactionDatabase) => string | undefined = () => undefined;
  const field = fieldsOf(content);
  try {
    switch (path) {
      case '/cases':
        row = { kind: 'case', meaning: `${field('customer')}: ${field('subject')}` };
        break;
      case '/bookings':
        row = { kind: 'booking', meaning: `${field('account')} ${field('statement')} batch ${field('batch')}` };
        break;
      case '/reconciliations':
        row = { kind: 'reconciliation', meaning: field('statement') };
        check = (db) => balanceProblem(db, field('statement'), toCents(field('closing')) - toCents(field('opening')));
        break;
      case '/indexes':
        row = { kind: 'index', meaning: field('collection') };
        check = () => indexProblem(field('collection'), Number(field('pages')), field('digest'));
        break;
      default:
        return () => problem(404, `there is nothing at ${path}`);
    }
  } catch (error) {
    if (!isLeaseholdError(error)) throw error;
    const { message } = error;
    return () => problem(400, message);
  }
  const { kind, meaning } = row;
  return (db) => {
    const wrong = check(db);
    if (wrong !== undefined) return problem(422, wrong);
    const insert =
      'INSERT INTO tickets (kind, meaning, content, task, token, idempotency_key) VALUES (?, ?, ?, ?, ?, ?)';
    const { task, token, key } = caller;
    const { lastInsertRowid } = db.prepare(insert).run(kind, meaning, JSON.stringify(content), task, token, key);
    return json(201, { id: idOf(kind, Number(lastInsertRowid)), status: kind === 'case' ? 'open' : 'done' });
  };
}

function idOf(kind: string, number: number): string {
  return `${kind.toUpperCase()}-${1000 + number}`;
}

/** Whether everything that was booked for a statement adds up to what its balances say: a batch missing or booked twice would show. */
function balanceProblem(db: TransactionDatabase, statement: string, moved: number): string | undefined {
  const batches = db
    .prepare("SELECT content FROM tickets WHERE kind = 'booking' AND content ->> 'statement' = ?")
    .all(statement);
  const booked = batches.flatMap(
    ({ content }) => (JSON.parse(String(content)) as { entries: StatementEntry[] }).entries,
  );
  const sum = sumOf(booked.map(({ amount }) => amount));
  return sum === moved ? undefined : `booked ${sum} cents, the balances say ${moved}`;
}

/** Whether an index was made of every page, each once and in order. */
function indexProblem(collection: string, pages: number, digest: string): string | undefined {
  let index = EMPTY_INDEX;
  for (let page = 0; page < pages; page++) index = addPage(index, articlesOf(collection, page));
  return index.digest === digest ? undefined : 'the index is not made of these pages';
}

function fieldsOf(content: Json): (name: string) => string {
  return (name) => {
    const value =
      typeof content === 'object' && content !== null ? (content as Readonly<Record<string, Json>>)[name] : undefined;
    if (typeof value === 'string' || typeof value === 'number') return String(value);
    throw new LeaseholdError('bad-request', `${name} is missing`, { field: name });
  };
}

function problem(status: number, detail: string): PlainResponse {
  return json(status, { status, detail });
}

function json(status: number, body: Json): PlainResponse {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}
