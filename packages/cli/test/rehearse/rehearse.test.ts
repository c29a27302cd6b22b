import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run, type Ended } from '../command-line.ts';
import { runAll } from './run-all.ts';

const HANDLERS = {
  clean: fileURLToPath(new URL('./handlers/clean.ts', import.meta.url)),
  bare: fileURLToPath(new URL('./handlers/bare.ts', import.meta.url)),
  cannotRun: fileURLToPath(new URL('./handlers/cannot-run.ts', import.meta.url)),
  startsWorker: fileURLToPath(new URL('./handlers/starts-worker.ts', import.meta.url)),
  unsafe: fileURLToPath(new URL('./handlers/unsafe.ts', import.meta.url)),
} as const;

interface Report {
  readonly verdict: string;
  readonly runs: number;
  readonly steps: readonly { readonly step: number; readonly what: string }[];
  readonly calls: readonly {
    readonly call: string;
    readonly where: string;
    readonly usual: number;
    readonly most: number;
    readonly twice: boolean;
    readonly changed: boolean;
    readonly keyless: boolean;
    readonly repeatable: boolean;
    readonly causes: readonly { readonly kind: string; readonly step: string }[];
  }[];
  readonly rejected: readonly {
    readonly worker: string;
    readonly token: number;
    readonly fault: { readonly kind: string };
  }[];
  readonly violations: readonly unknown[];
  readonly unreadable: readonly { readonly what: string; readonly problem: string; readonly remedy: string }[];
  readonly unsettled: readonly { readonly outcome: string; readonly why: string }[];
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-rehearse-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}
const rehearse = (handlers: keyof typeof HANDLERS, ...args: readonly string[]): Promise<Ended> =>
  run(['rehearse', '--handlers', HANDLERS[handlers], ...args], { cwd: folder });
const order = { order: 'o-1', cents: 1200 };

test('a handler whose calls are effects that can be read back is clean: exit 0, a table, and no word of the handler in it', async () => {
  const ended = await rehearse('clean', '--task', 'charge', '--input', file('order.json', order));
  expect(ended.stdout).toMatch(/POST https:\/\/pay\.example\/charges │ effect charge \(guarded\) │ once +│ once +│ ok/);
  expect(ended.stdout).toMatch(/Results rejected: [1-9]\d*, of a worker that came back/);
  expect(ended.stdout).toContain('Effects without a usable read-back: none.');
  expect(ended.stdout).toMatch(/Clean: [^\n]*\n$/);
  // The handler prints to stdout: once aside, so that the report stays whole.
  expect(ended).toMatchObject({ code: 0, stderr: 'charged made-1, risk undefined\n' });
});

test('a bare request is found to be made twice: exit 1, with its name and what made it happen', async () => {
  const ended = await rehearse('bare');
  expect(ended).toMatchObject({ code: 1, stderr: '' });
  expect(ended.stdout).toMatch(
    /POST https:\/\/mail\.example\/messages │ the handler itself │ once +│ 2 times +│ MADE TWICE/,
  );
  expect(ended.stdout).toContain('  killed after step 4 (POST https://mail.example/messages)\n');
  expect(ended.stdout).toContain('    -> make it in ctx.effect;');
  expect(ended.stdout).toMatch(/Not clean: 1 of 1 external calls can be made twice\.\n$/);
});

test('an input that does not fit: exit 2, with the fields and what to do', async () => {
  const ended = await rehearse('clean', '--input', file('half.json', { order: 7 }));
  const message =
    /^error: --input does not fit the input of charge; mend .*half\.json: +order: expected text +cents: expected a number\n$/;
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(message) as string });
});

interface Case {
  readonly what: string;
  readonly handlers: string;
  readonly args?: () => readonly string[];
  readonly says: RegExp;
}

