import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { runCli } from '@leasehold/cli';

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
  options: {
    readonly cwd: string;
    readonly env?: Readonly<Record<string, string>>;
    /** A file to write to instead of a pipe. */
    readonly stdout?: number;
    readonly uid?: number;
  },
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
    stdio: ['ignore', options.stdout ?? 'pipe', 'pipe'],
    ...(options.uid !== undefined && { uid: options.uid }),
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

/** Variables of the environment; `undefined`: there is none. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Runs the program in this process: the same but for the start, which is most of the time a command takes. */
export async function runHere(args: readonly string[], env: Environment = {}): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const undo = (['stdout', 'stderr'] as const).map((name) => {
    const write = process[name].write.bind(process[name]);
    process[name].write = (chunk: Uint8Array | string) => {
      written[name] += String(chunk);
      return true;
    };
    return () => void (process[name].write = write);
  });
  const before = { ...process.env };
  setEnvironment(env);
  try {
    return { code: await runCli(args), ...written };
  } finally {
    for (const step of undo) step();
    setEnvironment(Object.fromEntries(Object.keys(env).map((name) => [name, before[name]])));
  }
}

function setEnvironment(env: Environment): void {
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = value;
  }
}
