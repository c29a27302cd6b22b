import type { StatementSync } from 'node:sqlite';
import {
  LeaseholdError,
  type GuardAsk,
  type GuardStore,
  type GuardVerdict,
  type HoldId,
  type StoredResponse,
} from '@leasehold/core';
import type { Session } from './commit-queue.ts';
import { FILE_OPTIONS, fileSettings, type SqliteFileOptions } from './file-options.ts';
import {
  beginHold,
  checkKey,
  extendHold,
  fence,
  finishHold,
  lookAt,
  resolveDoubt,
  storeResponse,
} from './guard-memory.ts';
import { FileShare } from './sqlite-file.ts';

/** What {@link sqliteGuard} takes. */
export type SqliteGuardOptions = SqliteFileOptions;

/** The database inside {@link SqliteGuard.transact}: the receiver's own tables, in the guard's transaction. */
export interface TransactionDatabase {
  /** Prepares one statement. Statements that begin or end transactions are refused. */
  prepare(sql: string): StatementSync;
}

/** What `transact` asks: no hold is needed, since nothing can be seen half done. */
export type TransactAsk = Omit<GuardAsk, 'hold' | 'holdMs'>;

/** What `transact` says: the response of this run, or why it did not run. */
export type TransactVerdict = { readonly done: StoredResponse } | Exclude<GuardVerdict, { readonly new: HoldId }>;

/** A guard store on SQLite, with the strong form for receivers whose own data is in the same file. */
export interface SqliteGuard extends GuardStore {
  /**
   * Fence check, key check, the writes of `run` and its response in one transaction: all of it happens, or none.
   *
   * `run` is synchronous, does nothing but SQL on `db`, and may be called again when a neighbour's failure undid the transaction.
   * When it throws, its writes are undone, the key stays free, and this rejects with the error; the raised token stays.
   * A response of 5xx or 429 says that it did not work: its writes are undone too and it is given back without being kept.
   *
   * @example
   * ```ts
   * import { sqliteGuard, type TransactAsk } from '@leasehold/sqlite';
   *
   * const store = sqliteGuard({ file: './leasehold.db' });
   *
   * export const openTicket = (ask: TransactAsk, title: string, signal: AbortSignal) =>
   *   store.transact(
   *     ask,
   *     (db) => {
   *       db.prepare('INSERT INTO tickets (id, title) VALUES (?, ?)').run(ask.key, title);
   *       return { status: 201, headers: {}, body: new TextEncoder().encode(ask.key) };
   *     },
   *     signal,
   *   );
   * ```
   */
  transact(
    ask: TransactAsk,
    run: (db: TransactionDatabase) => StoredResponse,
    signal: AbortSignal,
  ): Promise<TransactVerdict>;
}

const DURABLE = { durable: true };
const CONTROLS =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(?:begin|commit|end|rollback|savepoint|release|attach|detach|vacuum|pragma)\b/i;

/**
 * A receiver's memory in an SQLite file, shared by the processes of one machine. Every answer is on disk before it is given.
 *
 * A hold that ran out, or whose machine was restarted, is in doubt until `resolve` or its bearer says how it ended; it is never
 * thrown away. Responses are, once their retention is over.
 *
 * @throws LeaseholdError `bad-option` at once. Calls reject with errors of `node:sqlite`, or `unavailable` when the file cannot be
 * opened; a locked file is waited for until the call's signal aborts.
 *
 * @example
 * ```ts
 * import { sqliteGuard } from '@leasehold/sqlite';
 *
 * const store = sqliteGuard({ file: './leasehold.db' });
 * ```
 */
export function sqliteGuard(options: SqliteGuardOptions): SqliteGuard {
  const share = new FileShare('guard store', fileSettings(options, FILE_OPTIONS));
  return {
    specVersion: 1,
    name: 'sqlite',
    begin: (ask, signal) => share.write((session) => beginHold(session, ask), signal, DURABLE),
    // A power failure that forgets this ends the hold as well.
    extend: (hold, holdMs, signal) =>
      share.write((session) => extendHold(session, hold, holdMs), signal, { durable: false }),
    finish: (hold, response, signal) => share.write((session) => finishHold(session, hold, response), signal, DURABLE),
    look: (ask, signal) => share.write((session) => lookAt(session, ask), signal, DURABLE),
    resolve: (hold, response, signal) =>
      share.write((session) => resolveDoubt(session, hold, response), signal, DURABLE),
    async transact(ask, run, signal) {
      let over = false;
      const prepare = (sql: string): StatementSync => {
        if (over)
          throw new LeaseholdError(
            'bad-request',
            'The transaction of transact is over; use db only inside its function.',
          );
        if (CONTROLS.test(sql))
          throw new LeaseholdError(
            'bad-request',
            `transact runs its own transaction; leave out ${JSON.stringify(sql)}.`,
          );
        return share.prepare(sql);
      };
      const once = (): StoredResponse => {
        over = false;
        try {
          return run({ prepare });
        } finally {
          over = true;
        }
      };
      const outcome = await share.write((session) => transactOnce(session, ask, once), signal, DURABLE);
      if ('threw' in outcome) throw outcome.threw;
      return outcome.verdict;
    },
    close: () => share.close(),
  };
}

type Outcome = { readonly verdict: TransactVerdict } | { readonly threw: unknown };

function transactOnce(session: Session, ask: TransactAsk, run: () => StoredResponse): Outcome {
  const { statement } = session;
  const highest = ask.token === undefined ? undefined : fence(session, ask.scope, ask.token, ask.retentionMs);
  if (highest !== undefined) return { verdict: { stale: highest } };
  const { known } = checkKey(session, ask);
  if (known !== 'absent') return { verdict: known };
  // The token stays raised whatever becomes of the rest: an older owner's call may be on its way.
  statement('SAVEPOINT effect').run();
  const undo = (): void => {
    statement('ROLLBACK TO effect').run();
    statement('RELEASE effect').run();
  };
  let response: StoredResponse;
  try {
    response = run();
    if (typeof (response as { then?: unknown }).then === 'function') {
      throw new LeaseholdError(
        'bad-request',
        'The function given to transact is asynchronous; it has to do its SQL and return the response at once.',
      );
    }
    if (response.status >= 500 || response.status === 429) {
      undo();
      return { verdict: { done: response } };
    }
    storeResponse(session, ask, response);
  } catch (threw) {
    // Some errors undo the whole transaction (disk full, RAISE(ROLLBACK)): the queue sees to that.
    if (!session.intact()) throw threw;
    undo();
    return { threw };
  }
  statement('RELEASE effect').run();
  return { verdict: { done: response } };
}
