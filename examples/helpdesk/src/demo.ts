import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { badOption, type TaskRecord } from '@leasehold/core';
import type { Tally, Violation } from './audit.ts';
import { replaceDatabase } from './database.ts';
import { DemoRun } from './demo-run.ts';
import { PROFILES, type ProfileName } from './profiles.ts';
import type { DemoProgress } from './progress.ts';
import { DATABASE } from './sqlite-profile.ts';

/** What {@link runDemo} takes. */
export interface DemoOptions {
  /** Where queue and ledger are: `sqlite` (default) in one file, `aws` in an SQS queue and a DynamoDB table, both made for the run. */
  readonly profile?: ProfileName;
  /** With `aws`: servers to use instead of embedded ones. Credentials are found by the SDK's own chain. */
  readonly endpoints?: { readonly sqs: string; readonly dynamodb: string };
  /** With `endpoints`: the region. Default: the SDK's own chain. */
  readonly region?: string;
  /**
   * With `sqlite`: a folder in which the database is left as `demo.sqlite`. Without it the database is in a temporary folder that is removed
   * at the end.
   */
  readonly keep?: string;
  /** Called several times a second while the tasks run. */
  readonly onProgress?: (progress: DemoProgress) => void;
  /** Called with a sentence when something is done on purpose, or found. */
  readonly onNote?: (note: string) => void;
  /** With `endpoints`: called with a sentence about what could not be removed. */
  readonly onLeftBehind?: (what: string) => void;
  /** Ends the demo early: everything is stopped and cleaned up, and `runDemo` rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Gives up after so many milliseconds; what is missing then is a violation. Default 58 s, with `aws` 150 s. */
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
 * Sixty tool calls of agents, three worker processes and a ticket service in a process of its own; with one worker killed, one stopped, an
 * answer lost, a task cancelled and a message that nobody can read. Ends with the numbers, as the ledger, the service and the workers'
 * events give them, and with every promise that was not kept.
 *
 * @throws LeaseholdError `bad-option` for options that do not go together, a folder that cannot be used, or a profile whose packages are not
 * installed; whatever keeps it from starting; the reason of `signal`.
 */
export async function runDemo(options: DemoOptions = {}): Promise<DemoReport> {
  const startedAt = performance.now();
  const { profile = 'sqlite', keep, signal } = options;
  check(options, profile);
  const folder = keep ?? mkdtempSync(join(tmpdir(), 'leasehold-demo-'));
  const stopping = new AbortController();
  const stop = (): void => stopping.abort(signal?.reason ?? new Error('stopped from outside'));
  signal?.addEventListener('abort', stop, { once: true });
  if (signal?.aborted) stop();
  const remove = (): void => {
    if (keep === undefined) rmSync(folder, { recursive: true, force: true });
  };
  // However this process ends, nothing of the demo stays behind.
  process.once('exit', remove);
  const limitMs = options.limitMs ?? PROFILES[profile].limitMs;
  const limit = setTimeout(() => stopping.abort(new Error('the time limit was reached')), limitMs);
  try {
    if (keep !== undefined) {
      makeFolder(keep);
      replaceDatabase(join(keep, DATABASE));
    }
    const { tally, violations, records } = await play(options, { profile, folder, stopping, startedAt });
    signal?.throwIfAborted();
    const ms = Math.round(performance.now() - startedAt);
    return { tally, ms, violations, records, ...(keep !== undefined && { file: join(folder, DATABASE) }) };
  } catch (error) {
    // Whatever it was in the middle of could not be done.
    signal?.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(limit);
    signal?.removeEventListener('abort', stop);
    process.off('exit', remove);
    remove();
  }
}

function makeFolder(keep: string): void {
  try {
    mkdirSync(keep, { recursive: true });
    accessSync(keep, constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw badOption(
      'keep',
      keep,
      `it cannot be used as a folder (${code}); name one that this user can make, or write to.`,
    );
  }
}

async function play(
  options: DemoOptions,
  run: {
    readonly profile: ProfileName;
    readonly folder: string;
    readonly stopping: AbortController;
    readonly startedAt: number;
  },
): ReturnType<DemoRun['play']> {
  const { endpoints, region } = options;
  const { [run.profile]: profile } = PROFILES;
  const note = (text: string): void => options.onNote?.(text);
  const ground = await profile.prepare({
    ...run,
    note,
    leftBehind: (text) => options.onLeftBehind?.(text),
    ...(endpoints && { endpoints }),
    ...(region !== undefined && { region }),
  });
  try {
    return await new DemoRun({ ...options, ...run, ground, lookEveryMs: profile.lookEveryMs }).play();
  } finally {
    await ground.remove();
  }
}

function check({ keep, endpoints, region }: DemoOptions, profile: ProfileName): void {
  if (!Object.hasOwn(PROFILES, profile))
    throw badOption('profile', profile, `there are ${Object.keys(PROFILES).join(' and ')}.`);
  if (keep !== undefined && profile !== 'sqlite') {
    const remedy =
      'a run on AWS leaves nothing behind: its queue and table are removed at the end. Leave it out, or use the profile sqlite.';
    throw badOption('keep', keep, remedy);
  }
  if (endpoints && profile !== 'aws')
    throw badOption('endpoint', endpoints.sqs, 'only the profile aws has servers: give that, too.');
  for (const url of Object.values(endpoints ?? {})) {
    if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ''))
      throw badOption('endpoint', url, 'write the URL of a server, such as http://127.0.0.1:4566.');
  }
  if (region !== undefined && !endpoints)
    throw badOption('region', region, 'the embedded servers have their own; it goes with endpoints.');
}
