import { closeSync, constants, openSync, watch, writeSync, type FSWatcher } from 'node:fs';
import type { Clock } from '@leasehold/core';

/** How often a receiver looks anyway, should a ring have been missed. */
const POLL_MS = 1_000;
/** How often it looks where the system gives out no more file watches. */
const BLIND_POLL_MS = 40;

/**
 * Wakes the receivers of all processes on one database. Whoever commits something receivable writes a byte into `<file>.bell`;
 * whoever waits watches that file. A lost ring costs a second, never a message: the database is the truth.
 */
export class Bell {
  readonly #path: string;
  readonly #ears = new Set<Ear>();
  #watcher: FSWatcher | undefined;
  #closed = false;

  constructor(path: string) {
    this.#path = path;
  }

  ring(): void {
    touch(this.#path);
    this.#wakeAll();
  }

  /** Begins to listen; a ring from now on is remembered until the ear's next wait. */
  listen(): Ear {
    if (!this.#watcher && !this.#closed) this.#watch();
    const ear = new Ear(
      () => (this.#watcher ? POLL_MS : BLIND_POLL_MS),
      () => this.#ears.delete(ear),
    );
    this.#ears.add(ear);
    return ear;
  }

  /** Stops watching. Ears that still wait hear it one last time. */
  close(): void {
    this.#closed = true;
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const ear of this.#ears) ear.hear();
  }

  #watch(): void {
    if (!touch(this.#path)) return;
    try {
      // Not persistent: a watch alone keeps no process alive.
      const watcher = watch(this.#path, { persistent: false }, (event) => {
        if (event === 'rename' && watcher === this.#watcher) {
          // Deleted or replaced: this watch hears nothing any more.
          this.#unwatch(watcher);
          if (this.#ears.size > 0) this.#watch();
        }
        this.#wakeAll();
      });
      watcher.on('error', () => this.#unwatch(watcher));
      this.#watcher = watcher;
    } catch {
      // No watches left (inotify limit): ears fall back to the short poll and try again at their next listen.
      this.#watcher = undefined;
    }
  }

  #unwatch(watcher: FSWatcher): void {
    watcher.close();
    if (this.#watcher === watcher) this.#watcher = undefined;
  }
}

/** One receiver's side of the bell. */
export class Ear {
  readonly #pollMs: () => number;
  readonly #onLeave: () => void;
  #rung = false;
  #wake: (() => void) | undefined;

  constructor(pollMs: () => number, onLeave: () => void) {
    this.#pollMs = pollMs;
    this.#onLeave = onLeave;
  }

  hear(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Resolves at the next ring, or one since the last wait; after `ms`; or when it is time to look anyway. Rejects on abort. */
  wait(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const end = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', stop);
        this.#wake = undefined;
        this.#rung = false;
      };
      const wake = (): void => {
        end();
        resolve();
      };
      const stop = (): void => {
        end();
        reject(signal.reason as Error);
      };
      const timer = clock.timer(Math.min(ms, this.#pollMs()), wake);
      signal.addEventListener('abort', stop, { once: true });
      this.#wake = wake;
      if (this.#rung) wake();
    });
  }

  leave(): void {
    this.#onLeave();
    this.#wake?.();
  }
}

/** False when the file cannot be written: receivers then find out by looking. */
function touch(path: string): boolean {
  try {
    const bell = openSync(path, constants.O_WRONLY | constants.O_CREAT, 0o666);
    try {
      writeSync(bell, '\n', 0);
    } finally {
      closeSync(bell);
    }
    return true;
  } catch {
    return false;
  }
}
