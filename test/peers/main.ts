/**
 * `npm run test:peers`: the contract, in real time, against servers that others wrote.
 * They are kept in node_modules/.cache/peers, or where LEASEHOLD_PEERS_CACHE says. `-- --only moto,elasticmq` starts some of them; everything else goes to vitest (`-- -t "field case 44"`).
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { elasticmq } from './elasticmq.ts';
import { localstack } from './localstack.ts';
import { moto } from './moto.ts';
import type { PeerServer } from './peer-server.ts';
import { runContract } from './run-contract.ts';
import { runUntilStopped } from './run-until-stopped.ts';
import { startServer, type RunningServer } from './running-server.ts';

const SERVERS: readonly PeerServer[] = [moto, elasticmq, localstack];
const CACHE =
  process.env['LEASEHOLD_PEERS_CACHE'] ?? join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'peers');

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Splits off the one option that is ours. */
function options(given: readonly string[]): { servers: readonly PeerServer[]; rest: readonly string[] } {
  const { values, tokens } = parseArgs({
    args: [...given],
    options: { only: { type: 'string' } },
    strict: false,
    tokens: true,
  });
  const mine = new Set<number>();
  for (const token of tokens) {
    if (token.kind !== 'option' || token.name !== 'only') continue;
    mine.add(token.index);
    if (token.inlineValue === false) mine.add(token.index + 1);
  }
  const rest = given.filter((_, index) => !mine.has(index));
  if (typeof values['only'] !== 'string') return { servers: SERVERS, rest };
  const names = values['only'].split(',');
  const known = SERVERS.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`--only: there is no ${unknown}; choose from ${known.join(', ')}`);
  return { servers: SERVERS.filter(({ name }) => names.includes(name)), rest };
}

/** All of them, or an error that says of every one that is missing what to install. */
async function all<T>(parts: readonly Promise<T>[]): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(parts);
  const reasons = outcomes.flatMap((one) => (one.status === 'rejected' ? [messageOf(one.reason)] : []));
  if (reasons.length > 0) throw new Error(reasons.join('\n'));
  return outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
}

async function main(signal: AbortSignal): Promise<number> {
  const { servers, rest } = options(process.argv.slice(2));
  const began = performance.now();
  const seconds = (): string => `${((performance.now() - began) / 1_000).toFixed(0)} s`;
  const scratch = await mkdtemp(join(tmpdir(), 'leasehold-peers-'));
  const running: RunningServer[] = [];
  try {
    say(`installing ${servers.map(({ name }) => name).join(', ')} into ${CACHE}, unless they are there`);
    const folders = await all(servers.map((server) => server.install(CACHE, signal)));
    say(`${seconds()}: installed`);
    await all(
      servers.map(async (server, index) => {
        running.push(await startServer(server, folders[index] as string, scratch, signal));
      }),
    );
    for (const { name, endpoint } of running) say(`${seconds()}: ${name} at ${endpoint}`);
    return await runContract(running, rest, signal);
  } finally {
    await Promise.all(running.map((server) => server.stop()));
    await rm(scratch, { recursive: true, force: true });
  }
}

runUntilStopped(main);
