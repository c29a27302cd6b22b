import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock } from '@leasehold/core';
import { dynamoDbGuard, dynamoDbLedger } from '@leasehold/dynamodb';
import { after, claimed, machine, never, type Machine, type Table } from './machine.ts';

const SLEEP_MS = 600_000;

let one: Machine;
let table: Table;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  table = await one.table({ table: 'sleeping' });
});
afterEach(() => table.dispose());

/** What the handlers of the SDK answer with. */
interface Answered {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Of a machine that sleeps while a request is on its way, or its answer: the monotonic clock stands still, its wall clock is right afterwards. */
function sleeper() {
  let slept = 0;
  let asleepSince: number | undefined;
  let next: 'request' | 'answer' | undefined;
  let itemed = false;
  const clock: Clock = {
    monotonic: () => (asleepSince ?? one.clock.monotonic()) - slept,
    wall: () => one.clock.wall(),
    timer: (...timer) => one.clock.timer(...timer),
  };
  const { endpoint, region, credentials } = one.server;
  const { requestHandler: inner } = one.client().config;
  const sleepIf = async (what: typeof next): Promise<void> => {
    if (next !== what) return;
    next = undefined;
    asleepSince = one.clock.monotonic();
    await one.time.advance(SLEEP_MS);
    slept += SLEEP_MS;
    asleepSince = undefined;
  };
  const handle: typeof inner.handle = async (...call) => {
    await sleepIf('request');
    const answer = await inner.handle(...call);
    const response = answer.response as Answered;
    if (itemed && response.statusCode === 400) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of response.body) chunks.push(chunk);
      const refused = JSON.parse(Buffer.concat(chunks).toString()) as object;
      const body = JSON.stringify({ ...refused, Item: await table.item('guard#s') });
      const { 'content-length': _, 'x-amz-crc32': __, ...headers } = response.headers;
      Object.assign(response, { body: Readable.from([Buffer.from(body)]), headers });
    }
    await sleepIf('answer');
    return answer;
  };
  const requestHandler = { metadata: inner.metadata ?? { handlerProtocol: 'http/1.1' }, handle };
  const client = new DynamoDBClient({ endpoint, region, credentials, maxAttempts: 1, requestHandler });
  // Not counted by the steady time: it goes on while their calls are under way.
  return {
    guard: dynamoDbGuard({ ...table.design, client, clock }),
    ledger: dynamoDbLedger({ ...table.design, client, clock }),
    sleepDuring: (what: 'request' | 'answer') => void (next = what),
    /** As DynamoDB's do, and the emulator's do not: the answer then costs no read that would tell the time. */
    refusalsBearItem: () => void (itemed = true),
  };
}

const ask = { scope: 's', key: 'k', requestHash: 'h', holdMs: 30_000, retentionMs: 86_400_000 };

test('a hold that is taken after a sleep that caught an answer on its way is not in doubt at once', async () => {
  const { guard, sleepDuring } = sleeper();
  await guard.look({ scope: 'elsewhere', key: 'k', token: 1 }, never());
  sleepDuring('answer');
  await guard.look({ scope: 'elsewhere, too', key: 'k', token: 1 }, never());
  expect(await guard.begin({ ...ask, hold: 'mine' }, never())).toEqual({ new: 'mine' });
  expect(await table.guard().begin({ ...ask, hold: 'theirs' }, never())).toBe('in-progress');
});

test('a hold that is taken after a sleep that caught a refused write is no longer than it was asked for', async () => {
  const { guard, sleepDuring, refusalsBearItem } = sleeper();
  await guard.look({ scope: 'elsewhere', key: 'k', token: 1 }, never());
  // Its guess that nothing is there is wrong, so its first write is refused.
  await table.guard().begin({ ...ask, key: 'other', hold: 'theirs' }, never());
  refusalsBearItem();
  sleepDuring('request');
  expect(await guard.begin({ ...ask, hold: 'mine' }, never())).toEqual({ new: 'mine' });
  await one.time.advance(60_000);
  const other = table.guard();
  await other.look({ scope: 'elsewhere', key: 'k', token: 1 }, never());
  expect(await other.begin({ ...ask, hold: 'next' }, never())).toEqual({ inDoubt: 'mine' });
});

test.each([
  ['the answer before', 'answer'],
  ['the request before', 'request'],
  ['the answer to its own read', 'answer'],
  ['the request of its own read', 'request'],
] as const)(
  'a lease that is claimed after a sleep that caught %s on its way is neither over at once nor longer by the sleep',
  async (caught, what) => {
    const { ledger, sleepDuring } = sleeper();
    sleepDuring(what);
    if (caught.endsWith('before')) await ledger.get('elsewhere', never());
    const put = await ledger.put(claimed('x'), { ms: 60_000 }, { version: 0 }, never());
    if (!put.ok) throw new Error('refused');
    const change = { leaseOwner: 'test/2#b', fencingToken: 2 };
    const next = after(put.record, change);
    const theirs = await table.ledger().put(next, { ms: 60_000 }, { version: 1, lease: 'lapsed' }, never());
    expect(theirs.ok).toBe(false);
    expect(put.record.leaseExpiresAt).toBeLessThan(one.clock.wall() + 60_000 + 2_500);
  },
);
