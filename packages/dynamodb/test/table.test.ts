import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { DeleteTableCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createLeaseBroker, createTaskClient, sweepTasks } from '@leasehold/core';
import { memoryBroker, memoryQueue } from '@leasehold/core/memory';
import { kinds, type Fault, type JsonObject } from '@leasehold/emulators';
import {
  cloudFormation,
  createTable,
  dynamoDbGuard,
  dynamoDbLedger,
  iamPolicy,
  tableDefinition,
  terraform,
  type DynamoDbLedgerOptions,
  type IamRole,
} from '@leasehold/dynamodb';
import { claimed, machine, never, type Machine } from './machine.ts';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(() => one.server.faults.reset());

const connection = () => {
  const { endpoint, region, credentials } = one.server;
  return { endpoint, region, credentials };
};

/** The service describes the table otherwise than it is. */
function describedAs(change: JsonObject): Fault {
  return async (call) => {
    const answer = await call.apply();
    const json = { ...answer.json, Table: { ...(answer.json['Table'] as JsonObject), ...change } };
    const { 'x-amz-crc32': _, ...headers } = answer.headers;
    return { ...answer, headers, body: Buffer.from(JSON.stringify(json)), json };
  };
}

describe('making a table', () => {
  test('it is made once, with its index, and may be asked for again', async () => {
    const design = { ...connection(), table: 'made' };
    expect(await createTable(design)).toEqual({ created: true, ttl: 'unsupported' });
    expect(await createTable(design)).toEqual({ created: false, ttl: 'unsupported' });
    expect(await createTable({ ...design, ttl: false })).toEqual({ created: false, ttl: 'none asked for' });
    const ledger = dynamoDbLedger(design);
    await ledger.open(never());
    await ledger.close();
  });

  test('an answer that is lost makes no difference, and a table that is being made is waited for', async () => {
    const design = { ...connection(), table: 'slow', clock: one.clock };
    const lost = one.server.faults.on('CreateTable', kinds.dropAnswer());
    await expect(createTable(design)).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(lost.hits).toBe(1);
    one.server.faults.on('DescribeTable', kinds.failBefore('not-found'));
    one.server.faults.on('DescribeTable', describedAs({ TableStatus: 'CREATING' }), { times: 2 });
    let done: unknown;
    void createTable(design).then((report) => (done = report));
    expect(await one.time.until(() => done !== undefined, 10_000)).toBe(true);
    expect(done).toMatchObject({ created: false });
    expect(one.server.faults.calls('DescribeTable')).toBe(3);
  });

  test('a table that is being deleted is waited for, and made anew; one that was archived is not waited for', async () => {
    const design = { ...connection(), table: 'leaving' };
    await createTable(design);
    one.server.faults.on('DescribeTable', async (call) => {
      const answer = await describedAs({ TableStatus: 'DELETING' })(call);
      await one.client().send(new DeleteTableCommand({ TableName: 'leaving' }));
      return answer;
    });
    let done: unknown;
    void createTable({ ...design, clock: one.clock }).then((report) => (done = report));
    expect(await one.time.until(() => done !== undefined, 10_000)).toBe(true);
    expect(done).toMatchObject({ created: true });
    one.server.faults.on('DescribeTable', describedAs({ TableStatus: 'ARCHIVED' }));
    await expect(createTable(design)).rejects.toMatchObject({ code: 'unavailable', field: 'table' });
  });

  test('a TTL is turned on where it is off, and one on another attribute is refused', async () => {
    const answerWith =
      (json: JsonObject): Fault =>
      ({ apply, request }) =>
        apply({
          ...request,
          operation: 'DescribeTable',
          body: Buffer.from('{"TableName":"made"}'),
          headers: { ...request.headers, 'x-amz-target': 'DynamoDB_20120810.DescribeTable' },
        }).then((answer) => {
          const { 'x-amz-crc32': _, ...headers } = answer.headers;
          return { ...answer, headers, body: Buffer.from(JSON.stringify(json)), json };
        });
    const design = { ...connection(), table: 'made' };
    const status = (TimeToLiveStatus: string, AttributeName = 'ttl'): void => {
      one.server.faults.reset();
      one.server.faults.on(
        'DescribeTimeToLive',
        answerWith({ TimeToLiveDescription: { TimeToLiveStatus, AttributeName } }),
      );
    };
    status('DISABLED');
    const turned = one.server.faults.on('UpdateTimeToLive', answerWith({}));
    expect(await createTable(design)).toEqual({ created: false, ttl: 'turned on' });
    expect(turned.hits).toBe(1);
    status('ENABLED');
    expect(await createTable(design)).toEqual({ created: false, ttl: 'was on' });
    status('ENABLED', 'expires');
    await expect(createTable(design)).rejects.toMatchObject({ code: 'bad-option', field: 'ttl' });
  });
});

