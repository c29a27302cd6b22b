import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { brokerCases, guardCases, ledgerCases, pairCases } from '@leasehold/contract';
import { elasticmq } from './elasticmq.ts';
import { EXCLUSIONS } from './exclusions.ts';
import { localstack } from './localstack.ts';
import { moto } from './moto.ts';

let cache: string;
beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), 'leasehold-peers-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(cache, { recursive: true });
});

test.each([
  [moto, /^moto cannot be started\. Install Python 3\.10 to 3\.14 .*apt-get install python3 python3-venv/],
  [localstack, /^localstack cannot be started\. Install Python 3\.10 to 3\.13 .*apt-get install python3 python3-venv/],
  [elasticmq, /^elasticmq cannot be started\. Install Java 17 or later and Maven .*apt-get install/],
])('where $0.name cannot be installed, the error says what to install', async (server, says) => {
  vi.stubEnv('PATH', cache);
  await expect(server.install(cache, new AbortController().signal)).rejects.toThrow(says);
});

test('a run without what the servers need fails, and says of each what to install', async () => {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const flags = ['--disable-warning=ExperimentalWarning', '--conditions=@leasehold/source'];
  const ended = spawnSync(process.execPath, [...flags, main], {
    env: { PATH: cache, LEASEHOLD_PEERS_CACHE: join(cache, 'none') },
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(ended.status).toBe(1);
  for (const name of ['moto', 'elasticmq', 'localstack'])
    expect(ended.stderr).toContain(`${name} cannot be started. Install `);
});

test('each server is asked for all it can do: without DynamoDB somewhere there would be no ledger, guard or pair to run', () => {
  expect([moto, elasticmq, localstack].map(({ name, services }) => [name, services])).toEqual([
    ['moto', ['sqs', 'dynamodb']],
    ['elasticmq', ['sqs']],
    ['localstack', ['sqs']],
  ]);
});

test('what is excluded on a server is a case of the contract, by its name', () => {
  const names = [...brokerCases, ...ledgerCases, ...guardCases, ...pairCases].map(({ name }) => name);
  for (const { name } of EXCLUSIONS) expect(names).toContain(name);
});
