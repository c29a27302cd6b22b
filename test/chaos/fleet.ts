import { execFileSync, fork, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { forgetFakeTime } from './fake-time.ts';
import type { Linger, Moment } from './said.ts';

/** A child process. */
export interface Child {
  /** Its place and which process of that place it is, such as `worker-2.3`. */
  readonly who: string;
  readonly pid: number;
  /** How it ended; `undefined` while it runs. */
  readonly ended: string | undefined;
  /** Resolves when it has started, or is gone. */
  readonly ready: Promise<void>;
  tell(message: Linger): void;
  /** SIGSTOP; resolves when it stands still. */
  stop(): Promise<void>;
  go(): void;
  /** SIGKILL. Resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM. True when it was gone within `patienceMs` by itself; otherwise it is killed. */
  end(patienceMs: number): Promise<boolean>;
}

/** How a child is started. */
export interface ChildOptions {
  readonly entry: 'worker-process' | 'receiver-process' | 'producer-process' | 'servers-process';
  readonly who: string;
  /** Plain JSON: what the process finds in its first argument. */
  readonly options: object;
  readonly env?: Readonly<Record<string, string>>;
  readonly heard?: (moment: Moment) => void;
  /** It ends when its work is done. */
  readonly finishes?: boolean;
}

/** Of Debian's util-linux. */
const SETPRIV = 'setpriv';

/** The processes of one run. */
export class Fleet {
  readonly #directory: string;
  readonly #endedByItself: (who: string, how: string) => void;
  readonly #children = new Set<Child>();
  #isOver = false;
  readonly #last = (): void => {
    for (const child of this.#children) void child.kill();
  };

  /** What the processes write to stderr goes to files in `directory`. */
  constructor(directory: string, endedByItself: (who: string, how: string) => void) {
    this.#directory = directory;
    this.#endedByItself = endedByItself;
    process.once('exit', this.#last);
  }

  start({ entry, who, options, env = {}, heard, finishes = false }: ChildOptions): Child {
    if (this.#isOver) throw new Error(`the run is over, and ${who} was about to start.`);
    const errors = openSync(join(this.#directory, `${who}.stderr`), 'a');
    const node = ['--disable-warning=ExperimentalWarning', '--conditions=@leasehold/source'];
    // The kernel kills it when this process is gone, however that came about, and even if it is stopped just then.
    const forked = fork(fileURLToPath(new URL(`./${entry}.ts`, import.meta.url)), [JSON.stringify(options)], {
      execPath: SETPRIV,
      execArgv: ['--pdeathsig', 'KILL', process.execPath, ...node],
      env: { ...process.env, ...env },
      // A group of its own: Ctrl-C at the terminal is for the parent alone.
      detached: true,
      stdio: ['ignore', 'ignore', errors, 'ipc'],
    });
    closeSync(errors);
    if (heard) forked.on('message', (message) => heard(message as Moment));
    const child = wrap(forked, who, (how) => {
      if (!finishes || how !== '0') this.#endedByItself(who, `${how}${this.#lastWords(who)}`);
    });
    this.#children.add(child);
    return child;
  }

  /** Kills whatever still runs, stopped processes included. */
  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all([...this.#children].map((child) => child.kill()));
    process.off('exit', this.#last);
  }

  #lastWords(who: string): string {
    const text = readFileSync(join(this.#directory, `${who}.stderr`), 'utf8').trim();
    return text === '' ? '' : `: ${text.slice(-600)}`;
  }
}

function wrap(forked: ChildProcess, who: string, byItself: (how: string) => void): Child {
  let ended: string | undefined;
  let expected = false;
  const gone = new Promise<void>((resolve) => {
    const end = (how: string): void => {
      if (ended !== undefined) return;
      ended = how;
      forgetFakeTime(forked.pid ?? 0);
      if (!expected) byItself(how);
      resolve();
    };
    forked.once('exit', (code, signal) => end(String(signal ?? code)));
    forked.on('error', (error) => (forked.pid === undefined ? end(error.message) : undefined));
  });
  const ready = new Promise<void>((resolve) => {
    forked.on('message', (message) => ((message as Moment).kind === 'ready' ? resolve() : undefined));
    void gone.then(resolve);
  });
  const signal = (which: NodeJS.Signals): void => {
    if (forked.exitCode === null && forked.signalCode === null) forked.kill(which);
  };
  const child: Child = {
    who,
    pid: forked.pid ?? 0,
    get ended() {
      return ended;
    },
    ready,
    tell(message) {
      // One that is gone by then needs no telling.
      if (forked.connected) forked.send(message, () => undefined);
    },
    async stop() {
      signal('SIGSTOP');
      for (let looks = 0; looks < 200 && child.ended === undefined && !isStopped(forked.pid ?? 0); looks++)
        await pause(5);
    },
    go: () => signal('SIGCONT'),
    async kill() {
      expected = true;
      signal('SIGKILL');
      await gone;
    },
    async end(patienceMs) {
      expected = true;
      signal('SIGCONT');
      // Before that it would not hear the signal, only die of it.
      await ready;
      signal('SIGTERM');
      let patient = true;
      const timer = setTimeout(() => {
        patient = false;
        signal('SIGKILL');
      }, patienceMs);
      await gone;
      clearTimeout(timer);
      return patient && ended === '0';
    },
  };
  return child;
}

/** Throws, with what to do, on a machine on which nothing would end the children of a parent that was killed. */
export function checkFleet(): void {
  try {
    execFileSync(SETPRIV, ['--version'], { stdio: 'ignore' });
  } catch (cause) {
    throw new Error(
      'chaos runs on Linux with setpriv, which ties the processes to their parent: install the package util-linux.',
      { cause },
    );
  }
}

function isStopped(pid: number): boolean {
  try {
    // The state comes after the program's name, which is in parentheses and may hold anything.
    return /\) T [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    // It is gone.
    return false;
  }
}