describe('opening', () => {
  const open = async (options: Partial<DynamoDbLedgerOptions>): Promise<void> => {
    const ledger = dynamoDbLedger({ ...connection(), table: 'made', clock: one.clock, ...options });
    try {
      await ledger.open(never());
    } finally {
      await ledger.close();
    }
  };

  test.each<[string, Partial<DynamoDbLedgerOptions>, object]>([
    ['no such table', { table: 'not-there' }, { code: 'not-found', field: 'table' }],
    ['another key', { keys: { partition: 'id' } }, { code: 'bad-option', field: 'keys' }],
    ['a sort key that is not there', { keys: { partition: 'pk', sort: 'sk' } }, { code: 'bad-option', field: 'keys' }],
    ['no such index', { index: { name: 'other' } }, { code: 'bad-option', field: 'index' }],
    ['another key of the index', { index: { partition: 'GSI1PK' } }, { code: 'bad-option', field: 'index' }],
  ])('%s is refused, with the option and what to write', async (_, options, error) => {
    await expect(open(options)).rejects.toMatchObject(error);
  });

  test('an index without a sort key is not one to be named', async () => {
    const KeySchema = [{ AttributeName: 'GSI1PK', KeyType: 'HASH' }];
    one.server.faults.on('DescribeTable', describedAs({ GlobalSecondaryIndexes: [{ IndexName: 'GSI1', KeySchema }] }));
    const opening = open({ index: { name: 'GSI1', partition: 'GSI1PK' } });
    await expect(opening).rejects.toThrow(/GSI1 of table made has no sort key; name an index that has one\.$/);
  });

  test('an eventually consistent global table is refused, by the guard store too; a strongly consistent one is not', async () => {
    const Replicas = [{ RegionName: 'eu-west-1' }];
    one.server.faults.on('DescribeTable', describedAs({ Replicas }), { times: 2 });
    await expect(open({})).rejects.toMatchObject({ code: 'bad-option', field: 'table' });
    const guard = dynamoDbGuard({ ...connection(), table: 'made', clock: one.clock });
    const look = () => guard.look({ scope: 's', token: 1, key: 'k' }, never());
    await expect(look()).rejects.toMatchObject({ code: 'bad-option', field: 'table' });
    one.server.faults.on('DescribeTable', describedAs({ Replicas, MultiRegionConsistency: 'STRONG' }), { times: 2 });
    await open({});
    expect(await look()).toBe('absent');
    await guard.close();
    one.server.faults.on('DescribeTable', describedAs({ Replicas }), { times: 2 });
    await expect(createTable({ ...connection(), table: 'made' })).rejects.toMatchObject({ field: 'table' });
    one.server.faults.reset();
    // The legacy version, where it shows, has no list of replicas.
    one.server.faults.on('DescribeTable', describedAs({ GlobalTableVersion: '2017.11.29' }));
    await expect(open({})).rejects.toMatchObject({ code: 'bad-option', field: 'table' });
  });

  test('a table that is not ready yet is unavailable, and one that is being changed is not', async () => {
    one.server.faults.on('DescribeTable', describedAs({ TableStatus: 'CREATING' }));
    await expect(open({})).rejects.toMatchObject({ code: 'unavailable' });
    one.server.faults.on('DescribeTable', describedAs({ TableStatus: 'UPDATING' }));
    await open({});
  });

  test('who may not describe the table may still use it', async () => {
    one.server.faults.on('DescribeTable', kinds.failBefore('denied'));
    await open({ index: { name: 'not-there' } });
    one.server.faults.on('DescribeTable', kinds.failBefore('throttled'));
    await expect(open({})).rejects.toMatchObject({ name: 'ProvisionedThroughputExceededException' });
    // Whose credentials are no good cannot use it either.
    one.server.faults.on('DescribeTable', kinds.failBefore('expired'));
    await expect(open({})).rejects.toMatchObject({ name: 'ExpiredTokenException' });
  });
});

