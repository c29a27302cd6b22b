import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A process of its own that runs a script from source. */
export interface Child {
  readonly process: ChildProcess;
  /** Resolves when the process has written this line. */
  said(line: string): Promise<void>;
  /** Resolves with the exit code, or the signal's name. */
  readonly ended: Promise<number | string | null>;
}

/** Starts `script` with `args`. Its errors go to ours. */
export function startChild(script: URL, ...args: readonly string[]): Child {
  const options = ['--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning'];
  const child = spawn(process.execPath, [...options, fileURLToPath(script), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  // It may be gone already when its input is closed.
  child.stdin.on('error', () => undefined);
  const lines = new Set<string>();
  const waiting = new Map<string, () => void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.add(line);
    waiting.get(line)?.();
  });
  const ended = new Promise<number | string | null>((resolve) => {
    child.on('exit', (code, signal) => resolve(signal ?? code));
  });
  return {
    process: child,
    ended,
    said(line) {
      if (lines.has(line)) return Promise.resolve();
      return new Promise((resolve, reject) => {
        waiting.set(line, resolve);
        void ended.then((how) => reject(new Error(`${script.pathname} ended (${how}) before it said "${line}"`)));
      });
    },
  };
}
