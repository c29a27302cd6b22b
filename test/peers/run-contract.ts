import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Peer } from './peer-server.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const VITEST = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');

/** Where `contract.peers.ts` reads which servers there are. */
export const PEERS_VARIABLE = 'LEASEHOLD_PEERS';

/** Runs `contract.peers.ts` on these servers; gives vitest's exit code. */
export function runContract(peers: readonly Peer[], args: readonly string[], signal: AbortSignal): Promise<number> {
  const told = peers.map(({ name, endpoint, services }) => ({ name, endpoint, services }));
  return new Promise((resolve, reject) => {
    const config = join(import.meta.dirname, 'vitest.config.ts');
    const child = spawn(process.execPath, [VITEST, 'run', '--config', config, ...args], {
      cwd: ROOT,
      stdio: 'inherit',
      env: { ...process.env, [PEERS_VARIABLE]: JSON.stringify(told) },
      signal,
      killSignal: 'SIGTERM',
    });
    child.on('error', (error) => {
      // An abort is told as an error at once; the end of the process is what counts.
      if (!signal.aborted) reject(error);
    });
    child.on('exit', (code) => resolve(code ?? 1));
  });
}
