import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createLeaseBroker, createTaskClient, leaseTiming, type AdoptOptions, type Lease } from '@leasehold/core';
import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { kinds, startDynamoDb, startSqs, type Emulator, type SqsEmulator } from '@leasehold/emulators';
import { sqsBroker } from '@leasehold/sqs';
import { loadAdapter } from '../src/stores/adapter.ts';
import { run, runHere, type Ended, type Environment } from './command-line.ts';

// Each call is a process of its own, on a machine that may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const folder = mkdtempSync(join(tmpdir(), 'leasehold-aws-'));
let sqs: SqsEmulator;
let dynamodb: Emulator;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  [sqs, dynamodb] = await Promise.all([startSqs(), startDynamoDb()]);
  const { accessKeyId, secretAccessKey } = sqs.credentials;
  const { endpoint, region, credentials } = dynamodb;
  await createTable({ table: 'tasks', endpoint, region, credentials });
  env = { AWS_REGION: sqs.region, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
});
afterAll(async () => {
  await Promise.all([sqs.close(), dynamodb.close()]);
  rmSync(folder, { recursive: true, force: true });
});

const leasehold = (args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  run(args, { cwd: folder, env: { ...env, ...more } });
/** Without the start of a process. */
const here = (args: readonly string[], more: Environment = {}): Promise<Ended> => runHere(args, { ...env, ...more });
const json = (ended: Ended): unknown => {
  expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(ended.stdout);
};
const KMS_NOTE =
  'note: a queue that is encrypted with a KMS key of yours also needs kms:Decrypt and kms:GenerateDataKey on that key\n';
const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/tickets';

/** A queue with a dead-letter queue, and what workers left there. */
async function workplace(
  table: string,
): Promise<{ readonly LEASEHOLD_LEDGER: string; readonly LEASEHOLD_QUEUE: string }> {
  const dead = await sqs.createQueue(`${table}-dead`);
  const { url } = await sqs.createQueue(table, { deadLetter: { queueUrl: dead.url, maxReceiveCount: 50 } });
  const { region, credentials } = sqs;
  const ledger = dynamoDbLedger({ table, region, credentials, endpoint: dynamodb.endpoint });
  const broker = createLeaseBroker({
    driver: sqsBroker({ queueUrl: url, region, credentials, endpoint: sqs.endpoint }),
    ledger,
  });
  const policy: AdoptOptions['policy'] = () => ({
    timing: leaseTiming('10m'),
    attempts: 5,
    retentionMs: broker.retentionMs,
  });
  const claim = async (taskId: string): Promise<Lease> => {
    await broker.enqueue([{ type: 'charge', input: { amount: 7 }, taskId }]);
    const [got] = await broker.acquire({ owner: 'desk/1#a', policy, max: 1, leaseMs: 600_000, waitMs: 2_000 });
    if (got?.kind !== 'lease') throw new Error(`no lease but ${got?.kind}`);
    return got;
  };
  await claim('t-held');
  await broker.askHuman(await claim('t-human'), 'Charge 700 EUR?');
  await broker.deadLetter(await claim('t-dead'), { errorClass: 'permanent', code: 'x', message: 'no' });
  const kept = await claim('t-done');
  await broker.renew(kept, { stage: 'external_call', reason: 'asking' });
  await broker.drain();
  const { taskId, token, message } = kept;
  const said = { externalSystem: 'none', externalId: 'x', status: 'done', verifiedAt: 1 };
  const receipt = { taskId, token, stage: 'settled', idempotencyKey: message.idempotencyKey, ...said } as const;
  expect(await broker.settle(kept, { receipt })).toBe('settled');
  await createTaskClient({ broker, ledger }).enqueue([{ type: 'charge', input: {}, taskId: 't-unclaimed' }]);
  await broker.close();
  return {
    LEASEHOLD_LEDGER: `dynamodb:${table}?endpoint=${dynamodb.endpoint}`,
    LEASEHOLD_QUEUE: `sqs:${url}?endpoint=${sqs.endpoint}`,
  };
}

/** What a policy allows, as it names the calls, and of which queue. */
async function allowed(role: string): Promise<readonly string[]> {
  const queues = ['--queue', QUEUE, '--dead-letter-queue', `${QUEUE}-dead`];
  const printed = await here(['aws', 'policy', '--role', role, ...queues]);
  const { Statement } = JSON.parse(printed.stdout) as {
    Statement: { Action: string[]; Resource: string | string[] }[];
  };
  const all = Statement.flatMap(({ Action, Resource }) =>
    Action.map((call) => (call.startsWith('sqs:') ? `${call} ${queueNamed(String(Resource))}` : call)),
  );
  return [...new Set(all)].toSorted();
}

function queueNamed(name: string): string {
  return name.endsWith('-dead') ? 'dead' : 'queue';
}

/** The calls that were made while `work` went on, as a policy names them: a batch goes by the name of the single call. */
async function calls(work: () => Promise<void>): Promise<readonly string[]> {
  const logs = [
    ['sqs', sqs.faults.log, sqs.faults.log.length] as const,
    ['dynamodb', dynamodb.faults.log, dynamodb.faults.log.length] as const,
  ];
  await work();
  const made = logs.flatMap(([service, log, before]) =>
    log.slice(before).map(({ operation, request }) => {
      const call = `${service}:${operation.replace(/Batch$/, '')}`;
      return service === 'sqs' ? `${call} ${queueNamed(String(request.json['QueueUrl']))}` : call;
    }),
  );
  return [...new Set(made)].toSorted();
}

test('a table is made by what a deployer may do, and one that is there is checked', async () => {
  const make = ['aws', 'create-table', '--table', 'made', '--endpoint', dynamodb.endpoint];
  const made = await calls(async () => {
    expect(json(await leasehold([...make, '--json']))).toMatchObject({ table: 'made', created: true });
  });
  const policy = await allowed('deployer');
  expect(made.filter((call) => !policy.includes(call))).toEqual([]);
  expect((await here(make)).stdout).toMatch(/^table made was there already, and fits; TTL: /);
  const other = await here([...make, '--partition-key', 'id']);
  expect(other).toMatchObject({ code: 2, stdout: '' });
  expect(other.stderr).toContain('has the key pk, but id was given; write --partition-key pk, and no sort key.');
  expect(
    json(await here([...make.with(3, 'keyed'), '--json', '--partition-key', 'id', '--sort-key', 'sk'])),
  ).toBeDefined();
  const list = (more: string): Promise<Ended> =>
    here(['list', '--ledger', `dynamodb:keyed?endpoint=${dynamodb.endpoint}${more}`]);
  const keys = await list('');
  expect(keys).toMatchObject({ code: 2, stdout: '' });
  expect(keys.stderr).toContain('has the key id + sk, but pk was given; write &partition-key=id&sort-key=sk.');
  expect(await list('&partition-key=id&sort-key=sk')).toMatchObject({ code: 0, stdout: 'no task was claimed yet\n' });
});

test('a producer enqueues and looks, with what its policy allows and no more', async () => {
  const { url } = await sqs.createQueue('produced');
  const place = { region: sqs.region, credentials: sqs.credentials };
  const made = await calls(async () => {
    const ledger = dynamoDbLedger({ table: 'tasks', ...place, endpoint: dynamodb.endpoint });
    const driver = sqsBroker({ queueUrl: url, ...place, endpoint: sqs.endpoint });
    const broker = createLeaseBroker({ driver, ledger });
    const client = createTaskClient({ broker, ledger });
    expect(await client.enqueue([{ type: 'charge', input: {}, taskId: 't-new' }])).toMatchObject([{ ok: true }]);
    expect(await client.status('t-new')).toMatchObject({ taskId: 't-new' });
    await broker.close();
  });
  expect(made).toEqual(await allowed('producer'));
});

test('operators look at tasks on DynamoDB and SQS, answer, sweep, redrive and cancel, with what their policy allows and no more', async () => {
  let stores = { LEASEHOLD_LEDGER: '', LEASEHOLD_QUEUE: '' };
  const worker = await allowed('worker');
  const byWorkers = await calls(async () => void (stores = await workplace('tasks')));
  expect(byWorkers).toEqual(worker);
  const byOperators = await calls(async () => {
    const listed = await leasehold(['list', '--limit', '2'], stores);
    expect({ code: listed.code, stderr: listed.stderr }).toEqual({ code: 0, stderr: '' });
    expect(listed.stdout).toContain('there are more than 2');
    expect(listed.stdout).toMatch(/\nqueue sqs:\S+: 1 waiting, 1 held, 1 dead letter\n$/);
    const inspected = await here(['inspect', 't-hel', '--json'], stores);
    expect(json(inspected)).toMatchObject({ task_id: 't-held', state: 'running', lease_owner: 'desk/1#a' });
    expect(json(await here(['approve', 't-human', '--json'], stores))).toMatchObject({ done: true, sent: true });
    expect(json(await here(['sweep', '--json'], stores))).toMatchObject({ deadLetters: 1, unrecorded: 0 });
    const redriven = await leasehold(['redrive', '--all', '--json'], stores);
    expect(json(redriven)).toEqual({ reopened: ['t-dead'], moved: 1 });
    expect(await here(['cancel', 't-held'], stores)).toMatchObject({ code: 0, stdout: 't-held is cancelled\n' });
    // Named on the command line, too.
    const watched = await here(['watch', 't-held', '--json', '--ledger', stores.LEASEHOLD_LEDGER]);
    expect(watched.code).toBe(1);
    expect(JSON.parse(watched.stdout)).toMatchObject({ taskId: 't-held', state: 'cancelled' });
  });
  expect(byOperators).toEqual(await allowed('operator'));
});

test.each([
  ['sqs.eu-central-1.amazonaws.com', 'arn:aws:', 'eu-central-1'],
  ['sqs-fips.us-gov-west-1.amazonaws.com', 'arn:aws-us-gov:', 'us-gov-west-1'],
  ['sqs.cn-north-1.amazonaws.com.cn', 'arn:aws-cn:', 'cn-north-1'],
  ['sqs.eusc-de-east-1.amazonaws.eu', 'arn:aws-eusc:', 'eusc-de-east-1'],
])('a queue at %s is in the partition of its domain', async (host, partition, region) => {
  const url = `https://${host}/123456789012/tickets`;
  const { code, stdout } = await here(['aws', 'policy', '--role', 'producer', '--queue', url]);
  expect(code).toBe(0);
  const { Statement } = JSON.parse(stdout) as { Statement: readonly { Resource: string }[] };
  expect(Statement.map(({ Resource }) => Resource)).toContain(`${partition}sqs:${region}:123456789012:tickets`);
});

test('a policy names table and queues where they are, and the table as text is the one that is made', async () => {
  const queues = ['--queue', QUEUE, '--dead-letter-queue', `${QUEUE}-dead`];
  const printed = await here(['aws', 'policy', '--role', 'worker', '--table', 'tasks', '--prefix', 'desk/', ...queues]);
  expect(printed).toMatchObject({ code: 0, stderr: KMS_NOTE });
  const policy = JSON.parse(printed.stdout) as {
    Statement: { Resource: string; Action: string[]; Condition?: unknown }[];
  };
  expect(policy.Statement.map(({ Resource }) => Resource)).toEqual([
    'arn:aws:dynamodb:eu-central-1:123456789012:table/tasks',
    'arn:aws:dynamodb:eu-central-1:123456789012:table/tasks',
    'arn:aws:sqs:eu-central-1:123456789012:tickets',
    'arn:aws:sqs:eu-central-1:123456789012:tickets-dead',
  ]);
  expect(JSON.stringify(policy.Statement[0]?.Condition)).toContain('desk/task#*');
  const alone = await here(['aws', 'policy', '--role', 'worker']);
  expect(alone.stderr).toBe('note: about the table alone; give --queue for what is needed of SQS\n');
  const guard = await here(['aws', 'policy', '--role', 'guard', ...queues]);
  expect(guard.stderr).toBe('note: the role guard needs no queue\n');
  const text = (...more: string[]): Promise<Ended> =>
    here(['aws', 'table', '--table', 'tasks', '--sort-key', 'sk', '--no-ttl', ...more]);
  const stack = await text('--format', 'cloudformation', '--index', 'open');
  expect(stack.stdout).toContain("IndexName: 'open'");
  expect(stack.stdout).not.toContain('TimeToLive');
  const resource = await text('--format', 'terraform', '--no-index');
  expect(resource.stdout).toMatch(/range_key += "sk"/);
  expect(resource.stdout).not.toContain('global_secondary_index');
});

const NOWHERE = 'http://127.0.0.1:1';

test.each<[what: string, args: string[], code: number, says: RegExp]>([
  [
    'a ledger of no kind',
    ['list', '--ledger', 'tasks.sqlite'],
    2,
    /--ledger tasks\.sqlite names no kind of store: write sqlite:FILE or dynamodb:TABLE/,
  ],
  ['a kind there is not', ['list', '--ledger', 'postgres:tasks'], 2, /write sqlite:FILE or dynamodb:TABLE/],
  ['an address without a place', ['list', '--ledger', 'dynamodb:?region=x'], 2, /names no place: write dynamodb:TABLE/],
  [
    'an option there is not',
    ['list', '--ledger', 'dynamodb:tasks?zone=a'],
    2,
    /zone is not an option with a value; there are region, endpoint/,
  ],
  [
    'a file that is not there',
    ['list', '--ledger', 'sqlite:nowhere.sqlite'],
    2,
    /--ledger sqlite:nowhere\.sqlite does not exist/,
  ],
  ['two ledgers', ['list', '--db', 'a', '--ledger', 'sqlite:a'], 2, /--db and --ledger both name the ledger: give one/],
  [
    'a table name that cannot be',
    ['list', '--ledger', 'dynamodb:a b'],
    2,
    /--ledger dynamodb:a b: table is "a b": write the name of a table/,
  ],
  [
    'a queue that is missing',
    ['sweep', '--ledger', `dynamodb:tasks?endpoint=${NOWHERE}`],
    2,
    /--queue is missing, and --ledger dynamodb:tasks\S+ has none of its own: write sqlite:FILE\?queue=NAME or sqs:QUEUE_URL/,
  ],
  [
    'the name of a queue beside a table',
    ['sweep', '--ledger', 'dynamodb:tasks', '--queue', 'tickets'],
    2,
    /--queue tickets is the name of a queue in an SQLite file/,
  ],
  [
    'a queue URL without its kind',
    ['sweep', '--ledger', 'dynamodb:tasks', '--queue', QUEUE],
    2,
    /names no kind of store: write sqlite:FILE\?queue=NAME or sqs:QUEUE_URL/,
  ],
  [
    'a queue that is no URL',
    ['sweep', '--ledger', 'dynamodb:tasks', '--queue', 'sqs:tickets'],
    2,
    /--queue sqs:tickets: queueUrl is "tickets": write a URL/,
  ],
  [
    'a server that is not there',
    ['inspect', 'x', '--ledger', `dynamodb:tasks?endpoint=${NOWHERE}`],
    1,
    /ledger did not answer.* --ledger dynamodb:tasks\S+ does not answer \(\w*Error\): check its endpoint/,
  ],
  [
    'a table for nobody',
    ['aws', 'create-table', '--table', 'tasks', '--endpoint', NOWHERE],
    1,
    /table tasks could not be made: ECONNREFUSED.*; check --endpoint/,
  ],
  [
    'a policy for a queue by its name',
    ['aws', 'policy', '--role', 'worker', '--queue', 'tickets'],
    2,
    /--queue tickets is not a queue: write its URL/,
  ],
])('%s: says what is wrong and what to do', async (_what, args, code, says) => {
  const ended = await here(args);
  expect(ended.stderr).toMatch(says);
  expect(ended).toMatchObject({ code, stdout: '' });
});

test('a table that is not there is told from one that may not be used', async () => {
  const inspect = (table: string): Promise<Ended> =>
    here(['inspect', 'x', '--ledger', `dynamodb:${table}?endpoint=${dynamodb.endpoint}`]);
  const missing = await inspect('nowhere');
  expect(missing.code).toBe(1);
  expect(missing.stderr).toMatch(/was not found: .* make it with "leasehold aws create-table --table nowhere"/);
  const refused = dynamodb.faults.on('GetItem', kinds.failBefore('denied'), { times: 9 });
  const denied = await inspect('tasks');
  refused.cancel();
  expect(refused.hits).toBe(1);
  expect(denied.stderr).toContain('printed by "leasehold aws policy --role operator --table tasks"');
});

test('credentials that are missing or have expired, and a missing region, are told from a policy that lacks something', async () => {
  // Nothing the machine has may be found.
  const nothing = {
    AWS_ACCESS_KEY_ID: undefined,
    AWS_SECRET_ACCESS_KEY: undefined,
    AWS_REGION: undefined,
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: join(folder, 'none'),
    AWS_SHARED_CREDENTIALS_FILE: join(folder, 'none'),
  };
  const ledger = `dynamodb:tasks?endpoint=${NOWHERE}`;
  const queue = 'sqs:http://127.0.0.1:1/123456789012/tickets';
  const sweep = ['sweep', '--ledger', ledger, '--queue'];
  const list = ['list', '--ledger'];
  const region = 'region=eu-central-1';
  for (const [args, code, says] of [
    [[...list, `${ledger}&${region}`], 1, `--ledger ${ledger}&${region}: no AWS credentials were found (`],
    [[...sweep, `${queue}?${region}`], 1, `--queue ${queue}?${region}: no AWS credentials were found (`],
    [
      ['aws', 'create-table', '--table', 'tasks', '--region', 'eu-central-1'],
      1,
      'table tasks: no AWS credentials were found (',
    ],
    [
      [...list, ledger],
      2,
      `--ledger ${ledger}: no region was given, nor found; add &${region} to it, or set AWS_REGION`,
    ],
    [[...sweep, queue], 2, `--queue ${queue}: no region was given, nor found; add ?${region} to it, or set AWS_REGION`],
    [
      ['aws', 'create-table', '--table', 'tasks'],
      2,
      'table tasks: no region was given, nor found; give --region, or set',
    ],
  ] as const) {
    const ended = await here(args, nothing);
    expect(ended.stderr).toContain(`error: ${says}`);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).not.toContain('aws policy');
    if (code === 1) expect(ended.stderr).toContain('the SDK looks at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY');
  }
  const refused = dynamodb.faults.on('GetItem', kinds.failBefore('expired'), { times: 9 });
  const expired = await here(['inspect', 'x', '--ledger', `dynamodb:tasks?endpoint=${dynamodb.endpoint}`]);
  refused.cancel();
  expect(expired.code).toBe(1);
  expect(expired.stderr).toContain('the AWS credentials have expired (ExpiredToken');
  expect(expired.stderr).not.toContain('aws policy');
});

test('an adapter that is not installed is an error that says what to install', async () => {
  const cause = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
  const loading = loadAdapter('--ledger dynamodb:tasks', '@leasehold/dynamodb', () => Promise.reject(cause));
  await expect(loading).rejects.toThrow(
    '--ledger dynamodb:tasks needs packages that are not installed beside @leasehold/cli: npm install @leasehold/dynamodb',
  );
  const broken = new SyntaxError('unexpected token');
  await expect(loadAdapter('x', 'y', () => Promise.reject(broken))).rejects.toBe(broken);
});
