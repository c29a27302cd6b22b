import { expect, test } from 'vitest';
import { call, lookup, receiver, seen, type Call } from './receiver.ts';

const HUGE = 'k'.repeat(513);
const requests: readonly (readonly [what: string, field: string, bad: Call])[] = [
  ['no key', 'Idempotency-Key', { key: undefined }],
  ['an empty key', 'Idempotency-Key', { key: '' }],
  ['an empty quoted key', 'Idempotency-Key', { key: '""' }],
  ['a key with a space', 'Idempotency-Key', { key: 'a b' }],
  ['a key that is quoted on one side', 'Idempotency-Key', { key: '"a' }],
  ['a quoted key with parameters', 'Idempotency-Key', { key: '"a";b=1' }],
  ['a quoted key with a wrong escape', 'Idempotency-Key', { key: String.raw`"a\b"` }],
  ['a huge key', 'Idempotency-Key', { key: HUGE }],
  ['a key of other bytes than ASCII', 'Idempotency-Key', { key: 'caf\u00e9' }],
  ['a key with a tab', 'Idempotency-Key', { key: 'a\tb' }],
  ['an empty scope', 'X-Execution-Scope', { scope: '' }],
  ['a huge scope', 'X-Execution-Scope', { scope: HUGE }],
  ['a scope in UTF-8 bytes', 'X-Execution-Scope', { scope: '\u00e4\u00b8\u00ad' }],
  ['no fence', 'X-Execution-Fence', { token: undefined }],
  ['an empty fence', 'X-Execution-Fence', { token: '' }],
  ['a fence of 0', 'X-Execution-Fence', { token: 0 }],
  ['a negative fence', 'X-Execution-Fence', { token: -1 }],
  ['a signed fence', 'X-Execution-Fence', { token: '+1' }],
  ['a fraction', 'X-Execution-Fence', { token: '1.5' }],
  ['a whole fraction', 'X-Execution-Fence', { token: '1.0' }],
  ['an exponent', 'X-Execution-Fence', { token: '1e3' }],
  ['hexadecimal digits', 'X-Execution-Fence', { token: '0x10' }],
  ['a leading zero', 'X-Execution-Fence', { token: '01' }],
  ['a quoted fence', 'X-Execution-Fence', { token: '"1"' }],
  ['words', 'X-Execution-Fence', { token: 'NaN' }],
  ['2^53', 'X-Execution-Fence', { token: '9007199254740992' }],
  ['2^64', 'X-Execution-Fence', { token: '18446744073709551616' }],
];

test.for(requests)(
  'a request with %s gets a 400 that names %s and the remedy, and is not run',
  async ([, field, bad]) => {
    const { handle, runs, store, events } = receiver();
    const answer = await seen(await handle(call(bad)));
    expect(answer).toMatchObject({ status: 400, json: { field } });
    expect(answer.problem).toMatch(/^(missing|malformed)-field$/);
    expect(answer.json['detail']).toMatch(new RegExp(`^${field} .*(send|longest)`));
    expect([runs, store.state.keys]).toEqual([[], []]);
    expect(events).toMatchObject([{ name: 'guard_refused', status: 400, field }]);
  },
);

test.for(['Idempotency-Key', 'X-Execution-Fence', 'X-Execution-Scope'])(
  'two %s headers are refused, even when they agree',
  async (name) => {
    const { handle, runs } = receiver();
    const request = call();
    request.headers.append(name, request.headers.get(name) as string);
    expect(await seen(await handle(request))).toMatchObject({ status: 400, json: { field: name } });
    expect(runs).toEqual([]);
  },
);

test('the highest fence and the longest key that can be used are used', async () => {
  const { handle } = receiver();
  expect((await handle(call({ token: '9007199254740991', key: 'k'.repeat(512) }))).status).toBe(201);
});

