import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

test('what is excluded on a server is a case of the contract, by its name', () => {
  const names = [...brokerCases, ...ledgerCases, ...guardCases, ...pairCases].map(({ name }) => name);
  for (const { name } of EXCLUSIONS) expect(names).toContain(name);
});
