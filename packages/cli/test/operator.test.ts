import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { sqliteBroker } from '@leasehold/sqlite';
import { run, type Ended } from './command-line.ts';
import { workOn, type WorkerParts } from './queue-workers.ts';

const folder = mkdtempSync(join(tmpdir(), 'leasehold-operator-'));
let db: string;

beforeEach(() => {
  db = join(mkdtempSync(join(folder, 'db-')), 'tasks.sqlite');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const leasehold = (...args: string[]): Promise<Ended> => run([...args, '--db', db], { cwd: folder });

const workers = (work: (parts: WorkerParts) => Promise<void>): Promise<void> => workOn(db, work);

const never = new AbortController().signal;
const json = (ended: Ended): unknown => JSON.parse(ended.stdout);

test('approve sends the parked message again, once; the next owner sees the answer', async () => {
  await workers(async ({ claim, broker }) => void (await broker.askHuman(await claim('t-1'), 'Charge 700 EUR?')));
  const yes = await leasehold('approve', 't-1', '--queue', 'default', '--reason', 'checked', '--json');
  expect(yes.code).toBe(0);
  expect(json(yes)).toMatchObject({
    taskId: 't-1',
    question: 'Charge 700 EUR?',
    approve: true,
    done: true,
    sent: true,
  });
  await workers(async ({ next }) => {
    expect(await next()).toMatchObject({ kind: 'lease', record: { human: [{ approved: true, reason: 'checked' }] } });
  });
  const again = await leasehold('approve', 't-1', '--queue', 'default');
  expect(again.code).toBe(1);
  expect(again.stderr).toContain('not waiting for a person');
});

test('reject dead-letters the task, and says so', async () => {
  await workers(async ({ claim, broker }) => void (await broker.askHuman(await claim('t-1'), 'Charge 700 EUR?')));
  const no = await leasehold('reject', 't-1');
  expect(no).toMatchObject({ code: 0 });
  expect(no.stdout).toContain('asked: Charge 700 EUR?');
  const [listed] = json(await leasehold('list', '--error', 'rejected', '--json')) as { state: string }[];
  expect(listed).toMatchObject({ taskId: 't-1', state: 'dead_lettered' });
});

test('redrive reopens first and moves the message back; a sweep counts what is left', async () => {
  await workers(async ({ claim, broker }) => {
    await broker.deadLetter(await claim('t-1'), { errorClass: 'permanent', code: 'x', message: 'no' });
    await broker.deadLetter(await claim('t-2'), { errorClass: 'permanent', code: 'x', message: 'no' });
  });
  expect(json(await leasehold('sweep', '--json'))).toMatchObject({ deadLetters: 2, unrecorded: 0, closed: [] });
  const moved = await leasehold('redrive', 't-1', '--json');
  expect(moved.code).toBe(0);
  expect(json(moved)).toEqual({ reopened: ['t-1'], moved: 1 });
  await workers(async ({ next }) => expect(await next()).toMatchObject({ kind: 'lease', taskId: 't-1', token: 2 }));
  const none = await leasehold('redrive', 't-1');
  expect(none).toMatchObject({ code: 1 });
  expect(none.stderr).toContain('no message');
  expect((await leasehold('redrive')).code).toBe(2);
  expect(json(await leasehold('redrive', '--all', '--json'))).toMatchObject({ moved: 1 });
});

test('sweep says what to do with dead letters that nobody has a record of', async () => {
  await workers(async ({ claim, broker }) => {
    await broker.deadLetter(await claim('t-1'), { errorClass: 'permanent', code: 'x', message: 'no' });
  });
  expect((await leasehold('sweep')).stdout).toBe('dead letters: 1, of which 0 without a record\n');
  const driver = sqliteBroker({ file: db, maxDeliveries: 1 });
  await driver.send([{ body: new TextEncoder().encode('{'), attributes: {} }], never);
  await driver.close();
  await workers(async ({ next }) => expect(await next()).toMatchObject({ why: 'undecodable' }));
  const swept = await leasehold('sweep');
  expect(swept.stdout).toContain('dead letters: 2, of which 1 without a record\n');
  expect(swept.stdout).toContain('"leasehold redrive MESSAGE" with the id of one, or "leasehold redrive --all"');
  expect((await leasehold('redrive', '--all')).stdout).toBe('2 messages moved back, 1 task reopened\n');
});

test('inspect of a task that ended in doubt says where to look, and what gets it going again', async () => {
  await workers(async ({ claim, broker }) => {
    const lease = await claim('t-1');
    const details = { key: 'k-1', system: 'crm' };
    await lease.task.apply({ type: 'intend', effect: 'charge', details, leaseMs: 600_000 }, { repeat: true });
    lease.task.carryFinding('charge', { status: 'in_doubt' });
    await broker.deadLetter(lease, { errorClass: 'in-doubt', code: 'in-doubt', message: 'cannot tell' });
  });
  const { code, stdout } = await leasehold('inspect', 't-1');
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /\nnext\n {2}look at crm whether charge with the key k-1 exists; .*guard.*; then "leasehold redrive t-1", which reads before it writes\n/,
  );
});

test('sweep names what is live although its message was dead-lettered, and closes nothing of it', async () => {
  await workers(async ({ claim, broker, next }) => {
    const lease = await claim('t-1');
    await broker.handBack(lease.held, 0);
    // One delivery is all this queue gives: the broker moves the message by itself.
    expect(await next()).toBeUndefined();
  });
  const swept = await leasehold('sweep');
  expect(swept).toMatchObject({ code: 0 });
  expect(swept.stdout).toContain('still being worked on');
  expect(json(await leasehold('sweep', '--dry-run', '--json'))).toMatchObject({
    live: ['t-1'],
    closed: [],
    deadLetters: 1,
  });
});

test('watch ends with the task: 0 when it settled, 1 when it did not', async () => {
  await workers(async ({ claim, broker }) => {
    const receipt = {
      stage: 'settled',
      externalSystem: 'none',
      externalId: '-',
      status: 'done',
      verifiedAt: 0,
    } as const;
    await broker.settle(await claim('t-1'), { receipt: { ...receipt, taskId: 't-1', idempotencyKey: 't-1' } });
    await broker.deadLetter(await claim('t-2'), { errorClass: 'permanent', code: 'x', message: 'no' });
  });
  const settled = await leasehold('watch', 't-1', '--json');
  expect(settled.code).toBe(0);
  expect(json(settled)).toMatchObject({ taskId: 't-1', state: 'settled', token: 1 });
  expect((await leasehold('watch', 't-2')).code).toBe(1);
  expect((await leasehold('watch', 'nobody')).code).toBe(1);
});

test('list filters by stage', async () => {
  await workers(async ({ claim }) => {
    const lease = await claim('t-1');
    await claim('t-2');
    const details = { key: 'k', system: 'crm' };
    await lease.task.apply({ type: 'intend', effect: 'e', details, leaseMs: 600_000 }, { repeat: true });
  });
  const found = json(await leasehold('list', '--stage', 'commit', '--json')) as { taskId: string }[];
  expect(found.map(({ taskId }) => taskId)).toEqual(['t-1']);
  expect((await leasehold('list', '--stage', 'nowhere')).code).toBe(2);
});

const DRIVER = `
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { brokerHarness, ledgerHarness } from '@leasehold/contract/mutants';
export const broker = { capabilities: memoryBroker().capabilities, harness: () => brokerHarness({}, CHANGE) };
export const ledger = { capabilities: memoryLedger().capabilities, harness: () => ledgerHarness({}) };
`;
const contract = (change: string, name: string): Promise<Ended> => {
  // Beside this test, so that it finds the packages.
  const file = join(import.meta.dirname, `${name}.tmp.ts`);
  writeFileSync(file, DRIVER.replace('CHANGE', change));
  return run(['contract', '--driver', file, '--json'], { cwd: folder }).finally(() => rmSync(file));
};

test('contract passes a driver that keeps its promises', async () => {
  const good = await contract('(driver) => driver', 'good-driver');
  expect(good.code).toBe(0);
  expect((json(good) as { passed: number }).passed).toBeGreaterThan(50);
});

test('contract names the cases that a broken driver fails', async () => {
  const bad = await contract(
    `(driver) => ({ ...driver, complete: async (handles) => handles.map(() => 'done') })`,
    'bad-driver',
  );
  expect(bad.code).toBe(1);
  const failed = (json(bad) as { results: { name: string; passed: boolean }[] }).results.filter(
    ({ passed }) => !passed,
  );
  expect(failed.map(({ name }) => name).join('\n')).toMatch(/complete/);
});

test.each([
  [['contract'], '--driver'],
  [['contract', '--driver', './nowhere.ts'], 'does not exist'],
  [['contract', '--driver', import.meta.filename, '--mutants'], '--driver'],
])('%j cannot be run, and says why', async (args, why) => {
  const ended = await run(args, { cwd: folder });
  expect(ended.code).toBe(2);
  expect(ended.stderr).toContain(why);
});

test('contract --mutants: every broken driver is caught by the case that names its fault', async () => {
  const ended = await run(['contract', '--mutants', '--json'], { cwd: folder });
  expect(ended.code).toBe(0);
  const { mutants, caughtByNamedCase } = json(ended) as { mutants: number; caughtByNamedCase: number };
  expect(mutants).toBeGreaterThanOrEqual(20);
  expect(caughtByNamedCase).toBe(mutants);
});