test.each<[string, Partial<DynamoDbLedgerOptions>]>([
  ['table', { table: '' }],
  ['table', { table: 'a b' }],
  ['prefix', { prefix: 'task#x' }],
  ['prefix', { prefix: '\ud800' }],
  ['keys.partition', { keys: { partition: '' } }],
  ['keys.partition', { keys: { partition: 'state' } }],
  ['keys.sort', { keys: { partition: 'pk', sort: 'version' } }],
  ['keys', { keys: { partition: 'ttl' } }],
  ['ttl', { ttl: 'expires_at' }],
  ['index', { index: 'name' as unknown as boolean }],
  ['index.name', { index: { name: 'x' } }],
  ['client', { client: {} as never }],
  ['clock', { clock: {} as never }],
])('a bad %s is named at once', (field, options) => {
  expect(() => dynamoDbLedger({ table: 'good', ...options })).toThrow(
    expect.objectContaining({ code: 'bad-option', field }),
  );
});

describe('as text', () => {
  const design = { table: 'leasehold', keys: { partition: 'PK', sort: 'SK' }, ttl: 'on', prefix: 'x#' };
  const { create } = tableDefinition(design);

  test('CloudFormation and Terraform say what CreateTable is told', () => {
    const yaml = cloudFormation(design);
    const hcl = terraform(design);
    for (const { AttributeName } of create.AttributeDefinitions) {
      expect(yaml).toContain(`        - AttributeName: '${AttributeName}'\n          AttributeType: 'S'`);
      expect(hcl).toContain(`  attribute {\n    name = "${AttributeName}"\n    type = "S"\n  }`);
    }
    expect(yaml).toContain(`      KeySchema:
        - AttributeName: 'PK'
          KeyType: 'HASH'
        - AttributeName: 'SK'
          KeyType: 'RANGE'
      GlobalSecondaryIndexes:
        - IndexName: 'leasehold-open'
          KeySchema:
            - AttributeName: 'lane'
              KeyType: 'HASH'
            - AttributeName: 'lane_at'
              KeyType: 'RANGE'
          Projection:
            ProjectionType: 'KEYS_ONLY'
      TimeToLiveSpecification:
        AttributeName: 'on'
        Enabled: true
`);
    expect(yaml).toContain("    DeletionPolicy: 'Retain'");
    expect(hcl).toContain(`  name         = "leasehold"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "PK"
  range_key    = "SK"
`);
    expect(hcl).toContain(`  global_secondary_index {
    name            = "leasehold-open"
    hash_key        = "lane"
    range_key       = "lane_at"
    projection_type = "KEYS_ONLY"
  }
`);
    expect(hcl).toContain('  ttl {\n    attribute_name = "on"\n    enabled        = true\n  }');
  });

  test('a table that is given by its ARN is called by its name', () => {
    const table = 'arn:aws:dynamodb:eu-central-1:123456789012:table/tasks';
    expect(cloudFormation({ table })).toContain("TableName: 'tasks'");
    expect(terraform({ table })).toMatch(/ name += "tasks"\n/);
  });

  test('without an index or a TTL neither is made, and what is special in a language is not taken for it', () => {
    const bare = { table: 'bare', index: false, ttl: false, keys: { partition: "it's ${here}" } } as const;
    expect(cloudFormation(bare)).not.toMatch(/Index|TimeToLive/);
    expect(terraform(bare)).not.toMatch(/index|ttl/);
    expect(cloudFormation(bare)).toContain("'it''s ${here}'");
    expect(terraform(bare)).toContain('"it\'s $${here}"');
  });
});

