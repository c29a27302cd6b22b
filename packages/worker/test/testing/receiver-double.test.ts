import { expect, test } from 'vitest';
import { receiverDouble, type ReceiverDouble } from '@leasehold/worker/testing';

const URL = 'https://crm.example/cases';

async function post(
  double: ReceiverDouble,
  headers: Record<string, string>,
  body: object = { subject: 'x' },
): Promise<[number, unknown]> {
  const answer = await double.fetch(URL, { method: 'POST', headers, body: JSON.stringify(body) });
  return [answer.status, await answer.json()];
}
const get = async (
  double: ReceiverDouble,
  url: string,
  headers: Record<string, string> = {},
): Promise<[number, unknown]> => {
  const answer = await double.fetch(url, { headers });
  return [answer.status, await answer.json()];
};
const fenced = (key: string, fence: number): Record<string, string> => ({
  'idempotency-key': key,
  'x-execution-fence': String(fence),
  'x-execution-scope': 't',
});

test('a guarded double answers a known key as before and refuses lower fences', async () => {
  const double = receiverDouble({ receiver: 'guarded' });
  const made = [201, { status: 'made', subject: 'x', id: 'made-1' }];
  expect(await post(double, fenced('k', 1))).toEqual(made);
  expect(await post(double, fenced('k', 2))).toEqual(made);
  expect(await post(double, fenced('k', 1))).toMatchObject([409, { type: 'urn:leasehold:problem:stale-token' }]);
  expect(await post(double, fenced('k', 2), { subject: 'y' })).toMatchObject([
    422,
    { type: 'urn:leasehold:problem:key-reused' },
  ]);
  expect(await post(double, { 'idempotency-key': 'j' })).toMatchObject([
    400,
    { type: 'urn:leasehold:problem:missing-field' },
  ]);
  expect(await post(double, { 'x-execution-fence': '3' })).toMatchObject([
    400,
    { type: 'urn:leasehold:problem:missing-field' },
  ]);
  expect(double.made).toHaveLength(1);
  expect(double.requests.map(({ outcome }) => outcome)).toEqual([
    'made',
    'replayed',
    'refused',
    'refused',
    'refused',
    'refused',
  ]);
});

test('a look raises the fence of a guarded double', async () => {
  const double = receiverDouble({ receiver: 'guarded' });
  const look = async (fence: number): Promise<unknown> => {
    const body = JSON.stringify({ scope: 't', fence, key: 'k' });
    return (await double.fetch('https://crm.example/.well-known/leasehold/look', { method: 'POST', body })).json();
  };
  expect(await look(2)).toEqual({ state: 'absent' });
  expect(await post(double, fenced('k', 1))).toMatchObject([409, {}]);
  await post(double, fenced('k', 2));
  expect(await look(2)).toMatchObject({
    state: 'done',
    response: { status: 201, headers: { location: `${URL}/made-1` } },
  });
  expect(await look(1)).toEqual({ state: 'stale', highest: 2 });
});

test('an idempotent double knows keys, a plain one nothing', async () => {
  const keyed = receiverDouble({ receiver: 'idempotent' });
  const plain = receiverDouble({ receiver: 'plain' });
  for (const double of [keyed, plain]) for (const fence of [2, 1]) await post(double, fenced('k', fence));
  expect(keyed.made).toHaveLength(1);
  expect(plain.made.map(({ id, key }) => [id, key])).toEqual([
    ['made-1', 'k'],
    ['made-2', 'k'],
  ]);
  await post(keyed, {});
  await post(keyed, {});
  expect(keyed.made).toHaveLength(3);
});

test('a double answers reads with what it made, by key or id, and as it is told to', async () => {
  const double = receiverDouble({
    read: ({ url }, made) => (url.endsWith('/all') ? { body: { known: made?.id ?? 'none' } } : undefined),
  });
  await post(double, { 'idempotency-key': 'a b' });
  const made = { status: 'made', subject: 'x', id: 'made-1' };
  expect(await get(double, `${URL}?key=a%20b`)).toEqual([200, made]);
  expect(await get(double, `${URL}/made-1`)).toEqual([200, made]);
  expect(await get(double, URL, { 'idempotency-key': '"a b"' })).toEqual([200, made]);
  expect(await get(double, `${URL}/made-11`)).toEqual([200, {}]);
  expect(await get(double, `${URL}/all`)).toEqual([200, { known: 'none' }]);
});

test('a request whose signal has aborted does nothing', async () => {
  const double = receiverDouble();
  const signal = AbortSignal.abort(new Error('too late'));
  await expect(double.fetch(URL, { method: 'POST', signal })).rejects.toThrow('too late');
  expect(double.made).toEqual([]);
});
