import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { existsSync } from 'node:fs';

/** What a finished program left behind. */
export interface Finished {
  readonly ok: boolean;
  readonly stdout: string;
  /** Both streams, for showing to a person. */
  readonly output: string;
}

/** Runs a program to its end, without a shell and without input; throws when it cannot start or takes more than three minutes. */
export function run(program: string, args: readonly string[], cwd: string): Finished {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined, NODE_OPTIONS: undefined },
    maxBuffer: 64 * 1024 * 1024,
    timeout: 180_000,
  });
  if (error) throw error;
  return { ok: status === 0, stdout, output: `${stdout}${stderr}`.trim() };
}

const oldest = [22, 18] as const;

/** The Node versions at hand that the packages support: the one running this, and others on the PATH. */
export function supportedNodes(cwd: string): { readonly version: string; readonly program: string }[] {
  const found = new Map<string, string>([[process.version, process.execPath]]);
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const program = join(folder, 'node');
    if (!existsSync(program)) continue;
    const version = run(program, ['--version'], cwd).stdout.trim();
    const [major = 0, minor = 0] = version.slice(1).split('.').map(Number);
    const supported = major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
    if (supported && !found.has(version)) found.set(version, program);
  }
  return [...found].map(([version, program]) => ({ version, program }));
}
