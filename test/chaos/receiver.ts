import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { guard, LOOK_PATH, NothingHappened, transactionalGuard } from '@leasehold/guard';
import type { SqliteGuard } from '@leasehold/sqlite';
import type { Seeded } from '../simulation/seeded.ts';
import type { ReceiverStore } from './drivers.ts';
import type { Plant } from './plants.ts';
import type { Said } from './said.ts';

/** Something the receiver did: one row each, also when it did the same thing twice. */
export interface Row {
  readonly id: string;
  /** What was done, in words that two different deeds never share. */
  readonly meaning: string;
  readonly taskId: string;
  readonly token: number;
  readonly key: string;
}

/** The receiver: tickets and charges behind guards. It knows nothing of the queue or the ledger. */
export interface Receiver {
  readonly handle: (request: Request) => Promise<Response>;
  readonly rows: () => readonly Row[];
  readonly close: () => Promise<void>;
}

const HOLD = '4s';
const TABLE = `CREATE TABLE IF NOT EXISTS tickets (number INTEGER PRIMARY KEY AUTOINCREMENT, meaning TEXT NOT NULL,
  task TEXT NOT NULL, token INTEGER NOT NULL, idempotency_key TEXT NOT NULL) STRICT`;

interface Caller {
  readonly scope: string;
  readonly token: number;
  readonly key: string;
}

/** Opens the receiver. Tickets and their keys are one transaction where `receiverFile` says so; charges are lines of a file, found by `resolve`. */
export function openReceiver(parts: {
  readonly store: ReceiverStore;
  readonly charges: string;
  readonly chance: Seeded;
  readonly say: (said: Said) => void;
  readonly plant?: Plant;
}): Receiver {
  const { store, chance, say, plant } = parts;
  const charges = openCharges(parts.charges);
  const keys = 'plain' in store ? store.plain : store.transactional;

  const charged = guard(
    keys,
    {
      mode: 'enforce',
      require: 'fence+key',
      retention: '1d',
      hold: HOLD,
      resolve({ key }) {
        const row = charges.rows.find((one) => one.key === key);
        return row ? created(row.id) : 'absent';
      },
    },
    async (request, context) => {
      const { scope, token, key } = context;
      const meaning = await meaningOf(request);
      await pause(chance.between(5, 80));
      // It may have been stopped meanwhile: in one turn with the check, nobody else can have been let in.
      if (!context.held) throw new NothingHappened('the hold is over');
      say({ kind: 'applied', taskId: scope, token, key });
      const row = charges.add({ meaning, taskId: scope, token, key });
      await pause(chance.between(0, 60));
      return created(row.id);
    },
  );
  const tickets = 'transactional' in store ? openTickets(store, chance, say) : undefined;

  const unguarded = async (request: Request): Promise<Response> => {
    const caller = callerOf(request);
    const row = charges.add({
      meaning: await meaningOf(request),
      taskId: caller.scope,
      token: caller.token,
      key: caller.key,
    });
    return created(row.id);
  };
  const look = async (request: Request): Promise<Response> => {
    if (plant !== 'no-guard' && plant !== 'hopeful-read-back') return charged(request);
    const asked = (await request.clone().json()) as { readonly key: string };
    const answered = plant === 'no-guard' ? undefined : await charged(request);
    const known = plant === 'no-guard' ? charges.rows.find(({ key }) => key === asked.key) : undefined;
    if (answered && !(await answered.clone().text()).includes('"absent"')) return answered;
    if (plant === 'no-guard' && !known) return Response.json({ state: 'absent' });
    const response = {
      status: 201,
      headers: {},
      body: JSON.stringify({ id: known?.id ?? 'hoped-for' }),
      bodyEncoding: 'utf8',
    };
    return Response.json({ state: 'done', response });
  };

  return {
    async handle(request) {
      const { pathname } = new URL(request.url);
      if (pathname === LOOK_PATH) return look(request);
      if (request.method !== 'POST') return new Response(null, { status: 404 });
      if (plant === 'no-guard') return unguarded(request);
      return pathname === '/tickets' && tickets ? tickets.handle(request) : charged(request);
    },
    rows: () => [...(tickets?.rows() ?? []), ...charges.rows],
    async close() {
      charges.close();
      tickets?.close();
      await keys.close();
    },
  };
}

/** The strong form: the row and its key are committed together. */
function openTickets(
  store: { readonly transactional: SqliteGuard; readonly file: string },
  chance: Seeded,
  say: (said: Said) => void,
): { handle(request: Request): Promise<Response>; rows(): readonly Row[]; close(): void } {
  const db = new DatabaseSync(store.file);
  db.exec('PRAGMA busy_timeout = 5000');
  db.exec(TABLE);
  const handle = transactionalGuard(
    store.transactional,
    { require: 'fence+key', retention: '1d', lookPath: false },
    async (request, _body, { scope, token, key }) => {
      const meaning = await meaningOf(request);
      await pause(chance.between(5, 80));
      return (writable) => {
        say({ kind: 'applied', taskId: scope, token, key });
        const insert = 'INSERT INTO tickets (meaning, task, token, idempotency_key) VALUES (?, ?, ?, ?)';
        const { lastInsertRowid } = writable.prepare(insert).run(meaning, scope, token, key);
        return {
          status: 201,
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ id: `T-${lastInsertRowid}` }),
        };
      };
    },
  );
  return {
    handle,
    rows: () =>
      db
        .prepare('SELECT * FROM tickets ORDER BY number')
        .all()
        .map((row) => ({
          id: `T-${String(row['number'])}`,
          meaning: String(row['meaning']),
          taskId: String(row['task']),
          token: Number(row['token']),
          key: String(row['idempotency_key']),
        })),
    close: () => db.close(),
  };
}

/** Charges: a line each in a file that is only appended to. What was written is there, whatever becomes of the process. */
function openCharges(path: string): { readonly rows: readonly Row[]; add(row: Omit<Row, 'id'>): Row; close(): void } {
  const file = openSync(path, 'a+');
  const rows = readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row);
  return {
    rows,
    add(row) {
      const whole = { id: `C-${rows.length + 1}`, ...row };
      writeSync(file, `${JSON.stringify(whole)}\n`);
      rows.push(whole);
      return whole;
    },
    close: () => closeSync(file),
  };
}

async function meaningOf(request: Request): Promise<string> {
  const { order, effect } = (await request.json()) as { readonly order: string; readonly effect: string };
  return `${effect} for ${order}`;
}

function callerOf(request: Request): Caller {
  const { headers } = request;
  return {
    scope: headers.get('x-execution-scope') ?? '',
    token: Number(headers.get('x-execution-fence')),
    key: headers.get('idempotency-key') ?? '',
  };
}

function created(id: string): Response {
  return Response.json({ id }, { status: 201 });
}
