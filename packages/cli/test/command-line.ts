import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** How a run of the program ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const MAIN = join(import.meta.dirname, '..', 'src', 'main.ts');

/** Starts the real program. */
export function start(
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): ReturnType<typeof spawn> {
  const {
    LEASEHOLD_DB: _db,
    LEASEHOLD_LEDGER: _ledger,
    LEASEHOLD_QUEUE: _queue,
    NODE_OPTIONS: _node,
    ...env
  } = process.env;
  const nodeArgs = ['--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning', MAIN, ...args];
  return spawn(process.execPath, nodeArgs, {
    cwd: options.cwd,
    env: { ...env, NO_COLOR: '1', ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs the real program to its end. */
export async function run(args: readonly string[], options: Parameters<typeof start>[1]): Promise<Ended> {
  const child = start(args, options);
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk) => (stdout += String(chunk)));
  child.stderr?.on('data', (chunk) => (stderr += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}
