import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TaskRecord } from '@leasehold/core';
import type { Tally, Violation } from './audit.ts';
import { replaceDatabase } from './database.ts';
import { DemoRun } from './demo-run.ts';
import type { DemoProgress } from './progress.ts';

/** What {@link runDemo} takes. */
export interface DemoOptions {
  /** A folder in which the database is left as `demo.sqlite`. Without it the database is in a temporary folder that is removed at the end. */
  readonly keep?: string;
  /** Called several times a second while the tasks run. */
  readonly onProgress?: (progress: DemoProgress) => void;
  /** Called with a sentence when something is done on purpose, or found. */
  readonly onNote?: (note: string) => void;
  /** Ends the demo early: everything is stopped and cleaned up, and what is missing is a violation. */
  readonly signal?: AbortSignal;
  /** Gives up after so many milliseconds. Default 58 s. */
  readonly limitMs?: number;
}

/** What came of it. */
export interface DemoReport {
  readonly tally: Tally;
  readonly ms: number;
  /** Promises that were not kept; empty when all is well. */
  readonly violations: readonly Violation[];
  /** The database that was kept. */
  readonly file?: string;
  readonly records: readonly TaskRecord[];
}

/**
 * Sixty tool calls of agents, three worker processes and a ticket service in a process of its own, over one SQLite file; with one worker
 * killed, one stopped, an answer lost, a task cancelled and a message that nobody can read. Ends with the numbers, as the ledger, the
 * service and the workers' events give them, and with every promise that was not kept.
 *
 * Rejects when it cannot even start, such as for a folder that cannot be written.
 */
export async function runDemo(options: DemoOptions = {}): Promise<DemoReport> {
  const startedAt = performance.now();
  const folder = options.keep ?? mkdtempSync(join(tmpdir(), 'leasehold-demo-'));
  const file = join(folder, 'demo.sqlite');
  const stopping = new AbortController();
  const stop = (): void => stopping.abort(options.signal?.reason ?? new Error('stopped from outside'));
  options.signal?.addEventListener('abort', stop, { once: true });
  if (options.signal?.aborted) stop();
  const remove = (): void => {
    if (options.keep === undefined) rmSync(folder, { recursive: true, force: true });
  };
  // However this process ends, nothing of the demo stays behind.
  process.once('exit', remove);
  const limit = setTimeout(() => stopping.abort(new Error('the time limit was reached')), options.limitMs ?? 58_000);
  try {
    if (options.keep !== undefined) {
      mkdirSync(folder, { recursive: true });
      replaceDatabase(file);
    }
    const run = new DemoRun({ file, startedAt, stopping, ...options });
    const { tally, violations, records } = await run.play();
    const ms = Math.round(performance.now() - startedAt);
    return { tally, ms, violations, records, ...(options.keep !== undefined && { file }) };
  } finally {
    clearTimeout(limit);
    options.signal?.removeEventListener('abort', stop);
    process.off('exit', remove);
    remove();
  }
}
