import { setTimeout as pause } from 'node:timers/promises';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { LeaseholdError, type Clock } from '@leasehold/core';
import { Bell, type Ear } from './bell.ts';
import { CommitQueue, pauseMs, type Session, type WriteOptions } from './commit-queue.ts';
import { openError, type FileSettings } from './file-options.ts';
import { tidy, TIDY_EVERY_MS } from './tidy.ts';
import { checkSchema, migrate } from './schema.ts';
import { isBusy } from './sqlite-errors.ts';
import { StoreClock } from './store-clock.ts';

/** How long SQLite itself may wait for a lock, blocking the event loop. After it we wait without blocking. */
const BUSY_TIMEOUT_MS = 10;
/** What is left of the write-ahead log's file after a burst. */
const WAL_FILE_LIMIT = 16 * 2 ** 20;

interface Connection {
  readonly db: DatabaseSync;
  readonly queue: CommitQueue;
  readonly fileId: string;
}

/** One database file in this process: one connection, made at the first use and shared by every driver on the file. */
class SqliteFile {
  readonly settings: FileSettings;
  readonly storeClock: StoreClock;
  readonly bell: Bell;
  users = 0;
  #connection: Connection | undefined;
  #lastTidy = -Infinity;
  #tidying = new AbortController();
  readonly #statements = new Map<string, StatementSync>();

  constructor(settings: FileSettings) {
    this.settings = settings;
    this.storeClock = new StoreClock(settings.bootClock, () => settings.clock.wall());
    this.bell = new Bell(`${settings.path}.bell`);
  }

  get connection(): Connection | undefined {
    return this.#connection;
  }

