/** Whoever writes JavaScript, or passes options on in a variable, has no compiler that says which one is misspelt. */
import { expect, test } from 'vitest';
import { createLeaseBroker, createTaskClient, sweepTasks } from '@leasehold/core';
import { memoryBroker, memoryGuard, memoryLedger } from '@leasehold/core/memory';
import { createTable, dynamoDbGuard, dynamoDbLedger, iamPolicy } from '@leasehold/dynamodb';
import { guard, transactionalGuard } from '@leasehold/guard';
import { expressGuard } from '@leasehold/guard/express';
import { fastifyGuard } from '@leasehold/guard/fastify';
import { sqliteBroker, sqliteGuard, sqliteLedger } from '@leasehold/sqlite';
import { sqsBroker } from '@leasehold/sqs';
import { createWorker, defineTask, withLease, type TaskContext } from '@leasehold/worker';
import { runTask } from '@leasehold/worker/testing';

const parts = { driver: memoryBroker(), ledger: memoryLedger() };
const broker = createLeaseBroker(parts);
const client = createTaskClient({ ledger: parts.ledger });
const task = defineTask({ type: 'task', run: () => 'done' });
const guarded = { mode: 'enforce', require: 'fence+key', retention: '30d' } as const;
const table = { table: 'leasehold', region: 'eu-central-1' };
const queue = { queueUrl: 'https://sqs.eu-central-1.amazonaws.com/123456789012/tickets' };
const typo = { nonsense: 1 };

const takers: Record<string, () => unknown> = {
  'createLeaseBroker: nonsense': () => createLeaseBroker({ ...parts, ...typo }),
  'createTaskClient: nonsense': () => createTaskClient({ ledger: parts.ledger, ...typo }),
  'client.wait: nonsense': () => client.wait('t', typo as object),
  'client.answer: nonsense': () => client.answer('t', { approve: true, reason: '', ...typo }),
  'client.list: nonsense': () => client.list({ limit: 10, ...typo }),
  'sweepTasks: nonsense': () => sweepTasks(parts, typo as object),
  'createWorker: nonsense': () => createWorker({ broker, tasks: [task], ...typo }),
  'createWorker: broker[0].nonsense': () => createWorker({ broker: [{ broker, weight: 1, ...typo }], tasks: [task] }),
  'defineTask: task.nonsense': () => defineTask({ type: 'task', run: () => 'done', ...typo }),
  'defineTask: task.limits.nonsense': () => defineTask({ type: 'task', run: () => 'done', limits: typo as object }),
  'defineTask: task.backoff.nonsense': () => defineTask({ type: 'task', run: () => 'done', backoff: typo as object }),
  'defineTask: task.lease.nonsense': () =>
    defineTask({ type: 'task', run: () => 'done', lease: { length: '90s', ...typo } }),
  'withLease: nonsense': () => withLease({ ledger: parts.ledger, taskId: 't', type: 'task', ...typo }, () => 'done'),
  'runTask: nonsense': () => runTask(task, {}, typo as object),
  'memoryBroker: nonsense': () => memoryBroker(typo as object),
  'memoryLedger: nonsense': () => memoryLedger(typo as object),
  'memoryGuard: nonsense': () => memoryGuard(typo as object),
  'sqliteBroker: nonsense': () => sqliteBroker({ file: './no.db', ...typo }),
  'sqliteLedger: nonsense': () => sqliteLedger({ file: './no.db', ...typo }),
  'sqliteGuard: nonsense': () => sqliteGuard({ file: './no.db', ...typo }),
  'sqsBroker: nonsense': () => sqsBroker({ ...queue, ...typo }),
  'sqsBroker: settings.nonsense': () => sqsBroker({ ...queue, settings: typo as object }),
  'dynamoDbLedger: nonsense': () => dynamoDbLedger({ ...table, ...typo }),
  'dynamoDbLedger: keys.nonsense': () => dynamoDbLedger({ ...table, keys: { partition: 'pk', ...typo } }),
  'dynamoDbLedger: index.nonsense': () => dynamoDbLedger({ ...table, index: typo as object }),
  'dynamoDbGuard: nonsense': () => dynamoDbGuard({ ...table, ...typo }),
  'createTable: nonsense': () => createTable({ ...table, ...typo }),
  'iamPolicy: nonsense': () => iamPolicy('worker', { ...table, ...typo }),
  'guard: nonsense': () => guard(memoryGuard(), { ...guarded, ...typo }, () => new Response()),
  'expressGuard: nonsense': () => expressGuard(memoryGuard(), { ...guarded, ...typo }),
  'fastifyGuard: nonsense': () => fastifyGuard(memoryGuard(), { ...guarded, ...typo }),
  'transactionalGuard: nonsense': () =>
    transactionalGuard(sqliteGuard({ file: './no.db' }), { ...guarded, ...typo }, () => () => ({ status: 200 })),
};

test.each(Object.entries(takers))('%s', async (name, take) => {
  const field = name.split(': ')[1];
  const refused = async (): Promise<unknown> => take();
  await expect(refused()).rejects.toMatchObject({
    code: 'bad-option',
    field,
    message: expect.stringMatching(
      `${field?.replaceAll(/[.[\]]/g, '.')} is no option; there are [a-zA-Z, ]+\\.$`,
    ) as string,
  });
});

test.each<readonly [string, () => unknown]>([
  ['approve', () => client.answer('t', { approve: 'no' as never, reason: '' })],
  ['reason', () => client.answer('t', { approve: true } as never)],
  ['handler', () => guard(memoryGuard(), guarded, undefined as never)],
  ['run', () => withLease({ ledger: parts.ledger, taskId: 't', type: 'task' }, undefined as never)],
  ['options', () => defineTask(null as never)],
  ['options', () => createWorker(undefined as never)],
])('%s that is missing, or of another kind, is refused by its name', async (field, take) => {
  const refused = async (): Promise<unknown> => take();
  await expect(refused()).rejects.toMatchObject({ code: 'bad-option', field });
});

test('An option that is undefined asks for nothing', () => {
  expect(createWorker({ broker, tasks: [task], ...({ nonsense: undefined } as object) })).toBeDefined();
});

/** Runs one attempt, and gives the message that its task was ended with. */
async function ended(run: (ctx: TaskContext) => Promise<unknown>): Promise<string | undefined> {
  const { record } = await runTask(
    defineTask({ type: 'task', limits: { attempts: 1 }, run: (_, ctx) => run(ctx) }),
    {},
  );
  return record?.lastError?.message;
}

test('An effect with a misspelt option starts nothing', async () => {
  let commits = 0;
  const options = {
    system: 'tickets',
    commit: () => ++commits,
    receipt: () => ({ externalId: '1', status: 'made' }),
    readBack: () => undefined,
    quiese: '5s',
  };
  expect(await ended((ctx) => ctx.effect('ticket', options))).toMatch(/quiese is no option; there are .*quiesce/);
  expect(commits).toBe(0);
});
