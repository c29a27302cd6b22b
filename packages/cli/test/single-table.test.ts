import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createLeaseBroker, leaseTiming } from '@leasehold/core';
import { dynamoDbLedger } from '@leasehold/dynamodb';
import { startDynamoDb, startSqs, type Emulator, type SqsEmulator } from '@leasehold/emulators';
import { sqsBroker } from '@leasehold/sqs';
import { runHere, type Ended } from './command-line.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

// As in the README of the driver: "In an existing single-table design".
const DESIGN = {
  table: 'app',
  keys: { partition: 'PK', sort: 'SK' },
  index: { name: 'GSI1', partition: 'GSI1PK', sort: 'GSI1SK' },
};
const KEYS = ['--partition-key', 'PK', '--sort-key', 'SK'];
const INDEX = ['--index', 'GSI1', '--index-partition', 'GSI1PK', '--index-sort', 'GSI1SK'];

let sqs: SqsEmulator;
let dynamodb: Emulator;
let make: readonly string[];
beforeAll(async () => {
  [sqs, dynamodb] = await Promise.all([startSqs(), startDynamoDb()]);
  make = ['aws', 'create-table', '--table', 'app', '--endpoint', dynamodb.endpoint, ...KEYS];
  expect(await leasehold([...make, ...INDEX])).toMatchObject({ code: 0, stderr: '' });
});
afterAll(() => Promise.all([sqs.close(), dynamodb.close()]));

function leasehold(args: readonly string[]): Promise<Ended> {
  const { accessKeyId, secretAccessKey } = sqs.credentials;
  const env = { AWS_REGION: sqs.region, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
  return runHere(args, env);
}

function ledgerWith(more: string): string {
  return `dynamodb:app?endpoint=${dynamodb.endpoint}&partition-key=PK&sort-key=SK${more}`;
}

test('a task that the command changes in a single-table design is found by the index of its workers', async () => {
  const { url } = await sqs.createQueue('app');
  const { region, credentials } = sqs;
  const ledger = dynamoDbLedger({ ...DESIGN, region, credentials, endpoint: dynamodb.endpoint });
  const driver = sqsBroker({ queueUrl: url, region, credentials, endpoint: sqs.endpoint });
  const broker = createLeaseBroker({ driver, ledger });
  const policy = () => ({ timing: leaseTiming('10m'), attempts: 5, retentionMs: broker.retentionMs });
  await broker.enqueue([{ type: 'charge', input: {}, taskId: 't-human' }]);
  const [lease] = await broker.acquire({ owner: 'desk/1#a', policy, max: 1, leaseMs: 600_000, waitMs: 2_000 });
  if (lease?.kind !== 'lease') throw new Error(`no lease but ${lease?.kind}`);
  await broker.askHuman(lease, 'Charge 700 EUR?');
  const stores = ['--ledger', ledgerWith('&index=GSI1&index-partition=GSI1PK&index-sort=GSI1SK')];
  const approved = await leasehold(['approve', 't-human', ...stores, '--queue', `sqs:${url}?endpoint=${sqs.endpoint}`]);
  expect(approved).toMatchObject({ code: 0, stderr: '' });
  const { records } = await ledger.list({ states: ['queued'], limit: 10 }, new AbortController().signal);
  expect(records.map(({ taskId }) => taskId)).toEqual(['t-human']);
  const listed = await leasehold(['list', '--state', 'queued', '--json', ...stores]);
  expect(listed).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('t-human') as string });
  await broker.close();
});

test('an index that is called otherwise, or has other keys, is named as it has to be written, and nobody is told to do without', async () => {
  const other = ['--index', 'GSI1'];
  for (const [said, write] of [
    [
      await leasehold(['list', '--ledger', ledgerWith('&index=GSI1')]),
      '&index=GSI1&index-partition=GSI1PK&index-sort=GSI1SK',
    ],
    [await leasehold([...make, ...other]), INDEX.join(' ')],
  ] as const) {
    expect(said).toMatchObject({ code: 2, stdout: '' });
    expect(said.stderr).toContain(`but lane + lane_at was given; write ${write}.`);
    expect(said.stderr).not.toMatch(/none|no-index/);
  }
  for (const [said, name, none] of [
    [await leasehold(['list', '--ledger', ledgerWith('')]), '&index=NAME', '&index=none'],
    [await leasehold(make), '--index NAME', '--no-index'],
  ] as const) {
    expect(said).toMatchObject({ code: 2, stdout: '' });
    expect(said.stderr).toContain(`has no index leasehold-open; name the one that the workers name with ${name}`);
    expect(said.stderr).toContain(`${none} is for tables where no worker names one`);
  }
  const keysOfNone = await leasehold(['list', '--ledger', ledgerWith('&index=none&index-sort=GSI1SK')]);
  expect(keysOfNone).toMatchObject({ code: 2, stdout: '' });
  expect(keysOfNone.stderr).toContain('leave out index-partition and index-sort');
});

test('the index is in the table as text and in the policy', async () => {
  const text = await leasehold(['aws', 'table', '--format', 'cloudformation', ...KEYS, ...INDEX]);
  for (const name of ['PK', 'SK', 'GSI1PK', 'GSI1SK']) expect(text.stdout).toContain(`AttributeName: '${name}'`);
  expect(text.stdout).toContain("IndexName: 'GSI1'");
  const policy = await leasehold(['aws', 'policy', '--role', 'operator', ...INDEX]);
  expect(policy.stdout).toContain('/index/GSI1"');
});
