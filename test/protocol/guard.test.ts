import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLeaseBroker, virtualClock, type GuardStore } from '@leasehold/core';
import { memoryBroker, memoryGuard, memoryLedger, type MemoryGuard } from '@leasehold/core/memory';
import { guard, LOOK_PATH, NothingHappened, type GuardHandler, type GuardContext } from '@leasehold/guard';
import { createWorker, defineTask, withLease } from '@leasehold/worker';
import { problemStatus } from '../../packages/guard/src/problem.ts';
import { call, HOLD, latch, lookup, receiver, settled } from '../../packages/guard/test/receiver.ts';
import { codes, table, tables } from './page.ts';
import { complaints, schema } from './schemas.ts';

type ProblemName = Parameters<typeof problemStatus>[0];

const HEADERS = 'headers.schema.json';
const ASK = 'look.schema.json#/$defs/ask';
const ANSWER = 'look.schema.json#/$defs/answer';
const PROBLEM = 'problem.schema.json';
const ascii = (min: number, max: number): fc.Arbitrary<string> =>
  fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCodePoint(code)),
    minLength: min,
    maxLength: max,
  });

/** Commits one effect under a lease and gives the headers its call was made with. */
async function headersOf(taskId: string, key: string): Promise<Readonly<Record<string, string>>> {
  let sent: Readonly<Record<string, string>> = {};
  const clock = virtualClock();
  const result = await withLease({ ledger: memoryLedger({ clock }), taskId, type: 'open-case', clock }, (ctx) =>
    ctx.effect('create', {
      system: 'tickets',
      key,
      commit: ({ headers }) => void (sent = headers),
      readBack: () => 'case-7',
      receipt: (externalId) => ({ externalId, status: 'open' }),
    }),
  );
  expect(result.outcome).toBe('settled');
  return sent;
}

test('the headers of an effect are valid, and a guard reads the same scope, token and key out of them', async () => {
  await fc.assert(
    fc.asyncProperty(ascii(1, 256), ascii(1, 300), async (taskId, key) => {
      const headers = await headersOf(taskId, key);
      expect(complaints(HEADERS, headers)).toEqual([]);
      const { handle, contexts } = receiver();
      const { status } = await handle(new Request('http://receiver.test/cases', { method: 'POST', headers }));
      expect([status, contexts[0]?.scope, contexts[0]?.token, contexts[0]?.key]).toEqual([201, taskId, 1, key]);
    }),
    { numRuns: 40 },
  );
});

test('a worker sends the headers of the page, with the trace of the task, in calls and in looks', async () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const seen: Record<string, string>[] = [];
  const clock = virtualClock();
  const ledger = memoryLedger({ clock });
  const broker = createLeaseBroker({ driver: memoryBroker({ clock }), ledger, clock });
  const task = defineTask({
    type: 'open-case',
    run: (_input, ctx) =>
      ctx.effect('create', {
        system: 'tickets',
        commit: ({ headers }) => void seen.push({ ...headers }),
        readBack: ({ headers }) => seen.push({ ...headers }),
        receipt: () => ({ externalId: 'case-7', status: 'open' }),
      }),
  });
  const worker = createWorker({ broker, tasks: [task], signals: false });
  let ended = false;
  void worker.run().then(() => (ended = true));
  await broker.enqueue([{ type: 'open-case', input: null, taskId: 'task-1', traceparent }]);
  await clock.runUntil(() => ledger.table.records[0]?.state === 'settled', 60_000);
  void worker.stop();
  await clock.runUntil(() => ended, 60_000);
  expect(ended).toBe(true);
  expect(seen).toHaveLength(2);
  for (const headers of seen) {
    expect(complaints(HEADERS, headers)).toEqual([]);
    expect(headers['traceparent']).toBe(traceparent);
    const named = tables('Effects').flatMap((found) => found.flatMap((row) => codes(row['header'])));
    expect(Object.keys(headers).toSorted()).toEqual(named.map((name) => name.toLowerCase()).toSorted());
    expect(Object.keys(headers).toSorted()).toEqual(Object.keys(schema('headers').properties ?? {}).toSorted());
  }
});

