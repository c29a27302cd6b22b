import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { ListQueuesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { kinds, startDynamoDb, startSqs, type Emulator, type SqsEmulator } from '@leasehold/emulators';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { prepareAws } from '../src/aws-ground.ts';
import type { Ground } from '../src/place.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), 'leasehold-ground-'));
let sqs: SqsEmulator;
let dynamodb: Emulator;
let sqsClient: SQSClient;
let dynamodbClient: DynamoDBClient;
let left: string[];

beforeAll(async () => {
  [sqs, dynamodb] = await Promise.all([startSqs(), startDynamoDb()]);
  const { region, credentials } = sqs;
  // Servers that are not embedded are reached by what the SDK finds.
  vi.stubEnv('AWS_ACCESS_KEY_ID', credentials.accessKeyId);
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', credentials.secretAccessKey);
  sqsClient = new SQSClient({ region, credentials, endpoint: sqs.faults.target });
  dynamodbClient = new DynamoDBClient({ region, credentials, endpoint: dynamodb.faults.target });
});
beforeEach(() => {
  left = [];
  sqs.faults.reset();
  dynamodb.faults.reset();
});
afterAll(async () => {
  vi.unstubAllEnvs();
  sqsClient.destroy();
  dynamodbClient.destroy();
  await Promise.all([sqs.close(), dynamodb.close()]);
  rmSync(folder, { recursive: true, force: true });
});

function prepare(stopping: AbortController = new AbortController()): Promise<Ground> {
  return prepareAws({
    folder,
    stopping,
    endpoints: { sqs: sqs.endpoint, dynamodb: dynamodb.endpoint },
    region: sqs.region,
    note: () => undefined,
    leftBehind: (what) => void left.push(what),
  });
}

/** The names of everything at the servers, each without what is made up for one run. */
async function there(): Promise<readonly string[]> {
  const { QueueUrls = [] } = await sqsClient.send(new ListQueuesCommand({}));
  const { TableNames = [] } = await dynamodbClient.send(new ListTablesCommand({}));
  return [...QueueUrls, ...TableNames].map((name) => name.replace(/^.*\//, '').replace(/[0-9a-f]{8}/, '*')).toSorted();
}

async function close({ stores, remove }: Ground): Promise<void> {
  await Promise.all([stores.driver.close(), stores.ledger.close()]);
  await remove();
}

test('queue, dead-letter queue and table are made for one run, seen as they are, and removed', async () => {
  const ground = await prepare();
  expect(await there()).toEqual(['leasehold-demo-*', 'leasehold-demo-*', 'leasehold-demo-*-dead']);
  const never = new AbortController().signal;
  await ground.stores.driver.send([{ body: new TextEncoder().encode('{'), attributes: {} }], never);
  expect(await ground.look(never)).toEqual({ waiting: 1, held: 0, deadLetters: [] });
  const [held] = await ground.stores.driver.receive({ max: 1, leaseMs: 30_000, waitMs: 1_000 }, never);
  expect(await ground.look(never)).toEqual({ waiting: 0, held: 1, deadLetters: [] });
  await ground.stores.driver.reject(held?.handle, { reason: 'undecodable', description: '', attributes: {} }, never);
  const sight = await ground.look(never);
  expect(sight).toMatchObject({ waiting: 0, held: 0, deadLetters: [{ reason: 'undecodable' }] });
  const reads = sqs.faults.calls('ReceiveMessage');
  expect(await ground.look(never)).toEqual(sight);
  // Looked at again only when there are more: each look is a receive.
  expect(sqs.faults.calls('ReceiveMessage')).toBe(reads);
  await close(ground);
  expect(await there()).toEqual([]);
  expect(left).toEqual([]);
});

test('what was made before a failure, or by a call whose answer was lost, is removed too', async () => {
  const lost = dynamodb.faults.on('CreateTable', kinds.dropAnswer(), { times: 9 });
  await expect(prepare()).rejects.toMatchObject({ code: 'unavailable' });
  expect(lost.hits).toBeGreaterThan(0);
  expect(await there()).toEqual([]);
  expect(left).toEqual([]);
});

test('a run that is stopped while its servers are asked removes what is there by then', async () => {
  const stopping = new AbortController();
  dynamodb.faults.on('CreateTable', kinds.hang());
  const preparing = prepare(stopping);
  await vi.waitFor(() => expect(dynamodb.faults.calls('CreateTable')).toBe(1), { timeout: 30_000 });
  stopping.abort(new Error('interrupted'));
  await expect(preparing).rejects.toMatchObject({ code: 'unavailable' });
  expect(await there()).toEqual([]);
});

test('what cannot be removed is named', async () => {
  const ground = await prepare();
  const denied = dynamodb.faults.on('DeleteTable', kinds.failBefore('denied'), { times: 9 });
  await close(ground);
  expect(left).toEqual([expect.stringMatching(/^table leasehold-demo-[0-9a-f]{8} \(.*AccessDenied/)]);
  denied.cancel();
  expect(await there()).toEqual(['leasehold-demo-*']);
});
