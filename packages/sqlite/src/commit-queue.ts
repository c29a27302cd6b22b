import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isBusy } from './sqlite-errors.ts';
import type { StoreClock, StoreInstant } from './store-clock.ts';

/** What a piece of work sees: prepared statements, and the store's time in its transaction. */
export interface Session {
  /** Names this file among all databases: part of message ids. */
  readonly fileId: string;
  readonly now: StoreInstant;
  /** The statement of this text, prepared once per connection. */
  statement(sql: string): StatementSync;
  /** Wakes the receivers of every process once the transaction is committed. */
  ring(): void;
  /** False once an error has undone the whole transaction. */
  intact(): boolean;
}

/** How a piece of work is to be run. */
export interface WriteOptions {
  /** Whether the answer has to survive a power failure. Without it the commit is not synced; kill -9 loses nothing either way. */
  readonly durable: boolean;
  /** True for a single statement, which needs no savepoint of its own. */
  readonly single?: boolean;
}

interface Job {
  readonly work: (session: Session) => unknown;
  readonly signal: AbortSignal;
  readonly options: WriteOptions;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  value?: unknown;
  failure?: { readonly error: unknown };
}

/** The most one transaction takes, so that neither this loop nor other processes wait long for it. */
const MAX_JOBS = 256;
const MAX_MS = 8;
const LONGEST_PAUSE_MS = 25;

/** A pause before asking for the lock again: short at first, and never the same for two processes. */
export function pauseMs(attempt: number): number {
  return 1 + Math.random() * Math.min(LONGEST_PAUSE_MS - 1, 2 ** attempt);
}

/**
 * Runs the writes of one turn of the event loop in one transaction and answers them after its commit, so that concurrent tasks share
 * one sync of the disk. A job that fails is undone alone; a job whose signal aborts before it ran is never run.
 */
export class CommitQueue {
  readonly #db: DatabaseSync;
  readonly #clock: StoreClock;
  readonly #prepare: (sql: string) => StatementSync;
  readonly #fileId: string;
  readonly #onRing: () => void;
  readonly #idle = new Set<() => void>();
  #jobs: Job[] = [];
  #scheduled = false;
  #attempt = 0;
  #synchronous: 'FULL' | 'NORMAL' = 'FULL';

  constructor(
    db: DatabaseSync,
    clock: StoreClock,
    prepare: (sql: string) => StatementSync,
    fileId: string,
    onRing: () => void,
  ) {
    this.#db = db;
    this.#clock = clock;
    this.#prepare = prepare;
    this.#fileId = fileId;
    this.#onRing = onRing;
  }

  add<T>(work: (session: Session) => T, signal: AbortSignal, options: WriteOptions): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      this.#jobs.push({ work, signal, options, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  /** Resolves when nothing is waiting any more. */
  drained(): Promise<void> {
    if (this.#jobs.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.add(resolve));
  }

  #schedule(): void {
    if (this.#scheduled || this.#jobs.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #retryLater(): void {
    this.#scheduled = true;
    setTimeout(() => this.#flush(), pauseMs(this.#attempt++));
  }

  #flush(): void {
    this.#scheduled = false;
    this.#dropAborted();
    if (this.#jobs.length > 0) this.#transaction();
    this.#schedule();
    if (this.#jobs.length > 0) return;
    for (const tell of this.#idle) tell();
    this.#idle.clear();
  }

  #dropAborted(): void {
    const kept: Job[] = [];
    for (const job of this.#jobs) {
      if (job.signal.aborted) job.reject(job.signal.reason);
      else kept.push(job);
    }
    this.#jobs = kept;
  }

  #transaction(): void {
    const jobs = this.#jobs.splice(0, MAX_JOBS);
    const ringing = { asked: false };
    let done = 0;
    try {
      this.#setSynchronous(jobs.some((job) => job.options.durable));
      this.#prepare('BEGIN IMMEDIATE').run();
      const session: Session = {
        fileId: this.#fileId,
        now: this.#clock.observe(this.#prepare),
        statement: this.#prepare,
        ring: () => {
          ringing.asked = true;
        },
        intact: () => this.#db.isTransaction,
      };
      const end = performance.now() + MAX_MS;
      do {
        const job = jobs[done++] as Job;
        this.#run(job, session);
        if (job.failure && !this.#db.isTransaction) {
          // Its error undid the whole transaction (disk full, RAISE(ROLLBACK)): it fails alone, the others run again.
          jobs.splice(done - 1, 1);
          this.#jobs.unshift(...jobs);
          job.reject(job.failure.error);
          return;
        }
      } while (done < jobs.length && performance.now() < end);
      this.#prepare('COMMIT').run();
    } catch (error) {
      if (this.#db.isTransaction) this.#prepare('ROLLBACK').run();
      if (isBusy(error)) {
        this.#jobs.unshift(...jobs);
        this.#retryLater();
      } else {
        for (const job of jobs) job.reject(error);
      }
      return;
    }
    this.#attempt = 0;
    this.#clock.committed();
    if (done < jobs.length) this.#jobs.unshift(...jobs.splice(done));
    if (ringing.asked) this.#onRing();
    for (const job of jobs) {
      if (job.failure) job.reject(job.failure.error);
      else job.resolve(job.value);
    }
  }

  #run(job: Job, session: Session): void {
    delete job.failure;
    if (!job.options.single) this.#prepare('SAVEPOINT job').run();
    try {
      job.value = job.work(session);
      if (!job.options.single) this.#prepare('RELEASE job').run();
    } catch (error) {
      job.failure = { error };
      if (job.options.single || !this.#db.isTransaction) return;
      this.#prepare('ROLLBACK TO job').run();
      this.#prepare('RELEASE job').run();
    }
  }

  // Only possible between transactions. In WAL mode the sync of a later FULL commit covers all commits before it.
  #setSynchronous(durable: boolean): void {
    const wanted = durable ? 'FULL' : 'NORMAL';
    if (this.#synchronous === wanted) return;
    this.#db.exec(`PRAGMA synchronous = ${wanted}`);
    this.#synchronous = wanted;
  }
}
