import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { nodeTrouble } from '../src/node-version.ts';
import { unreadable } from '../src/stores/sqlite-file.ts';
import { run, start as startProgram, type Ended } from './command-line.ts';
import { fillDatabase, IDS, SECRET } from './database.ts';

// Each call is a process of its own, on a machine that may be busy.
vi.setConfig({ testTimeout: 120_000 });

let folder: string;
let template: Buffer;
let db: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-cli-'));
  const file = join(folder, 'template.sqlite');
  await fillDatabase(file);
  template = readFileSync(file);
});

// Each test has a file of its own, since some write into it.
beforeEach(() => {
  db = join(mkdtempSync(join(folder, 'db-')), 'tasks.sqlite');
  writeFileSync(db, template);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const leasehold = (...args: string[]): Promise<Ended> => run([...args, '--db', db], { cwd: folder });

interface Listed {
  readonly taskId: string;
  readonly state: string;
  readonly remainingMs?: number;
}

async function listed(...args: string[]): Promise<readonly Listed[]> {
  const { code, stdout, stderr } = await leasehold('list', '--json', ...args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as readonly Listed[];
}

test('list shows every task with state, stage, type, owner, token, attempt, age and remaining lease', async () => {
  const { code, stdout, stderr } = await leasehold('list');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const lines = stdout.trimEnd().split('\n');
  expect(lines[0]?.split(/\s+/)).toEqual([
    'task',
    'type',
    'state',
    'stage',
    'token',
    'attempt',
    'age',
    'lease',
    'owner',
  ]);
  expect(lines).toHaveLength(11);
  // What waits unclaimed is in no record.
  expect(lines.at(-1)).toMatch(/^queue default: \d+ waiting, [1-9]\d* held, 1 dead letter$/);
  const line = (start: string): string | undefined => lines.find((one) => one.startsWith(start));
  expect(line('aa1100000000 ')).toMatch(/^aa1100000000\s+open_case\s+settled\s+settled\s+1\s+1\s+[\d.]+ m?s$/);
  expect(line('aa1100000000:next:0')).toMatch(/tell_customer\s+settled/);
  expect(line('ab2200000000')).toMatch(
    /running\s+preflight\s+1\s+1\s+[\d.]+ m?s\s+9 min \d+ s left\s+desk\/host-1#nonce$/,
  );
  expect(line('bb3300000000')).toMatch(/rebuild_index\s+running .* lapsed\s+desk/);
  expect(line('cc4400000000')).toMatch(/dead_lettered/);
  expect(line('dd5500000000')).toMatch(/cancelled/);
});

test('list narrows down by state, type, run, lapse and number', async () => {
  const ids = async (...args: string[]): Promise<string[]> =>
    (await listed(...args)).map(({ taskId }) => taskId).toSorted();
  expect(await ids('--state', 'dead-lettered', 'cancelled')).toEqual([IDS.dead, IDS.cancelled]);
  expect(await ids('--type', 'rebuild_index', 'tell_customer')).toEqual([IDS.followUp, IDS.lapsed].toSorted());
  expect(await ids('--run', 'run-3')).toEqual([IDS.open]);
  expect(await ids('--lapsed')).toEqual([IDS.lapsed]);
  expect(await ids('--run', 'nobody')).toEqual([]);
  expect(await listed('--limit', '2')).toHaveLength(2);
  expect((await listed('--state', 'running')).map(({ remainingMs }) => remainingMs === 0).filter(Boolean)).toHaveLength(
    1,
  );
  expect((await leasehold('list', '--limit', '2')).stdout).toContain('there are more than 2; raise --limit');
  expect((await leasehold('list', '--run', 'nobody')).stdout).toBe('no task fits\n');
});

test('inspect shows the timeline with durations, effects with keys and ids, receipt and last error', async () => {
  const { code, stdout, stderr } = await leasehold('inspect', IDS.settled);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  for (const text of [IDS.settled, 'run-1', 'token 1, attempt 1, 0 failures', 'key-of-aa11', 'bytes in the record'])
    expect(stdout).toContain(text);
  expect(stdout).toMatch(/create\s+verified\s+crm\s+CASE-7\s+open\s+1\s+key-of-aa11:create/);
  expect(stdout).toMatch(/receipt\n {2}crm CASE-7, open, verified .* under token 1/);
  expect((await leasehold('inspect', 'cc44')).stdout).toContain('permanent: the input does not fit');
  expect((await leasehold('inspect', 'bb33')).stdout).toMatch(
    /lapsed \d+ ms ago|lapsed .* ago: the next delivery takes the task over/,
  );
  expect((await leasehold('inspect', 'ab22')).stdout).toMatch(/lease\s+9 min \d+ s left/);
});

test('the timeline of inspect is in order, with what each step took', async () => {
  const { stdout } = await leasehold('inspect', 'ff77');
  const timeline = /timeline\n([\s\S]*?)\n\n/
    .exec(stdout)?.[1]
    ?.split('\n')
    .map((line) => line.trim().split(/ {2,}/));
  expect(timeline).toEqual([
    ['+0 ms', 'created', 'for 40 ms'],
    ['+40 ms', 'preflight', 'claimed', 'for 1.2 s'],
    ['+1.2 s', 'external_call', 'page 2 of 3', 'for 1 min 28 s'],
    ['+1 min 30 s', 'commit', 'committing create'],
    ['+1 min 30 s', 'intended', 'create at crm', 'for 5.0 s'],
    ['+1 min 35 s', 'verified', 'create is CASE-8'],
    ['+1 min 35 s', 'settled'],
  ]);
});

test('inspect --json gives the record as it is stored', async () => {
  const { stdout } = await leasehold('inspect', 'aa11', '--json');
  const record = JSON.parse(stdout) as Record<string, unknown>;
  expect(record).toMatchObject({
    task_id: IDS.settled,
    state: 'settled',
    fencing_token: 1,
    effects: { create: { external_id: 'CASE-7' } },
  });
  expect(record['settlement_receipt']).toMatchObject({ external_id: 'CASE-7', idempotency_key: 'key-of-aa11' });
});

test('the beginning of an id is enough while it fits one task; a follow-up is named by its parts', async () => {
  const found = async (name: string): Promise<unknown> =>
    (JSON.parse((await leasehold('inspect', name, '--json')).stdout) as { task_id: unknown }).task_id;
  expect(await found('ab')).toBe(IDS.held);
  // The parent, not its follow-up, whose id begins with the parent's.
  expect(await found('aa11')).toBe(IDS.settled);
  expect(await found('aa11:next:0')).toBe(IDS.followUp);
  expect(await found('aa11:n')).toBe(IDS.followUp);
  const several = await leasehold('inspect', 'a');
  expect(several.code).toBe(1);
  expect(several.stderr).toMatch(
    /^error: a fits 2 tasks; write more of the id:\s+(aa11|ab22)0{8}\s+open_case\s+(aa11|ab22)0{8}\s+open_case\n$/,
  );
});

test('cancel ends a running task, asks where an effect is open, and is refused where the task has ended', async () => {
  expect(await leasehold('cancel', 'ab22')).toMatchObject({ code: 0, stdout: 'ab2200000000 is cancelled\n' });
  expect((await listed('--state', 'cancelled')).map(({ taskId }) => taskId)).toContain(IDS.held);
  const requested = await leasehold('cancel', 'ee66', '--json');
  expect(requested.code).toBe(0);
  expect(JSON.parse(requested.stdout)).toEqual([{ taskId: IDS.open, outcome: 'requested' }]);
  expect((await leasehold('inspect', 'ee66')).stdout).toContain('running (cancellation requested)');
  const refused = await leasehold('cancel', IDS.settled);
  expect(refused).toMatchObject({ code: 1, stdout: 'aa1100000000 was not cancelled: the task is settled\n' });
});

test('cancel --run ends what the run has not ended', async () => {
  const { code, stdout } = await leasehold('cancel', '--run', 'run-2', '--json');
  expect(code).toBe(0);
  const outcomes = JSON.parse(stdout) as { taskId: string; outcome: string }[];
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['cancelled', 'cancelled']);
  const again = await leasehold('cancel', '--run', 'run-2');
  expect(again).toMatchObject({ code: 1, stdout: '' });
  expect(again.stderr).toContain('run run-2 has no recorded task that has not ended');
});

test('a task that waits in the queue is cancelled only when that is meant', async () => {
  const unknown = await leasehold('cancel', 'zz99');
  expect(unknown).toMatchObject({ code: 1, stdout: '' });
  expect(unknown.stderr).toContain('--unclaimed');
  const meant = await leasehold('cancel', 'zz99', '--unclaimed');
  const words = 'no record of zz99 was there; a task enqueued under exactly this id will not run\n';
  expect(meant).toEqual({ code: 0, stdout: words, stderr: '' });
  expect((await listed('--state', 'cancelled')).map(({ taskId }) => taskId)).toContain('zz99');
  const another = await leasehold('cancel', 'zz9', '--unclaimed', '--json');
  expect(JSON.parse(another.stdout)).toEqual([{ taskId: 'zz9', outcome: 'cancelled', recorded: false }]);
  expect(another.stderr).toBe('note: zz99 begins like it, and is left as it is\n');
});

test('an id that was cut short is never written as one, and names the recorded task where there is one', async () => {
  const before = await listed();
  const cut = await leasehold('cancel', 'beef00112233', '--unclaimed');
  expect(cut).toMatchObject({ code: 2, stdout: '' });
  expect(cut.stderr).toContain('looks like an id that was cut short, and no record begins with it: give the full id');
  expect((await leasehold('cancel', 'beef00112233:next:0', '--unclaimed')).code).toBe(2);
  expect((await leasehold('cancel', 'a', '--unclaimed')).stderr).toContain('a fits 2 tasks');
  expect(await listed()).toHaveLength(before.length);
  const known = await leasehold('cancel', IDS.held.slice(0, 12), '--unclaimed');
  expect(known).toMatchObject({ code: 0, stdout: 'ab2200000000 is cancelled\n' });
  expect((await listed('--state', 'cancelled')).map(({ taskId }) => taskId)).toContain(IDS.held);
  expect(await listed()).toHaveLength(before.length);
});

test('no content of a task is shown but by inspect --json, and no control character reaches the terminal', async () => {
  const pages = await Promise.all([
    leasehold('list'),
    leasehold('list', '--json'),
    ...Object.values(IDS).map((taskId) => leasehold('inspect', taskId)),
  ]);
  for (const { stdout, code } of pages) {
    expect(code).toBe(0);
    expect(stdout).not.toContain(SECRET);
    expect(stdout).not.toContain('\u001b');
  }
  expect((await leasehold('inspect', IDS.settled, '--json')).stdout).toContain(SECRET);
});

test('the database is found by LEASEHOLD_DB, and else where the demo leaves it', async () => {
  const byEnvironment = await run(['list', '--json'], { cwd: folder, env: { LEASEHOLD_DB: db } });
  expect(JSON.parse(byEnvironment.stdout)).toHaveLength(9);
  const home = mkdtempSync(join(folder, 'home-'));
  mkdirSync(join(home, '.leasehold'));
  writeFileSync(join(home, '.leasehold', 'demo.sqlite'), template);
  expect(JSON.parse((await run(['list', '--json'], { cwd: home })).stdout)).toHaveLength(9);
});

test('a file that is not a database of Leasehold is refused and left as it is', async () => {
  const text = join(folder, 'notes.txt');
  const empty = join(folder, 'empty.sqlite');
  const foreign = join(folder, 'foreign.sqlite');
  writeFileSync(text, 'not a database, but long enough to be looked at as one'.repeat(50));
  writeFileSync(empty, '');
  const other = new DatabaseSync(foreign);
  other.exec('CREATE TABLE invoices (id INTEGER)');
  other.close();
  for (const file of [text, empty, foreign]) {
    const before = readFileSync(file);
    const { code, stderr } = await run(['list', '--db', file], { cwd: folder });
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: `error: --db ${file} is not a database of Leasehold: give the SQLite file that the workers use. Nothing was changed.\n`,
    });
    expect(readFileSync(file).equals(before)).toBe(true);
  }
});