/** Bare, quoted, escaped, and wrong in every way a header can carry. */
const headerText = fc.oneof(
  ascii(1, 12),
  ascii(1, 12).map((text) => `"${text}"`),
  ascii(1, 12).map((text) => `"${text.replaceAll(/[\\"]/g, String.raw`\$&`)}"`),
  fc.constantFrom(
    '',
    '""',
    '"',
    'a b',
    'a,b',
    'x'.repeat(512),
    'x'.repeat(513),
    `"${'x'.repeat(512)}"`,
    `"${'x'.repeat(513)}"`,
    'café',
  ),
);
const headerFence = fc.oneof(
  fc.maxSafeNat().map(String),
  fc.constantFrom('0', '01', '-1', '1.5', '1e3', '', 'x', '1'.repeat(17), '9007199254740991'),
);

test('a guard takes headers if and only if they are valid', async () => {
  const tally = { taken: 0, refused: 0 };
  const any = fc.record(
    { 'x-execution-scope': headerText, 'x-execution-fence': headerFence, 'idempotency-key': headerText },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(any, async (found) => {
      // A header's value is trimmed on its way. Without a scope the guard takes the key for it; a worker has to send one.
      const sent = Object.fromEntries(Object.entries(found).map(([name, value]) => [name, value.trim()]));
      const headers = { 'x-execution-scope': 'task-1', ...sent };
      const { status } = await receiver().handle(new Request('http://receiver.test/', { method: 'POST', headers }));
      expect(status === 201, `${JSON.stringify(headers)} was answered ${status}`).toBe(
        complaints(HEADERS, headers).length === 0,
      );
      tally[status === 201 ? 'taken' : 'refused']++;
    }),
    { numRuns: 400 },
  );
  expect(Math.min(tally.taken, tally.refused)).toBeGreaterThan(30);
});

test('the look endpoint takes an ask if and only if it is valid, and its answer is valid', async () => {
  const tally = { taken: 0, refused: 0 };
  const looked = fc.oneof(
    { weight: 4, arbitrary: ascii(1, 20) },
    fc.constantFrom<unknown>('', 'ä', 7, null, 'x'.repeat(512), 'x'.repeat(513)),
  );
  const any = fc.record(
    {
      scope: looked,
      key: looked,
      fence: fc.oneof(fc.maxSafeNat(), fc.constantFrom<unknown>(0, -1, 1.5, '1', null, 2 ** 53)),
      constructor: fc.constant('x'),
      more: fc.jsonValue(),
    },
    { requiredKeys: ['key', 'fence'] },
  );
  await fc.assert(
    fc.asyncProperty(any, fc.boolean(), async (found, poisoned) => {
      const { constructor: poison, ...rest } = found;
      const ask = poisoned && Object.hasOwn(found, 'constructor') ? { ...rest, constructor: poison } : rest;
      const response = await receiver().handle(lookup(ask));
      const body: unknown = await response.json();
      expect(response.status === 200, JSON.stringify(ask)).toBe(complaints(ASK, ask).length === 0);
      expect(complaints(response.status === 200 ? ANSWER : PROBLEM, body)).toEqual([]);
      tally[response.status === 200 ? 'taken' : 'refused']++;
    }),
    { numRuns: 300 },
  );
  expect(Math.min(tally.taken, tally.refused)).toBeGreaterThan(30);
});

const ask = { scope: 'task-1', fence: 1, key: 'k' };

test('every state of the look endpoint is answered in the form of the schema', async () => {
  const states = new Set<string>();
  const look = async (handle: (request: Request) => Promise<Response>, asked: object = ask): Promise<void> => {
    const answer = (await (await handle(lookup(asked))).json()) as Record<string, unknown>;
    expect(complaints(ANSWER, answer), JSON.stringify(answer)).toEqual([]);
    states.add(String(answer['state']));
  };
  const gate = latch<Response>();
  const slow = receiver({}, () => gate.promise);
  await look(slow.handle);
  const running = slow.handle(call());
  await settled();
  await look(slow.handle);
  gate.open(new Response(Uint8Array.of(0xff, 0xfe)));
  await running;
  await look(slow.handle);
  await look(slow.handle, { ...ask, fence: 9 });
  await look(slow.handle, { ...ask, fence: 8 });

  const failing = receiver({}, () => {
    throw new Error('down');
  });
  await expect(failing.handle(call())).rejects.toThrow('down');
  await failing.clock.advance(HOLD + 1);
  await look(failing.handle);

  const large = receiver({ maxStoredBytes: 2 });
  await large.handle(call());
  await look(large.handle);
  expect([...states].toSorted()).toEqual(
    tables('Look endpoint')
      .flatMap((found) => found.flatMap((row) => codes(row['`state`'])))
      .toSorted(),
  );
});