const good = { scope: 'task-1', fence: 1, key: 'k' };
const looks: readonly (readonly [what: string, field: string, body: unknown])[] = [
  ['an empty body', 'body', ''],
  ['broken JSON', 'body', '{"scope":'],
  ['bytes that are not UTF-8', 'body', Uint8Array.of(0x7b, 0xff, 0x7d)],
  ['an array', 'body', [good]],
  ['null', 'body', 'null'],
  ['text', 'body', '"scope"'],
  ['no key', 'key', { ...good, key: undefined }],
  ['an empty key', 'key', { ...good, key: '' }],
  ['a key that is a number', 'key', { ...good, key: 1 }],
  ['a key that is null', 'key', { ...good, key: null }],
  ['a key of other text than ASCII', 'key', { ...good, key: '中' }],
  ['a huge key', 'key', { ...good, key: HUGE }],
  ['a scope that is an object', 'scope', { ...good, scope: {} }],
  ['no fence', 'fence', { scope: 'task-1', key: 'k' }],
  ['a fence in quotes', 'fence', { ...good, fence: '1' }],
  ['a fraction', 'fence', { ...good, fence: 1.5 }],
  ['a negative fence', 'fence', { ...good, fence: -1 }],
  ['a fence of 0', 'fence', { ...good, fence: 0 }],
  ['2^53', 'fence', '{"scope":"task-1","key":"k","fence":9007199254740992}'],
  ['an infinite fence', 'fence', '{"scope":"task-1","key":"k","fence":1e999}'],
  ['__proto__', '__proto__', '{"scope":"task-1","fence":1,"key":"k","__proto__":{"fence":9}}'],
  ['only __proto__', '__proto__', '{"__proto__":{"scope":"task-1","fence":1,"key":"k"}}'],
  ['constructor', 'constructor', '{"scope":"task-1","fence":1,"key":"k","constructor":{"prototype":{}}}'],
  ['prototype', 'prototype', '{"scope":"task-1","fence":1,"key":"k","prototype":1}'],
];

test.for(looks)('a look with %s gets a 400 that names %s, and raises no token', async ([, field, body]) => {
  const { handle, store } = receiver();
  expect(await seen(await handle(lookup(body)))).toMatchObject({ status: 400, json: { field } });
  expect(store.state.highest('task-1')).toBeUndefined();
  expect(({} as Record<string, unknown>)['fence']).toBeUndefined();
});

test('a look that is too long is refused, one that is no POST told the method', async () => {
  const { handle } = receiver();
  expect((await handle(lookup({ ...good, more: 'x'.repeat(20_000) }))).status).toBe(413);
  const get = await handle(new Request('http://receiver.test/.well-known/leasehold/look'));
  expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST']);
});

test('members of a look that this version does not know are ignored', async () => {
  const { handle } = receiver();
  expect(await seen(await handle(lookup({ ...good, since: 1 })))).toMatchObject({
    status: 200,
    json: { state: 'absent' },
  });
});

test.for([
  ['{', 'body'],
  ['{}', 'body'],
  ['{"run":{}}', 'key'],
  ['{"run":{"key":"k"}}', 'fence'],
  ['{"run":{"key":"k","fence":"1.5"}}', 'fence'],
  ['{"run":{"key":7,"fence":1}}', 'key'],
  ['{"run":{"key":"k","fence":1,"scope":""}}', 'scope'],
] as const)('a body %s that an extract hook cannot use gets a 400 that names %s', async ([body, field]) => {
  const { handle, runs } = receiver({
    extract: (_, json) => {
      const { run } = json as { run: { scope?: string; fence?: number; key?: string } };
      if (Object.keys(run).length === 0) return {};
      return { ...run, content: null };
    },
  });
  expect(await seen(await handle(call({ body })))).toMatchObject({ status: 400, json: { field } });
  expect(runs).toEqual([]);
});

test('a body that breaks off on its way is a 400 and nothing is run', async () => {
  const { handle, runs } = receiver();
  const body = new ReadableStream({ pull: (stream) => stream.error(new Error('connection reset')) });
  const headers = { 'idempotency-key': 'k', 'x-execution-fence': '1' };
  const request = new Request('http://receiver.test/', { method: 'POST', headers, body, duplex: 'half' });
  expect(await seen(await handle(request))).toMatchObject({ status: 400, problem: 'malformed-body' });
  expect(runs).toEqual([]);
});

test('a body that was read before the guard saw it is a mistake of the receiver, and says so', async () => {
  const { handle } = receiver();
  const request = call();
  await request.text();
  await expect(handle(request)).rejects.toThrow(/mount the guard first/);
});
