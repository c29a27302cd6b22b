import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Ended } from '../command-line.ts';

/** Runs several command lines, one after another in one process: most of what a short one takes is starting the process. */
export async function runAll(lines: readonly (readonly string[])[], cwd: string): Promise<readonly Ended[]> {
  const program = fileURLToPath(new URL('./command-lines.ts', import.meta.url));
  const args = [
    '--conditions=@leasehold/source',
    '--disable-warning=ExperimentalWarning',
    program,
    JSON.stringify(lines),
  ];
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...process.env, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  await once(child, 'close');
  return JSON.parse(out) as readonly Ended[];
}
