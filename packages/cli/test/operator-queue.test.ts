import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import { withLease } from '@leasehold/worker';
import { runHere, type Ended, type Environment } from './command-line.ts';
import { workOn, type WorkerParts } from './queue-workers.ts';

const folder = mkdtempSync(join(tmpdir(), 'leasehold-queues-'));
const never = new AbortController().signal;
let db: string;

beforeEach(() => {
  db = join(mkdtempSync(join(folder, 'db-')), 'tasks.sqlite');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NONE: Environment = { LEASEHOLD_DB: undefined, LEASEHOLD_LEDGER: undefined, LEASEHOLD_QUEUE: undefined };
const leasehold = (args: readonly string[], env: Environment = {}): Promise<Ended> =>
  runHere([...args, '--db', db], { ...NONE, ...env });
const json = ({ stdout }: Ended): unknown => JSON.parse(stdout);

/** A task of `jobs` that waits for a person; its message is in the record only. */
const park = (taskId = 't-1'): Promise<void> =>
  workOn(db, async ({ claim, broker }) => void (await broker.askHuman(await claim(taskId), 'Charge 700 EUR?')), 'jobs');
const dies = async ({ claim, broker }: WorkerParts, taskId: string): Promise<void> =>
  void (await broker.deadLetter(await claim(taskId), { errorClass: 'permanent', code: 'x', message: 'no' }));

async function sendTo(queue: string, count = 1): Promise<void> {
  const driver = sqliteBroker({ file: db, queue });
  const message = { body: new TextEncoder().encode('{'), attributes: {} };
  await driver.send(
    Array.from({ length: count }, () => message),
    never,
  );
  await driver.close();
}

/** How many messages each queue has. */
function messages(): Record<string, number> {
  const file = new DatabaseSync(db);
  const rows = file.prepare('SELECT queue, count(*) AS n FROM leasehold_message GROUP BY queue').all();
  file.close();
  return Object.fromEntries(rows.map(({ queue, n }) => [String(queue), Number(n)]));
}

/** As if the task had been written to some minutes ago. */
async function age(taskId: string): Promise<void> {
  const file = new DatabaseSync(db);
  const { document } = file.prepare('SELECT document FROM leasehold_task WHERE task_id = ?').get(taskId) ?? {};
  const record = JSON.parse(String(document)) as { updated_at: number };
  const updatedAt = record.updated_at - 300_000;
  file
    .prepare('UPDATE leasehold_task SET updated_at = ?, document = ? WHERE task_id = ?')
    .run(updatedAt, JSON.stringify({ ...record, updated_at: updatedAt }), taskId);
  file.close();
}

test('the queue of a parked task is never guessed: approve without a name sends nothing, and asks for it', async () => {
  await park();
  const alone = await leasehold(['approve', 't-1']);
  expect(alone).toMatchObject({ code: 2, stdout: '' });
  expect(alone.stderr).toBe(
    'error: --queue is missing: name the queue the task came from, which nothing remembers while its message is parked.\n',
  );
  await sendTo('other');
  const beside = await leasehold(['approve', 't-1']);
  expect(beside).toMatchObject({ code: 2, stdout: '' });
  expect(beside.stderr).toContain('while its message is parked; this file has messages of: other.');
  const address = await leasehold(['approve', 't-1', '--queue', `sqlite:${db}`]);
  expect(address.code).toBe(2);
  expect(address.stderr).toContain('--queue is missing: name the queue the task came from');
  expect(messages()).toEqual({ other: 1 });
  expect((await leasehold(['list', '--state', 'waiting_human'])).stdout).toContain('t-1');
});

test.each<[what: string, args: string[], env: Environment]>([
  ['its name', ['--queue', 'jobs'], {}],
  ['the environment', [], { LEASEHOLD_QUEUE: 'jobs' }],
])('approve sends to the queue that was said by %s, though other queues have messages', async (_what, args, env) => {
  await park();
  await sendTo('other');
  const yes = await leasehold(['approve', 't-1', ...args], env);
  expect(yes).toEqual({
    code: 0,
    stdout: 'asked: Charge 700 EUR?\nt-1: the task runs again\n',
    stderr: 'note: queue jobs has no message; this file has messages of: other\n',
  });
  expect(messages()).toEqual({ jobs: 1, other: 1 });
});

test('reject needs no queue, and a redrive opens what it has closed: by sending the parked message to a queue that is named', async () => {
  await park();
  await sendTo('other');
  expect(await leasehold(['reject', 't-1'])).toMatchObject({ code: 0, stderr: '' });
  const guess = await leasehold(['redrive', 't-1']);
  expect(guess).toMatchObject({ code: 2, stdout: '' });
  expect(guess.stderr).toContain('--queue is missing: name the queue the task came from');
  const opened = await leasehold(['redrive', 't-1', '--queue', 'jobs']);
  expect(opened).toMatchObject({ code: 0, stdout: 't-1 is reopened; its parked message was sent again\n' });
  expect(messages()).toEqual({ jobs: 1, other: 1 });
  await workOn(db, async ({ next }) => expect(await next()).toMatchObject({ kind: 'lease', taskId: 't-1' }), 'jobs');
});

test('the report of a redrive of a parked task says that the message was sent', async () => {
  await park();
  await leasehold(['reject', 't-1']);
  const opened = await leasehold(['redrive', 't-1', '--queue', 'jobs', '--json']);
  expect(json(opened)).toEqual({ reopened: ['t-1'], moved: 0, sent: true });
});

test('sweep sends what was approved to the queue that was named, and without a name to none', async () => {
  await park();
  await sendTo('other');
  const ledger = sqliteLedger({ file: db });
  const { createTaskClient } = await import('@leasehold/core');
  await createTaskClient({ ledger }).answer('t-1', { approve: true, reason: '' });
  await ledger.close();
  await age('t-1');
  const guess = await leasehold(['sweep']);
  expect(guess).toMatchObject({ code: 2, stdout: 'dead letters: 0, of which 0 without a record\n' });
  expect(guess.stderr).toBe(
    'error: --queue is missing: name the queue these tasks came from, whose parked messages were not sent again: t-1.\n',
  );
  expect(messages()).toEqual({ other: 1 });
  const named = await leasehold(['sweep', '--queue', 'jobs']);
  expect(named.code).toBe(0);
  expect(named.stdout).toContain('their parked message was sent: t-1\n');
  expect(messages()).toEqual({ jobs: 1, other: 1 });
});

test('dead letters say which queue they are of: one is found by itself, of several one has to be named', async () => {
  await workOn(db, (parts) => dies(parts, 't-1'), 'helpdesk');
  expect(json(await leasehold(['sweep', '--json']))).toMatchObject({ deadLetters: 1 });
  const empty = await leasehold(['sweep', '--queue', 'nowhere', '--json']);
  expect(json(empty)).toMatchObject({ deadLetters: 0 });
  expect(empty.stderr).toBe('note: queue nowhere has no message; this file has messages of: helpdesk\n');
  await sendTo('default');
  for (const args of [['sweep'], ['redrive', 't-1'], ['redrive', '--all']]) {
    expect(await leasehold(args)).toEqual({
      code: 2,
      stdout: '',
      stderr: 'error: --queue is missing: name one of those that have messages in this file: default, helpdesk.\n',
    });
  }
  expect(json(await leasehold(['redrive', 't-1', '--queue', 'helpdesk', '--json']))).toEqual({
    reopened: ['t-1'],
    moved: 1,
  });
});

test('list shows a queue whose only task is parked as empty', async () => {
  await park();
  await sendTo('other');
  const listed = await leasehold(['list', '--queue', 'jobs']);
  expect(listed.code).toBe(0);
  expect(listed.stdout).toContain('t-1');
  expect(listed.stdout).not.toContain('queue other');
});

test('sweep names the dead letters that have no record, 20 of them, and redrive takes one by the beginning of its id', async () => {
  await sendTo('default.dead', 23);
  const report = json(await leasehold(['sweep', '--dry-run', '--json'])) as {
    unrecordedLetters: { messageId: string }[];
  };
  const ids = report.unrecordedLetters.map(({ messageId }) => messageId);
  expect(ids).toHaveLength(23);
  const { stdout } = await leasehold(['sweep', '--dry-run']);
  expect(ids.filter((id) => stdout.split('\n').some((line) => line.trimEnd() === id))).toEqual(ids.slice(0, 20));
  expect(stdout).toContain('\nand 3 more, which "leasehold sweep --dry-run --json" names\n');

  const [first = '', last = ''] = [ids[0], ids.at(-1)];
  const several = await leasehold(['redrive', first.slice(0, -1)]);
  expect(several).toMatchObject({ code: 1, stdout: '' });
  expect(several.stderr).toContain(`fits 23 dead letters; write more of the id: ${first}, `);
  // The whole id of one, and the beginning of others.
  expect((await leasehold(['redrive', first])).stdout).toBe('1 message moved back, 0 tasks reopened\n');
  await leasehold(['redrive', '--all']);
  expect(messages()).toEqual({ default: 23 });
  await sendTo('default.dead');
  const [, number = ''] = last.split('-');
  const start = last.slice(0, -number.length);
  expect((await leasehold(['redrive', start])).stdout).toBe('1 message moved back, 0 tasks reopened\n');
});

test.each([
  ['approve', ''],
  ['reject', ' '],
  ['cancel', ''],
  ['inspect', ''],
  ['watch', ''],
  ['redrive', ''],
  ['redrive', ':'],
])('%s "%s", as a shell writes a variable that is not set, acts on no task', async (command, name) => {
  await park('t-1:next:0');
  const ended = await leasehold([command, name, ...(command === 'approve' ? ['--queue', 'jobs'] : [])]);
  expect(ended).toEqual({ code: 2, stdout: '', stderr: 'error: task is empty: give its id.\n' });
  expect(await leasehold(['cancel', ' ', '--unclaimed'])).toMatchObject({ code: 2, stdout: '' });
  expect(json(await leasehold(['list', '--json']))).toMatchObject([{ taskId: 't-1:next:0', state: 'waiting_human' }]);
});

test('inspect shows what a person was asked and when, and what was answered', async () => {
  await park();
  expect((await leasehold(['inspect', 't-1'])).stdout).toMatch(
    /\nasked\s+Charge 700 EUR\? \([\d.]+ m?s ago, still open\)\n/,
  );
  await leasehold(['reject', 't-1', '--reason', 'too much']);
  expect((await leasehold(['inspect', 't-1'])).stdout).toMatch(
    /\nasked\s+Charge 700 EUR\? \([\d.]+ m?s ago, rejected [\d.]+ m?s ago: too much\)\n/,
  );
});

test('cancel of a task with an open effect says that the task may run on, and what sends a parked message', async () => {
  await workOn(
    db,
    async ({ claim, broker }) => {
      const details = { key: 'k-1', system: 'crm' };
      const intend = { type: 'intend', effect: 'charge', details, leaseMs: 600_000 } as const;
      await (await claim('t-1')).task.apply(intend, { repeat: true });
      const asks = await claim('t-2');
      await asks.task.apply(intend, { repeat: true });
      await broker.askHuman(asks, 'Charged?');
    },
    'jobs',
  );
  const words =
    'an effect is open, so its owner, or the next one, reads it back first; if the effect exists, the task is not cancelled but runs on to its end, with the effects that are left';
  expect(await leasehold(['cancel', 't-1'])).toEqual({
    code: 0,
    stdout: `t-1 is to be cancelled: ${words}\n`,
    stderr: '',
  });
  expect(await leasehold(['cancel', 't-2'])).toEqual({
    code: 0,
    stdout: `t-2 is to be cancelled: ${words}\n`,
    stderr:
      'note: t-2 waited for a person, so its message is parked; after a minute "leasehold sweep --queue QUEUE" sends it\n',
  });
});

test.each([['sweep'], ['list'], ['approve', 't-1']])(
  '%s names a queue that does not answer, and what to check',
  async (...args) => {
    await park();
    const queue = 'sqs:http://127.0.0.1:1/123456789012/tickets?region=us-east-1&endpoint=http://127.0.0.1:1';
    const credentials = { AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' };
    expect(await leasehold([...args, '--queue', queue], credentials)).toEqual({
      code: 1,
      stdout: '',
      stderr: `error: --queue ${queue} does not answer (ECONNREFUSED): check its endpoint and the network.\n`,
    });
  },
);

test('a task whose message its consumer keeps has none to be sent: redrive moves the dead letter, and sweep asks for no queue', async () => {
  const ledger = sqliteLedger({ file: db });
  await withLease({ ledger, taskId: 'own-1', type: 'charge' }, (ctx) => ctx.askHuman('May it?'));
  await ledger.close();
  const driver = sqliteBroker({ file: db, queue: 'jobs' });
  const attributes = { leaseholdtaskid: 'own-1' };
  await driver.send([{ body: new TextEncoder().encode('{}'), attributes }], never);
  const [held] = await driver.receive({ max: 1, leaseMs: 60_000, waitMs: 0 }, never);
  await driver.reject(held?.handle ?? '', { reason: 'rejected', description: '', attributes }, never);
  await driver.close();
  expect(await leasehold(['reject', 'own-1', '--reason', 'no'])).toMatchObject({ code: 0 });
  expect(await leasehold(['redrive', 'own-1'])).toMatchObject({
    code: 0,
    stdout: '1 message moved back, 1 task reopened\n',
  });
  await age('own-1');
  expect(await leasehold(['sweep'])).toMatchObject({ code: 0, stderr: '' });
});