const IMPOSSIBLE: readonly Case[] = [
  {
    what: 'no input where one is needed',
    handlers: HANDLERS.clean,
    says: /--input does not fit the input of charge; give one with --input <file>/,
  },
  {
    what: 'an input that is no JSON',
    handlers: HANDLERS.clean,
    args: () => ['--input', file('text.json', 'order')],
    says: /--input .*text\.json is not JSON/,
  },
  {
    what: 'an input that is not there',
    handlers: HANDLERS.clean,
    args: () => ['--input', 'nowhere.json'],
    says: /--input nowhere\.json cannot be read: give the path/,
  },
  {
    what: 'a task that is not exported',
    handlers: HANDLERS.clean,
    args: () => ['--task', 'refund'],
    says: /--task refund is not exported by .*clean\.ts: name one of charge/,
  },
  {
    what: 'no task where there are several',
    handlers: HANDLERS.unsafe,
    says: /--task is missing, .* name one of asks, forgets, keyless, new-key, unknowing/,
  },
  {
    what: 'doubles that say nothing',
    handlers: HANDLERS.bare,
    args: () => ['--doubles', file('bad.json', [{ request: 'https://x.example' }])],
    says: /--doubles .*bad\.json, entry 1: request has to be a method and an address/,
  },
  {
    what: 'doubles with a field that there is not',
    handlers: HANDLERS.bare,
    args: () => ['--doubles', file('odd.json', [{ request: 'GET https://x.example', bod: 1 }])],
    says: /entry 1: bod is not a field; there are request, /,
  },
  {
    what: 'a task that needs a database',
    handlers: HANDLERS.cannotRun,
    args: () => ['--task', 'database'],
    says: /note: connections were refused to db\.example:5432: without --live .*\nerror: the task does not settle/,
  },
  {
    what: 'an effect that forgets the headers',
    handlers: HANDLERS.cannotRun,
    args: () => ['--task', 'forgetful'],
    says: /note: POST https:\/\/crm\.example\/cases was answered 400: The request bears no Idempotency-Key: pass the headers/,
  },
  {
    what: 'a module that is not there',
    handlers: 'gone.ts',
    says: /--handlers gone\.ts does not exist: give the module/,
  },
  {
    what: 'a module without tasks',
    handlers: 'empty.ts',
    says: /--handlers empty\.ts exports no task: export what defineTask answers/,
  },
  {
    what: 'a module that starts a worker, which would take real tasks',
    handlers: HANDLERS.startsWorker,
    says: /cannot be imported: This module starts a worker .* only exports tasks/,
  },
  { what: 'a module that throws', handlers: 'broken.ts', says: /--handlers broken\.ts cannot be imported: no luck/ },
];

test('what cannot be run ends with exit 2, and says what and what to do', async () => {
  file('empty.ts', 'export const x: number = 1;');
  file('broken.ts', 'throw new Error("no luck");');
  const ends = await runAll(
    IMPOSSIBLE.map(({ handlers, args }) => ['rehearse', '--handlers', handlers, ...(args?.() ?? [])]),
    folder,
  );
  for (const [index, { what, says }] of IMPOSSIBLE.entries()) {
    expect(ends[index], what).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(says) as string });
  }
});

