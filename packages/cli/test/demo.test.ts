import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDynamoDb, startSqs } from '@leasehold/emulators';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { run, runHere, start } from './command-line.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-demo-test-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const BOUND_MS = 150_000;
const PROCESSES = '/proc/self/environ';

/** Processes that were started in a demo of this folder; empty where the system does not show them. */
function processesOf(temporary: string): readonly string[] {
  if (!existsSync(PROCESSES)) return [];
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`TMPDIR=${temporary}\0`);
    } catch {
      // Gone in between.
      return false;
    }
  });
}

test(
  'the demo survives its faults and accounts for every task in one line, and leaves the database when asked',
  async () => {
    const { code, stdout, stderr } = await run(['demo', '--json', '--keep', 'kept'], {
      cwd: folder,
      env: { TMPDIR: folder },
    });
    expect(stderr).toBe(
      'the database is kept/demo.sqlite; look at it with: leasehold list --db kept/demo.sqlite (in a clone: npm run leasehold -- list --db kept/demo.sqlite)\n',
    );
    expect(code).toBe(0);
    const line = JSON.parse(stdout) as Record<string, number>;
    expect(stdout).toBe(`${JSON.stringify(line)}\n`);
    expect(Object.keys(line)).toEqual([
      'tasks',
      'followUps',
      'poison',
      'settled',
      'cancelled',
      'deadLettered',
      'effects',
      'duplicateEffects',
      'lost',
      'takeovers',
      'staleRejected',
      'replays',
      'readBacks',
      'ms',
    ]);
    // 15 good statements: 33 batches and 15 reconciliations; 35 good cases and 7 indexes that were not cancelled.
    expect(line).toMatchObject({
      tasks: 60,
      followUps: 48,
      poison: 1,
      settled: 105,
      cancelled: 1,
      deadLettered: 3,
      effects: 90,
      duplicateEffects: 0,
      lost: 0,
    });
    const value = (name: string): number => line[name] ?? Number.NaN;
    expect(value('settled') + value('cancelled') + value('deadLettered')).toBe(
      value('tasks') + value('followUps') + value('poison'),
    );
    for (const name of ['takeovers', 'staleRejected', 'replays', 'readBacks'])
      expect(value(name)).toBeGreaterThanOrEqual(1);

    const listed = await run(['list', '--db', 'kept/demo.sqlite', '--limit', '1000', '--json'], { cwd: folder });
    expect(JSON.parse(listed.stdout)).toHaveLength(108);
    // Nothing but what was to be kept, and no process.
    expect(readdirSync(folder)).toEqual(['kept']);
    expect(processesOf(folder)).toEqual([]);
  },
  BOUND_MS,
);

test.each([
  ['sqlite', 4],
  // Their servers are a process, too.
  ['aws', 5],
])(
  'Ctrl-C in the middle of a demo on %s ends every process, stopped ones included, removes the temporary folder and says that it was interrupted',
  async (profile, processes) => {
    const child = start(['demo', '--profile', profile], { cwd: folder, env: { TMPDIR: folder } });
    let [stdout, stderr] = ['', ''];
    child.stderr?.on('data', (chunk) => (stderr += String(chunk)));
    const stopped = new Promise<void>((resolve) => {
      child.stdout?.on('data', (chunk) => {
        stdout += String(chunk);
        if (stdout.includes('SIGSTOP')) resolve();
      });
    });
    const closed = once(child, 'close');
    await Promise.race([stopped, closed]);
    expect(processesOf(folder).length).toBeGreaterThanOrEqual(existsSync(PROCESSES) ? processes : 0);
    child.kill('SIGINT');
    const [code] = (await closed) as [number];
    expect({ code, stderr }).toEqual({
      code: 130,
      stderr: 'interrupted: the demo was stopped before its end; nothing is left of it\n',
    });
    // No audit of what did not end.
    expect(stdout).not.toContain('promises not kept');
    expect(readdirSync(folder)).toEqual([]);
    expect(processesOf(folder)).toEqual([]);
  },
  BOUND_MS,
);

test('a file in the way that is not from an earlier demo is left alone', async () => {
  writeFileSync(join(folder, 'demo.sqlite'), 'mine');
  const { code, stdout, stderr } = await run(['demo', '--json', '--keep', '.'], { cwd: folder });
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('the file is not from an earlier demo and stays as it is; name another folder');
  expect(readFileSync(join(folder, 'demo.sqlite'), 'utf8')).toBe('mine');
});

test.each<[what: string, args: string[], says: RegExp]>([
  ['a profile there is not', ['--profile', 'azure'], /--profile <name>.*Write one of sqlite, local, aws/],
  ['aws with something to keep', ['--profile', 'aws', '--keep'], /keep is ".leasehold": a run on AWS leaves nothing/],
  ['servers without aws', ['--endpoint', 'http://127.0.0.1:1'], /endpoint is .*: only the profile aws has servers/],
  [
    'a server that is no URL',
    ['--profile', 'aws', '--endpoint', 'nonsense'],
    /endpoint is "nonsense": write the URL of a server, such as http:/,
  ],
  [
    'a server without its protocol',
    ['--profile', 'aws', '--sqs-endpoint', 'http://127.0.0.1:1', '--dynamodb-endpoint', 'localhost:8000'],
    /endpoint is "localhost:8000": write the URL of a server/,
  ],
  ['one server of two', ['--profile', 'aws', '--sqs-endpoint', 'http://127.0.0.1:1'], /--dynamodb-endpoint is missing/],
])('%s: says what is wrong and what to do', async (_what, args, says) => {
  const ended = await runHere(['demo', '--json', ...args]);
  expect(ended.stderr).toMatch(says);
  expect(ended).toMatchObject({ code: 2, stdout: '' });
});

test('a server that is not there is an error, and nothing is said to be left behind', async () => {
  const credentials = { AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_REGION: 'us-east-1' };
  const ended = await runHere(['demo', '--json', '--profile', 'aws', '--endpoint', 'http://127.0.0.1:1'], credentials);
  expect(ended).toMatchObject({ code: 1, stdout: '' });
  expect(ended.stderr).toMatch(
    /^error: a queue and a table could not be made at http:\/\/127.0.0.1:1: ECONNREFUSED.*\n$/,
  );
});

test(
  'the demo on servers that are there keeps the same invariants, and leaves nothing behind on them',
  async () => {
    const [sqs, dynamodb] = await Promise.all([startSqs(), startDynamoDb()]);
    try {
      const { accessKeyId, secretAccessKey } = sqs.credentials;
      const servers = ['--sqs-endpoint', sqs.endpoint, '--dynamodb-endpoint', dynamodb.endpoint];
      const { code, stdout, stderr } = await run(['demo', '--json', '--profile', 'aws', ...servers], {
        cwd: folder,
        env: { AWS_REGION: sqs.region, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
      });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(JSON.parse(stdout)).toMatchObject({
        ...{ tasks: 60, followUps: 48, poison: 1, settled: 105, cancelled: 1, deadLettered: 3 },
        ...{ effects: 90, duplicateEffects: 0, lost: 0 },
      });
      expect(sqs.faults.calls('DeleteQueue')).toBe(sqs.faults.calls('CreateQueue'));
      expect(dynamodb.faults.calls('DeleteTable')).toBe(dynamodb.faults.calls('CreateTable'));
      expect(sqs.faults.calls('ReceiveMessage')).toBeGreaterThan(0);
      expect(dynamodb.faults.calls('PutItem')).toBeGreaterThan(0);
    } finally {
      await Promise.all([sqs.close(), dynamodb.close()]);
    }
  },
  BOUND_MS,
);