test.each<[what: string, args: string[], code: number, says: RegExp]>([
  [
    'no database',
    ['list'],
    2,
    /there is no database: give one with --db <file> or in LEASEHOLD_DB, .* or make one with "leasehold demo --keep"/,
  ],
  ['a file that is not there', ['list', '--db', 'nowhere.sqlite'], 2, /--db nowhere.sqlite does not exist/],
  ['a folder', ['list', '--db', '.'], 2, /--db \. is not a file/],
  ['no command', [], 2, /Usage: leasehold/],
  ['an unknown command', ['lst'], 2, /unknown command 'lst'[\s\S]*list/],
  ['an unknown option', ['list', '--all'], 2, /unknown option '--all'/],
  ['a limit that is no number', ['list', '--limit', 'many'], 2, /--limit <n>.*whole number from 1 to 1000/],
  ['a limit of 0', ['list', '--limit', '0'], 2, /--limit <n>.*whole number from 1 to 1000/],
  ['a state that does not exist', ['list', '--state', 'done'], 2, /--state <state...>.*queued, running, waiting_human/],
  [
    'lapsed together with a state',
    ['list', '--lapsed', '--state', 'queued'],
    2,
    /'--lapsed' cannot be used with option '--state/,
  ],
  ['inspect without a task', ['inspect'], 2, /missing required argument 'task'/],
  ['cancel without anything', ['cancel'], 2, /name one task, or the run of several with --run <id>/],
  ['cancel with a task and a run', ['cancel', 'x', '--run', 'y'], 2, /name one task, or the run of several/],
  ['cancel --unclaimed of a run', ['cancel', '--unclaimed', '--run', 'y'], 2, /--unclaimed goes with a task/],
  [
    'a folder to keep that cannot be made',
    ['demo', '--keep', 'notes.txt/below'],
    2,
    /^error: --keep is "notes.txt\/below": it cannot be used as a folder \(ENOTDIR\); name one that this user can make, or write to\.$/m,
  ],
  ['a file as the folder to keep', ['demo', '--keep', 'notes.txt'], 2, /--keep is "notes.txt": .*\(EEXIST\); name one/],
  [
    'an option in the address of a file',
    ['list', '--ledger', 'sqlite:notes.txt?queue=x'],
    2,
    /--ledger sqlite:notes\.txt\?queue=x: queue is not known, it takes no options: sqlite:FILE\./,
  ],
])('%s: says what is wrong and what to do', async (_what, args, code, says) => {
  writeFileSync(join(folder, 'notes.txt'), 'a file');
  const ended = await run(args, { cwd: folder });
  expect(ended.stderr).toMatch(says);
  expect(ended).toMatchObject({ code, stdout: '' });
});

