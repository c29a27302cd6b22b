import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Peer, PeerServer } from './peer-server.ts';

const KEEPER = join(import.meta.dirname, 'server-keeper.ts');
/** Against hanging: the slowest of them takes 15 s when the machine is busy. */
const START_MS = 90_000;

/** A server that was started. */
export interface RunningServer extends Peer {
  /** Resolves when its process is gone. */
  stop(): Promise<void>;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

async function answers(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { status } = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(2_000)]) });
    return status === 200;
  } catch {
    // Not yet.
    return false;
  }
}

/** Starts a server that is installed in `folder` on a free port, and waits until it answers. */
export async function startServer(
  server: PeerServer,
  folder: string,
  scratch: string,
  signal: AbortSignal,
): Promise<RunningServer> {
  const port = await freePort();
  const own = join(scratch, server.name);
  await mkdir(own, { recursive: true });
  const { file, args, env } = server.command(folder, port, own);
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', KEEPER, file, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: own,
    env: { ...process.env, ...env },
  });
  let log = '';
  const keep = (chunk: Buffer): void => {
    log = (log + chunk.toString()).slice(-4_000);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  child.stdin.on('error', () => undefined);
  const gone = new Promise<void>((resolve) => {
    child.on('exit', () => resolve());
  });
  const stop = async (): Promise<void> => {
    child.stdin.end();
    await gone;
  };
  const endpoint = `http://127.0.0.1:${port}`;
  const until = performance.now() + START_MS;
  while (!(await answers(endpoint + server.healthPath, signal))) {
    if (child.exitCode !== null || signal.aborted || performance.now() > until) {
      await stop();
      throw new Error(`${server.name} did not come up on port ${port}:\n${log.trim()}`);
    }
    await sleep(100);
  }
  return { name: server.name, services: server.services, endpoint, stop };
}