  /** Opens the file if nobody has yet. Waits, without blocking, while another process migrates or recovers it. */
  async connect(signal: AbortSignal, stillWanted: () => void): Promise<Connection> {
    for (let attempt = 0; ; attempt++) {
      signal.throwIfAborted();
      stillWanted();
      if (this.#connection) return this.#connection;
      try {
        return (this.#connection = this.#open());
      } catch (error) {
        if (!isBusy(error)) throw openError(this.settings.path, error);
      }
      await pause(pauseMs(attempt));
    }
  }

  readonly statement = (sql: string): StatementSync => {
    let prepared = this.#statements.get(sql);
    if (!prepared) {
      if (!this.#connection) throw new LeaseholdError('closed', 'The database file is not open.');
      prepared = this.#connection.db.prepare(sql);
      this.#statements.set(sql, prepared);
    }
    return prepared;
  };

  write<T>(
    connection: Connection,
    work: (session: Session) => T,
    signal: AbortSignal,
    options: WriteOptions,
  ): Promise<T> {
    const now = performance.now();
    if (now - this.#lastTidy >= TIDY_EVERY_MS) {
      this.#lastTidy = now;
      const again = (full: boolean): void => {
        if (full) this.#lastTidy = -Infinity;
      };
      // Its failure is the disk's, which the work beside it meets as well and reports.
      connection.queue.add(tidy, this.#tidying.signal, { durable: false }).then(again, () => undefined);
    }
    return connection.queue.add(work, signal, options);
  }

  /** Closes the connection once nobody uses the file and nothing waits in its queue. */
  async release(): Promise<void> {
    if (this.users === 0) {
      // Not worth waiting for, should another process sit on the lock.
      this.#tidying.abort();
      this.#tidying = new AbortController();
    }
    await this.#connection?.queue.drained();
    if (this.users > 0) return;
    files.get(this.settings.path)?.delete(this);
    this.bell.close();
    this.#statements.clear();
    this.#connection?.db.close();
    this.#connection = undefined;
  }

  #open(): Connection {
    const { path, embed } = this.settings;
    const db = new DatabaseSync(path);
    try {
      db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
      checkSchema(db, path, embed);
      const mode = db.prepare('PRAGMA journal_mode = WAL').get()?.['journal_mode'];
      if (mode !== 'wal') {
        const text = `file ${path} cannot use a write-ahead log (its journal mode stays ${String(mode)}). Put it on a local disk.`;
        throw new LeaseholdError('unavailable', text, { field: 'file' });
      }
      db.exec(`PRAGMA synchronous = FULL; PRAGMA journal_size_limit = ${WAL_FILE_LIMIT}`);
      const fileId = migrate(db);
      const queue = new CommitQueue(db, this.storeClock, this.statement, fileId, () => this.bell.ring());
      return { db, queue, fileId };
    } catch (error) {
      db.close();
      throw error;
    }
  }
}

// Files in use, by real path. Drivers with clocks of their own (tests that play several processes) get a connection of their own.
const files = new Map<string, Set<SqliteFile>>();

function fileFor(settings: FileSettings): SqliteFile {
  const known = files.get(settings.path) ?? new Set();
  files.set(settings.path, known);
  for (const file of known) {
    const { bootClock, clock, embed } = file.settings;
    if (bootClock === settings.bootClock && clock === settings.clock && embed === settings.embed) return file;
  }
  const file = new SqliteFile(settings);
  known.add(file);
  return file;
}

/** One driver's share of a file. */
export class FileShare {
  readonly #file: SqliteFile;
  readonly #what: string;
  readonly #ears = new Set<Ear>();
  #closing: Promise<void> | undefined;

  constructor(what: string, settings: FileSettings) {
    this.#what = what;
    this.#file = fileFor(settings);
    this.#file.users++;
  }

  get clock(): Clock {
    return this.#file.settings.clock;
  }

  get resolutionMs(): number {
    return this.#file.storeClock.resolutionMs;
  }

  /** Opens the file. Reports a bad one; needed by nobody, since every call does it. */
  async open(signal: AbortSignal): Promise<void> {
    await this.write(() => undefined, signal, { durable: false, single: true });
  }

  /** Runs `work` in a transaction with its neighbours; the answer comes after the commit. */
  write<T>(work: (session: Session) => T, signal: AbortSignal, options: WriteOptions): Promise<T> {
    const connection = this.#file.connection;
    if (connection && !this.#closing) return this.#file.write(connection, work, signal, options);
    return this.#connect(signal).then((made) => this.#file.write(made, work, signal, options));
  }

  /** Runs `work`, which only reads, at once: a reader waits for no writer. */
  async read<T>(work: (session: Session) => T, signal: AbortSignal): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      const { fileId } = await this.#connect(signal);
      const now = this.#file.storeClock.glance();
      if (!now) return this.write(work, signal, { durable: false });
      try {
        return work({ fileId, now, statement: this.#file.statement, ring: () => undefined, intact: () => true });
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
      await pause(pauseMs(attempt));
    }
  }

  /** A statement of the caller's own text, for work that `write` runs. */
  prepare(sql: string): StatementSync {
    const connection = this.#file.connection;
    if (!connection) throw closedError(this.#what);
    return connection.db.prepare(sql);
  }

  /** Hears rings until `leave`; `wait` rejects once this share is closed. */
  listen(): { wait(ms: number, signal: AbortSignal): Promise<void>; leave(): void } {
    const ear = this.#file.bell.listen();
    this.#ears.add(ear);
    return {
      wait: async (ms, signal) => {
        this.#refuseIfClosed();
        await ear.wait(ms, this.clock, signal);
        this.#refuseIfClosed();
      },
      leave: () => {
        this.#ears.delete(ear);
        ear.leave();
      },
    };
  }

  /** Ends waits, lets what was asked before finish, and closes the file with its last user. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // Not before `#closing` is set, which the ears ask for.
    await Promise.resolve();
    for (const ear of this.#ears) ear.hear();
    this.#file.users--;
    await this.#file.release();
  }

  #connect(signal: AbortSignal): Promise<Connection> {
    return this.#file.connect(signal, () => this.#refuseIfClosed());
  }

  #refuseIfClosed(): void {
    if (this.#closing) throw closedError(this.#what);
  }
}

function closedError(what: string): LeaseholdError {
  return new LeaseholdError('closed', `This ${what} was closed; make a new one.`);
}