const doubles = {
  scores: [
    { request: 'GET https://scores.example/*', body: { score: 7 } },
    { request: 'POST https://pay.example/charges', status: 200, body: { id: 'ch_{id}', key: '{key}' } },
    { request: 'GET https://pay.example/charges?key=*', body: { id: 'ch_{id}' }, absent: { status: 404 } },
  ],
  model: [{ request: 'POST https://model.example/*', body: { choices: [{ text: 'short' }] }, repeatable: true }],
} as const;
const EXPECTED: readonly {
  readonly what: string;
  readonly args: () => readonly string[];
  readonly code: number;
  check(found: Report, stderr: string): void;
}[] = [
  {
    what: 'every step is struck in four ways, and answers come from the doubles file',
    args: () => [
      HANDLERS.clean,
      '--input',
      file('order.json', order),
      '--doubles',
      file('scores.json', doubles.scores),
    ],
    code: 0,
    check(found, stderr) {
      expect(stderr).toBe('charged ch_made-1, risk 7\n');
      expect(found).toMatchObject({ verdict: 'clean', violations: [], unreadable: [], unsettled: [] });
      expect(found.runs).toBe(4 * found.steps.length);
      const steps = [
        'ledger: claim',
        'call risk',
        'ledger: intent charge',
        'commit charge',
        'read back charge',
        'ledger: settle',
        'broker: complete',
      ];
      expect(found.steps.map(({ what }) => what)).toEqual(expect.arrayContaining(steps));
      expect(found.calls).toMatchObject([{ usual: 1, most: 1, twice: false, causes: [] }]);
      const rejected = found.rejected.map(({ worker, token, fault }) => `${worker} ${token} ${fault.kind}`);
      expect(new Set(rejected)).toEqual(new Set(['first 1 paused before', 'first 1 paused after']));
    },
  },
  {
    what: 'what a handler keeps in a variable does not reach the worker that takes over',
    args: () => [HANDLERS.unsafe, '--task', 'forgets'],
    code: 1,
    check: (found) =>
      expect(found).toMatchObject({
        verdict: 'made-twice',
        calls: [{ where: 'the handler itself', most: 2, twice: true }],
      }),
  },
  {
    what: 'a key that every attempt makes up is found, although no two requests are alike',
    args: () => [HANDLERS.unsafe, '--task', 'new-key'],
    code: 1,
    check(found) {
      expect(found.calls).toMatchObject([{ where: 'ctx.call pay', twice: true, changed: true }]);
      expect(found.unreadable).toMatchObject([{ what: 'POST https://pay.example/charges in ctx.call pay' }]);
    },
  },
  {
    what: 'an effect that does not send its key is made twice, and told why',
    args: () => [HANDLERS.unsafe, '--task', 'keyless'],
    code: 1,
    check(found) {
      expect(found.calls).toMatchObject([{ where: 'effect pay (idempotent)', twice: true, keyless: true }]);
      expect(found.calls[0]?.causes.map(({ kind, step }) => `${kind} ${step}`)).toContain('killed after commit pay');
    },
  },
  {
    what: 'an effect at a plain receiver is never made twice, listed as not readable, and its runs that end in doubt are shown',
    args: () => [HANDLERS.unsafe, '--task', 'unknowing'],
    code: 0,
    check(found) {
      expect(found).toMatchObject({ verdict: 'clean', calls: [{ most: 1, twice: false }] });
      expect(found.unreadable).toMatchObject([
        {
          what: 'effect wire',
          problem: expect.stringContaining('ends in-doubt') as string,
          remedy: expect.stringContaining('quiesce') as string,
        },
      ]);
      expect(found.unsettled[0]).toMatchObject({
        outcome: 'dead-lettered',
        why: expect.stringMatching(/It cannot be told whether effect "wire" exists/) as string,
      });
    },
  },
  {
    what: 'what may be repeated is said in the doubles file, and people are answered for',
    args: () => [HANDLERS.unsafe, '--task', 'asks', '--doubles', file('model.json', doubles.model)],
    code: 0,
    check: (found) =>
      expect(found).toMatchObject({
        calls: [{ repeatable: true, twice: false, usual: 2, most: 3 }],
        unreadable: [],
        unsettled: [],
      }),
  },
];

let reports: readonly Ended[] | undefined;
test.each(EXPECTED)('$what', async ({ what, code, check }) => {
  reports ??= await runAll(
    EXPECTED.map(({ args }) => ['rehearse', '--json', '--handlers', ...args()]),
    folder,
  );
  const ended = reports[EXPECTED.findIndex((one) => one.what === what)];
  expect(ended?.code, ended?.stderr).toBe(code);
  check(JSON.parse(ended?.stdout ?? '') as Report, ended?.stderr ?? '');
});

test('with --live every call goes out, and what the receiver did counts', async () => {
  const seen: string[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    seen.push(`${request.method} ${request.url}`);
    request
      .resume()
      .on('end', () =>
        response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ id: `m-${seen.length}` })),
      );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const source = `
    import { defineTask } from '@leasehold/worker';
    export const send = defineTask({ type: 'send', run: async () => {
      await (await fetch('http://127.0.0.1:${port}/messages', { method: 'POST', body: '{}' })).json();
    } });`;
  try {
    // Beside the others, so that the package is found from there.
    const module = join(import.meta.dirname, 'handlers', `live-${process.pid}.ts`);
    writeFileSync(module, source);
    try {
      const { code, stdout, stderr } = await run(['rehearse', '--handlers', module, '--live', '--json'], {
        cwd: folder,
      });
      const found = JSON.parse(stdout) as Report;
      expect(code).toBe(1);
      expect(stderr).toBe('--live: every call of every run really goes out\n');
      expect(found.calls).toMatchObject([
        { call: `POST http://127.0.0.1:${port}/messages`, usual: 1, most: 2, twice: true },
      ]);
      expect(new Set(seen)).toEqual(new Set(['POST /messages']));
      // Once per run, and once more where it was made twice.
      expect(seen.length).toBeGreaterThan(found.runs);
    } finally {
      rmSync(module);
    }
  } finally {
    server.close();
  }
});
