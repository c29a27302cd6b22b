import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A child process. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  readonly paused: boolean;
  readonly exited: boolean;
  tell(message: object): void;
  /** Stops the process where it is (SIGSTOP), and lets it go on (SIGCONT). */
  pause(): void;
  resume(): void;
  /** SIGKILL. Resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and SIGKILL after `patienceMs`. Resolves when it is gone. */
  end(patienceMs: number): Promise<void>;
}

/** The child processes of one run. */
export interface Fleet {
  readonly children: readonly Child[];
  start(
    entry: 'service-process' | 'worker-process' | 'emulators-process',
    name: string,
    options: object,
    hear: (message: unknown, child: Child) => void,
  ): Child;
  /** Ends whatever still runs, stopped processes included. */
  end(): Promise<void>;
}

const PATIENCE_MS = 3_000;

/** A fleet. Its processes run what this one runs: source from source, built from built. */
export function createFleet(unexpected: (what: string) => void): Fleet {
  const children: Child[] = [];
  const last = (): void => {
    for (const child of children) void child.kill();
  };
  // Whatever ends this process, nothing of it stays behind.
  process.once('exit', last);
  return {
    children,
    start(entry, name, options, hear) {
      const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js';
      const path = fileURLToPath(new URL(`./${entry}.${extension}`, import.meta.url));
      const forked = fork(path, [JSON.stringify(options)], {
        // On Node 22, loading SQLite warns; once per process is too often.
        execArgv: ['--disable-warning=ExperimentalWarning', ...inheritedArguments()],
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
      const child = wrap(forked, name, (how) => unexpected(`${name} ended by itself (${how})`));
      forked.on('message', (message) => hear(message, child));
      children.push(child);
      return child;
    },
    async end() {
      await Promise.all(children.map((child) => child.end(PATIENCE_MS)));
      process.off('exit', last);
    },
  };
}

/** Of this process's own arguments those that say how modules are found; not, say, a debugger's port. */
function inheritedArguments(): string[] {
  const { execArgv } = process;
  const taken = /^(?:-C|--conditions|--experimental-)/;
  return execArgv.filter(
    (argument, index) => taken.test(argument) || ['-C', '--conditions'].includes(execArgv[index - 1] ?? ''),
  );
}

function wrap(forked: ChildProcess, name: string, unexpected: (how: string) => void): Child {
  let paused = false;
  let ended: string | undefined;
  let expected = false;
  // Listened to from the start: a process may be gone before anybody asks.
  const said = new Promise<void>((resolve) => forked.once('disconnect', () => resolve()));
  const gone = new Promise<void>((resolve) => {
    const end = (how: string): void => {
      ended = how;
      if (!expected) unexpected(how);
      resolve();
    };
    // What it said last may still be on its way when it is gone.
    forked.once('exit', (code, signal) => void said.then(() => end(String(signal ?? code))));
    // It did not start.
    forked.on('error', (error) => (forked.pid === undefined ? end(error.message) : undefined));
  });
  const signal = (which: NodeJS.Signals): void => {
    if (forked.exitCode === null && forked.signalCode === null) forked.kill(which);
  };
  const child: Child = {
    name,
    pid: forked.pid ?? 0,
    get paused() {
      return paused;
    },
    get exited() {
      return ended !== undefined;
    },
    tell(message) {
      // One that is gone by then needs no telling.
      if (forked.connected) forked.send(message, () => undefined);
    },
    pause() {
      signal('SIGSTOP');
      paused = true;
    },
    resume() {
      signal('SIGCONT');
      paused = false;
    },
    async kill() {
      expected = true;
      signal('SIGKILL');
      await gone;
    },
    async end(patienceMs) {
      expected = true;
      child.resume();
      signal('SIGTERM');
      const timer = setTimeout(() => signal('SIGKILL'), patienceMs);
      await gone;
      clearTimeout(timer);
    },
  };
  return child;
}
