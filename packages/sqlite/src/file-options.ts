import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import {
  badOption,
  checkNames,
  isLeaseholdError,
  LeaseholdError,
  systemClock,
  type Clock,
  type OptionNames,
} from '@leasehold/core';
import { systemBootClock, type BootClock } from './boot-clock.ts';
import { cannotOpen, isNotADatabase } from './sqlite-errors.ts';

/** Where the data lives. The three factories take the same options; drivers on one file share one connection per process. */
export interface SqliteFileOptions {
  /** Path of the database file, on a local disk. It is made at the first use; its directory has to exist. */
  readonly file: string;
  /** Allows a file that holds tables of another application: ours, all named `leasehold_…`, are put beside them. Default false. */
  readonly embed?: boolean;
  /** The clock that decides about leases. Default: the machine's. Tests move one by hand. */
  readonly bootClock?: BootClock;
  /** Measures waits of `receive`, and gives the wall time a file's first boot starts at. Default: the machine's. */
  readonly clock?: Clock;
}

/** Options with their defaults, checked. */
export interface FileSettings {
  readonly path: string;
  readonly embed: boolean;
  readonly bootClock: BootClock;
  readonly clock: Clock;
}

const machine = systemClock();

/** What all three factories take. */
export const FILE_OPTIONS: OptionNames<SqliteFileOptions> = { file: true, embed: true, bootClock: true, clock: true };

/** @throws LeaseholdError `bad-option` naming the option, also one that is not among `names`. */
export function fileSettings<Options extends SqliteFileOptions>(
  options: Options,
  names: OptionNames<Options>,
): FileSettings {
  checkNames(options, names);
  const { file } = options;
  if (typeof file !== 'string' || file.trim() === '')
    throw badOption('file', file, "write the path of a file, such as './leasehold.db'.");
  if (file.includes(':memory:')) {
    throw badOption(
      'file',
      file,
      'other processes could not see it; write a path, or use the drivers of @leasehold/core/memory.',
    );
  }
  if (file.startsWith('file:')) throw badOption('file', file, 'URIs are not taken; write a plain path.');
  if (file.includes('\0')) throw badOption('file', file, 'it holds a NUL character; write a plain path.');
  if (file.endsWith('/') || file.endsWith('\\'))
    throw badOption('file', file, 'it is a directory; write the path of a file in it.');
  if (options.embed !== undefined && typeof options.embed !== 'boolean')
    throw badOption('embed', options.embed, 'write true or false.');
  return {
    path: realPath(file),
    embed: options.embed ?? false,
    bootClock: options.bootClock ?? systemBootClock(),
    clock: options.clock ?? machine,
  };
}

// Two spellings of one file have to meet in one connection.
function realPath(file: string): string {
  const path = resolve(file);
  for (const known of [path, dirname(path)]) {
    try {
      const real = realpathSync(known);
      return known === path ? real : join(real, basename(path));
    } catch {
      // Not there yet: the file is made at the first use, which also reports a missing directory.
      continue;
    }
  }
  return path;
}

/** A queue's name: letters, digits, dot, dash and underscore. */
export function queueName(queue: string): string {
  if (typeof queue !== 'string' || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(queue)) {
    throw badOption(
      'queue',
      queue,
      'a name has 1 to 100 letters, digits, dots, dashes or underscores and begins with a letter or digit.',
    );
  }
  return queue;
}

/** What went wrong while opening the file, in words that say what to do. */
export function openError(path: string, error: unknown): unknown {
  if (isLeaseholdError(error)) return error;
  if (isNotADatabase(error)) {
    const text = `file ${path} is not an SQLite database. Give Leasehold a file of its own. Nothing was changed.`;
    return new LeaseholdError('bad-option', text, { field: 'file', cause: error });
  }
  if (cannotOpen(error)) {
    const text = `file ${path} cannot be opened. Check that its directory exists and that this user may write in it.`;
    return new LeaseholdError('unavailable', text, { field: 'file', cause: error });
  }
  return error;
}
