import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/usr/lib';
const NAME = 'faketime/libfaketimeMT.so.1';
const INSTALL = [
  ['apt-get', 'update', '-q'],
  ['apt-get', 'install', '-y', '-q', '--no-install-recommends', 'libfaketime'],
] as const;

/** The library that shifts the wall clock of one process, installed if it is missing. Throws with what to do when that cannot be done. */
export function findFakeTime(tell: (text: string) => void): string {
  const found = look();
  if (found !== undefined) return found;
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  tell(`libfaketime is missing; installing it: ${[...sudo, ...INSTALL[1]].join(' ')}`);
  let why = '';
  try {
    for (const command of INSTALL) {
      const [program = '', ...rest] = [...sudo, ...command];
      execFileSync(program, rest, {
        stdio: ['ignore', 'ignore', 'pipe'],
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      });
    }
  } catch (error) {
    why = ` (${error instanceof Error ? error.message.trim().split('\n').at(-1) : String(error)})`;
  }
  const installed = look();
  if (installed !== undefined) return installed;
  throw new Error(
    `the clock faults need libfaketime, which could not be installed${why}. Install Debian's package libfaketime, ` +
      `or name the faults to run without them: --faults kill,stop,restart,cut,delay`,
  );
}

function look(): string | undefined {
  if (!existsSync(ROOT)) return undefined;
  const places = [ROOT, ...readdirSync(ROOT).map((name) => join(ROOT, name))].map((directory) => join(directory, NAME));
  return places.find((path) => existsSync(path));
}

const SHARED = '/dev/shm';

/** Removes what the library keeps for a process in shared memory: one that is killed leaves it behind, and the next process with its id would not start. */
export function forgetFakeTime(pid: number): void {
  for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) rmSync(join(SHARED, name), { force: true });
}

/** The same for all processes that are gone, such as those of a run that was itself killed. */
export function forgetOldFakeTime(): void {
  if (!existsSync(SHARED)) return;
  for (const name of readdirSync(SHARED)) {
    const pid = /^(?:faketime_shm|sem\.faketime_sem)_(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !usesFakeTime(pid)) forgetFakeTime(Number(pid));
  }
}

function usesFakeTime(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8').includes('libfaketime');
  } catch {
    // It is gone.
    return false;
  }
}

/** The wall clock of one place: its processes see the machine's clock plus a shift that can change while they run. */
export class FakeClock {
  readonly #file: string;
  readonly #library: string;
  shiftMs = 0;

  constructor(library: string, directory: string, place: string) {
    this.#library = library;
    this.#file = join(directory, `${place}.clock`);
    this.step(0);
  }

  step(shiftMs: number): void {
    this.shiftMs = shiftMs;
    // In one go: a process that read half a file would have a time nobody planned.
    writeFileSync(`${this.#file}.new`, `${shiftMs < 0 ? '-' : '+'}${Math.abs(shiftMs) / 1_000}\n`);
    renameSync(`${this.#file}.new`, this.#file);
  }

  /** What a process needs in its environment. The monotonic clock stays the machine's, as it does when somebody sets the time. */
  get env(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: this.#library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DISABLE_SHM: '1',
      NO_FAKE_STAT: '1',
    };
  }
}