test('an unknown task is an error of its own', async () => {
  const { code, stderr } = await leasehold('inspect', 'zz99');
  expect(code).toBe(1);
  expect(stderr).toContain('no task is known as zz99: "leasehold list" shows those that were claimed');
});

test('output that cannot be written, as on a full disk, is said to be cut', async () => {
  if (!existsSync('/dev/full')) return;
  const full = openSync('/dev/full', 'w');
  const child = startProgram(['list', '--json', '--db', db], { cwd: folder, stdout: full });
  closeSync(full);
  let stderr = '';
  child.stderr?.on('data', (chunk) => (stderr += String(chunk)));
  const [code] = (await once(child, 'close')) as [number];
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      'error: stdout cannot be written (ENOSPC: no space left on device, write); what was printed is not whole.\n',
  });
});

test('a file that this user may not write to is named with what has to be writable', () => {
  const readOnly = Object.assign(new Error('attempt to write a readonly database'), { errcode: 8 });
  const folderOnly = Object.assign(new Error('attempt to write a readonly database'), { errcode: 1544 });
  const broken = Object.assign(new Error('disk I/O error'), { errcode: 10 });
  const remedy = 'the file and its folder have to be writable for this user, since SQLite keeps a journal beside it.';
  for (const error of [readOnly, folderOnly])
    expect(unreadable('--db x', error).message).toBe(
      `--db x cannot be read (attempt to write a readonly database): ${remedy}`,
    );
  expect(unreadable('--db x', broken).message).toBe('--db x cannot be read (disk I/O error).');
});