/** The answer of a guard whose store fails at one operation, however often it is repeated. */
async function atBroken(operation: 'begin' | 'finish'): Promise<Response> {
  const wrap = (store: MemoryGuard): GuardStore => ({ ...store, [operation]: () => Promise.reject(new Error('down')) });
  const { handle, clock } = receiver({}, undefined, wrap);
  const answer = handle(call());
  await clock.advance(HOLD);
  return answer;
}

/** How each problem comes about at a guard. */
const problems: Readonly<Record<ProblemName, () => Promise<Response>>> = {
  'missing-field': () => receiver().handle(call({ key: undefined })),
  'malformed-field': () => receiver().handle(call({ token: 'x' })),
  'malformed-body': () => receiver().handle(lookup('{')),
  'body-too-large': () => receiver({ maxBodyBytes: 3 }).handle(call()),
  'method-not-allowed': () => receiver().handle(new Request(`http://receiver.test${LOOK_PATH}`)),
  'stale-token': () => second({}, call({ token: 2 }), call({ token: 1 })),
  'key-reused': () => second({}, call(), call({ body: 'another' })),
  async 'in-progress'() {
    const { handle } = receiver({}, () => new Promise(() => undefined));
    void handle(call());
    await settled();
    return handle(call());
  },
  async 'in-doubt'() {
    const { handle, clock } = receiver({}, () => new Response('', { status: 502 }));
    await handle(call());
    await clock.advance(HOLD + 1);
    return handle(call());
  },
  'response-not-kept': () => second({ maxStoredBytes: 2 }, call(), call()),
  'nothing-happened': () => refusing(() => Promise.reject(new NothingHappened())),
  'outcome-unknown': () => atBroken('finish'),
  'store-unavailable': () => atBroken('begin'),
};

async function second(options: Parameters<typeof receiver>[0], first: Request, then: Request): Promise<Response> {
  const { handle } = receiver(options);
  await handle(first);
  return handle(then);
}

function refusing(handler: GuardHandler<GuardContext>): Promise<Response> {
  return receiver({}, handler).handle(call());
}

test.each(Object.keys(problems) as ProblemName[])(
  'the problem %s is as the schema and the page have it',
  async (name) => {
    const response = await problems[name]();
    const problem = (await response.json()) as Record<string, unknown>;
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(problem['type']).toBe(`urn:leasehold:problem:${name}`);
    expect(complaints(PROBLEM, problem)).toEqual([]);
    expect([problem['status'], problemStatus(name)]).toEqual([response.status, response.status]);
    // With another status, or without a member it has, it is another problem.
    expect(complaints(PROBLEM, { ...problem, status: 418 })).not.toEqual([]);
    const row = tables('Guard')[1]?.find((found) => codes(Object.values(found)[0])[0] === name);
    expect(row?.['status']).toBe(String(response.status));
    const standard = ['type', 'title', 'status', 'detail'];
    expect(codes(row?.['more members']).filter((member) => !member.includes(':'))).toEqual(
      Object.keys(problem).filter((member) => !standard.includes(member)),
    );
    const retryAfter = response.headers.get('retry-after');
    expect(row?.['`Retry-After`']).toMatch(retryAfter === null ? /^$|or none/ : new RegExp(`^${retryAfter} s`));
  },
);

test('the problems of schema, page and code are the same', () => {
  const names = Object.keys(problems).toSorted();
  const types = schema('problem').properties?.['type']?.enum ?? [];
  expect(types.map((type) => String(type).replace('urn:leasehold:problem:', '')).toSorted()).toEqual(names);
  expect(
    tables('Guard')[1]
      ?.flatMap((row) => codes(Object.values(row)[0]))
      .toSorted(),
  ).toEqual(names);
});

test('a known key is answered with the stored response and the mark the page names', async () => {
  const handle = guard(
    memoryGuard(),
    { mode: 'enforce', require: 'fence+key', retention: '30d' },
    () => new Response('made', { status: 201 }),
  );
  await handle(call());
  const replay = await handle(call());
  const [mark = ''] = codes(table('Guard')[1]?.['answer']);
  const [name = '', value] = mark.split(': ');
  expect([replay.status, await replay.text(), replay.headers.get(name)]).toEqual([201, 'made', value]);
});