describe('policies', () => {
  const design = { table: 'made', region: 'eu-central-1', account: '123456789012' };
  const actionsOf = (role: IamRole, more: object = {}): string[] =>
    iamPolicy(role, { ...design, ...more })
      .Statement.flatMap(({ Action }) => Action)
      .map((action) => action.replace('dynamodb:', ''))
      .sort();

  test('together they allow exactly the calls that the source makes', () => {
    const source = new URL('../src/', import.meta.url);
    const made = readdirSync(source)
      .flatMap((file) => [...readFileSync(new URL(file, source), 'utf8').matchAll(/new (\w+)Command\(/g)])
      .map(([, operation]) => operation ?? '');
    const roles: IamRole[] = ['worker', 'producer', 'operator', 'guard', 'deployer'];
    expect([...new Set(roles.flatMap((role) => actionsOf(role)))].sort()).toEqual([...new Set(made)].toSorted());
  });

  test.each<[IamRole, object, () => Promise<void>]>([
    ['worker', {}, asWorker],
    ['producer', {}, asProducer],
    ['producer', { mayCancel: true }, asCanceller],
    ['operator', {}, asOperator],
    ['operator', { index: false }, asOperatorByScan],
    ['guard', {}, asGuard],
    ['deployer', {}, asDeployer],
  ])('what %s %o does is what it may do, and nothing less', async (role, more, act) => {
    await act();
    const called = new Set(one.server.faults.log.map(({ operation }) => operation));
    // A server without a TTL is never told to turn it on.
    if (role === 'deployer') called.add('UpdateTimeToLive');
    expect([...called].sort()).toEqual([...new Set(actionsOf(role, more))]);
  });

  test('items are allowed by the keys of their kind under the prefix, which is taken literally', () => {
    const [items, , list] = iamPolicy('operator', { ...design, prefix: 'a*${b}?' }).Statement;
    const keys = { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['a${*}${$}{b}${?}task#*'] } };
    expect(items).toMatchObject({ Resource: 'arn:aws:dynamodb:eu-central-1:123456789012:table/made', Condition: keys });
    expect(list).toMatchObject({ Resource: `${items?.Resource}/index/leasehold-open`, Condition: keys });
    const [guard] = iamPolicy('guard', { table: 'arn:aws-cn:dynamodb:cn-north-1:1:table/x' }).Statement;
    expect(guard).toMatchObject({ Resource: 'arn:aws-cn:dynamodb:cn-north-1:1:table/x' });
    expect(guard?.Condition?.['ForAllValues:StringLike']['dynamodb:LeadingKeys']).toEqual(['guard#*']);
    expect(() => iamPolicy('root' as IamRole, design)).toThrow(expect.objectContaining({ field: 'role' }));
  });
});

function parts(options: Partial<DynamoDbLedgerOptions> = {}) {
  const { clock } = one;
  const ledger = dynamoDbLedger({ ...connection(), table: 'made', clock, ...options });
  const driver = memoryBroker({ clock, queue: memoryQueue() });
  const broker = createLeaseBroker({ driver, ledger, clock });
  return { ledger, driver, broker, clock, client: createTaskClient({ broker, ledger, clock }) };
}

async function asWorker(): Promise<void> {
  const { ledger } = parts();
  await ledger.open(never());
  const put = await ledger.put(claimed('by a worker'), { ms: 60_000 }, { version: 0 }, never());
  if (put.ok) await ledger.get('by a worker', never());
  await ledger.put(claimed('by a worker'), { ms: 60_000 }, { version: 0 }, never());
  await ledger.close();
}

async function asProducer(): Promise<void> {
  const { client, broker } = parts();
  await client.enqueue([{ type: 'x', input: {}, idempotencyKey: 'k', taskId: 'produced' }]);
  await client.status('produced');
  await broker.close();
}

async function asCanceller(): Promise<void> {
  const { client, broker } = parts();
  expect(await client.cancel('cancelled before it began')).toMatchObject([{ outcome: 'cancelled' }]);
  await broker.close();
}

async function operate(options: Partial<DynamoDbLedgerOptions>): Promise<void> {
  const { client, broker, ledger, driver, clock } = parts(options);
  await client.list({ limit: 5, states: ['running'] });
  await client.list({ limit: 5 });
  await client.cancel({ agentRunId: 'nobody' });
  await client.cancel(`cancelled by an operator ${randomUUID()}`);
  await sweepTasks({ ledger, driver, broker, clock });
  await broker.close();
}

const asOperator = (): Promise<void> => operate({});
const asOperatorByScan = (): Promise<void> => operate({ index: false });

async function asGuard(): Promise<void> {
  const guard = dynamoDbGuard({ ...connection(), table: 'made', clock: one.clock });
  const hold = { scope: 'policy', key: 'k', hold: 'h' };
  await guard.begin({ ...hold, token: 1, requestHash: 'r', holdMs: 1_000, retentionMs: 1_000 }, never());
  await guard.extend(hold, 1_000, never());
  await guard.finish(hold, 'free', never());
  await guard.look({ scope: 'policy', token: 1, key: 'k' }, never());
  await guard.close();
}

async function asDeployer(): Promise<void> {
  await createTable({ ...connection(), table: 'deployed' });
}