// Nobody else may become another user; the case before this one is the same without one.
test.runIf(process.getuid?.() === 0)('the same, as another user', async () => {
  for (const path of [folder, dirname(db)]) chmodSync(path, 0o755);
  const ended = await run(['list', '--db', db], { cwd: folder, uid: 65_534 });
  expect(ended).toMatchObject({ code: 1, stdout: '' });
  expect(ended.stderr).toContain('the file and its folder have to be writable for this user');
});

test('a Node that is too old is told so', () => {
  const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    engines: { node: string };
  };
  expect(engines.node).toBe('>=22.18');
  for (const version of ['v20.20.2', 'v22.17.9', 'v9.0.0'])
    expect(nodeTrouble(version)).toBe(`leasehold needs Node 22.18 or newer; this is ${version}.`);
  // Before anything is loaded that an old one does not have.
  const main = readFileSync(new URL('../src/main.ts', import.meta.url), 'utf8');
  expect([...main.matchAll(/^import .* from '(.*)'/gm)].map(([, from]) => from)).toEqual([
    './node-version.ts',
    './warnings.ts',
  ]);
  for (const version of ['v22.18.0', 'v22.100.0', 'v24.1.0', process.version])
    expect(nodeTrouble(version)).toBeUndefined();
});

test('help and version are no errors', async () => {
  const help = await run(['--help'], { cwd: folder });
  expect(help).toMatchObject({ code: 0, stderr: '' });
  for (const name of ['demo', 'list', 'inspect', 'cancel', 'Exit codes: 0']) expect(help.stdout).toContain(name);
  const version = await run(['--version'], { cwd: folder });
  expect(version).toMatchObject({ code: 0, stderr: '' });
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});
