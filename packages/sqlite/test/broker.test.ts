import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import fc from 'fast-check';
import type { Delivery, OutgoingMessage } from '@leasehold/core';
import { sqliteBroker, type SqliteBroker, type SqliteBrokerOptions } from '@leasehold/sqlite';
import { machine, never, type Machine } from './machine.ts';

let one: Machine;
const opened: SqliteBroker[] = [];
beforeEach(() => {
  one = machine();
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((broker) => broker.close()));
  one.dispose();
});

function open(options: Partial<SqliteBrokerOptions> = {}): SqliteBroker {
  const broker = sqliteBroker({ ...one.process(), ...options });
  opened.push(broker);
  return broker;
}

const bytes = new TextEncoder();
const textOf = ({ body }: { readonly body: Uint8Array }): string => new TextDecoder().decode(body);
const message = (text: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  body: bytes.encode(text),
  attributes: {},
  ...more,
});
const take = (broker: SqliteBroker, max = 10, leaseMs = 60_000): Promise<readonly Delivery<string>[]> =>
  broker.receive({ max, leaseMs, waitMs: 0 }, never());
const handlesOf = (taken: readonly Delivery<string>[]): string[] => taken.map(({ handle }) => handle);
const why = { reason: 'bad', description: 'cannot be read', attributes: { leaseholdtoken: '3' } };

function rows(table: string): number {
  const db = new DatabaseSync(one.file);
  const row = db.prepare(`SELECT count(*) AS n FROM ${table}`).get();
  db.close();
  return Number(row?.['n']);
}

test('in any history, each group is handed out one at a time and in order, and nothing is lost', async () => {
  const step = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('send' as const),
        group: fc.constantFrom('A', 'B', undefined),
        delayMs: fc.constantFrom(0, 0, 50),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('take' as const), max: fc.integer({ min: 1, max: 4 }) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constantFrom('complete' as const, 'release' as const, 'reject' as const),
        pick: fc.nat(20),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(30, 600) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const mine = machine();
      const broker = sqliteBroker(mine.process());
      const groupOf = new Map<string, string | undefined>();
      const waiting: string[] = [];
      const held = new Map<string, { delivery: Delivery<string>; until: number }>();
      const ended = new Set<string>();
      for (const at of steps) {
        for (const [text, { until }] of held) if (until <= mine.clock.monotonic()) held.delete(text);
        if (at.do === 'send') {
          const text = `${groupOf.size}`;
          groupOf.set(text, at.group);
          waiting.push(text);
          await broker.send(
            [message(text, { delayMs: at.delayMs, ...(at.group !== undefined && { groupId: at.group }) })],
            never(),
          );
        } else if (at.do === 'take') {
          for (const delivery of await take(broker, at.max, 500)) {
            const text = textOf(delivery);
            const group = groupOf.get(text);
            expect(held.has(text) || ended.has(text)).toBe(false);
            expect(delivery.groupId).toBe(group);
            const first = waiting.find((other) => !ended.has(other) && groupOf.get(other) === group);
            if (group !== undefined) expect(text).toBe(first);
            held.set(text, { delivery, until: mine.clock.monotonic() + 500 });
          }
        } else if (at.do === 'pass') {
          await mine.clock.advance(at.ms);
        } else {
          const [text, picked] = [...held][at.pick % Math.max(held.size, 1)] ?? [];
          if (text === undefined || !picked) continue;
          held.delete(text);
          const { handle } = picked.delivery;
          if (at.do === 'complete') expect(await broker.complete([handle], never())).toEqual(['done']);
          if (at.do === 'release') expect(await broker.release([handle], 30, never())).toEqual(['done']);
          if (at.do === 'reject') expect(await broker.reject(handle, why, never())).toBe('done');
          if (at.do !== 'release') ended.add(text);
        }
      }
      await mine.clock.advance(1_000);
      const rest: string[] = [];
      for (let got = await take(broker); got.length > 0; got = await take(broker)) {
        rest.push(...got.map(textOf));
        await broker.complete(handlesOf(got), never());
      }
      expect(rest.sort()).toEqual(waiting.filter((text) => !ended.has(text)).sort());
      await broker.close();
      mine.dispose();
    }),
    { numRuns: 40 },
  );
});

test('a rejected message lets the next of its group forward, so does one that was handed out too often', async () => {
  const broker = open({ maxDeliveries: 1 });
  await broker.send(
    ['A1', 'A2', 'A3'].map((text) => message(text, { groupId: 'A' })),
    never(),
  );
  const [first] = await take(broker);
  await broker.reject(first?.handle ?? '', why, never());
  const [second] = await take(broker);
  await broker.release([second?.handle ?? ''], 0, never());
  expect((await take(broker)).map(textOf)).toEqual(['A3']);
  const { letters } = await broker.deadLetters();
  expect(letters.map((letter) => [textOf(letter), letter.reason, letter.deliveryCount])).toEqual([
    ['A1', 'bad', 1],
    ['A2', 'max-deliveries', 2],
  ]);
});

test('queues in one file keep apart, and so do their dead letters', async () => {
  const [tickets, mails] = [open({ queue: 'tickets' }), open({ queue: 'mails' })];
  await tickets.send([message('ticket')], never());
  await mails.send([message('mail')], never());
  const [mail] = await take(mails);
  expect(await tickets.complete([mail?.handle ?? ''], never())).toEqual(['gone']);
  await mails.reject(mail?.handle ?? '', why, never());
  expect((await take(tickets)).map(textOf)).toEqual(['ticket']);
  expect((await tickets.deadLetters()).letters).toEqual([]);
  expect((await mails.deadLetters()).letters.map(textOf)).toEqual(['mail']);
});

test('dead letters are listed in pages, can be read like a queue, and go back whole when redriven', async () => {
  const broker = open();
  const long = 'x'.repeat(5_000);
  await broker.send(
    [
      message('first', { attributes: { note: 'a', leaseholdtoken: '1' }, groupId: 'G' }),
      message(long),
      message('third'),
    ],
    never(),
  );
  const taken = await take(broker);
  for (const { handle } of taken) await broker.reject(handle, why, never());
  const page = await broker.deadLetters({ limit: 2 });
  const rest = await broker.deadLetters({ limit: 2, ...(page.cursor !== undefined && { cursor: page.cursor }) });
  expect([...page.letters, ...rest.letters].map(textOf)).toEqual(['first', long, 'third']);
  expect(rest.cursor).toBeUndefined();
  expect(page.letters[0]).toMatchObject({
    attributes: { note: 'a', leaseholdtoken: '3' },
    reason: 'bad',
    description: 'cannot be read',
    groupId: 'G',
  });
  await expect(broker.deadLetters({ cursor: 'x' })).rejects.toMatchObject({ code: 'bad-request' });

  const reader = open({ queue: 'default.dead' });
  const [read] = await take(reader, 1);
  expect(textOf(read as Delivery)).toBe('first');
  const ids = [...page.letters, ...rest.letters].map(({ messageId }) => messageId);
  // What a reader holds is not moved under its hands.
  expect(await broker.redrive([...ids, ids[1] as string, 'unknown'])).toBe(2);
  await reader.release([read?.handle ?? ''], 0, never());
  expect(await broker.redrive(ids)).toBe(1);
  const back = await take(broker);
  expect(back.map(textOf).sort()).toEqual(['first', 'third', long].sort());
  expect(back.every(({ deliveryCount }) => deliveryCount === 1)).toBe(true);
  expect(back.find((delivery) => textOf(delivery) === 'first')).toMatchObject({
    groupId: 'G',
    attributes: { note: 'a', leaseholdtoken: '3' },
  });
  expect(await broker.complete(handlesOf(taken), never())).toEqual(['gone', 'gone', 'gone']);
  await broker.complete(handlesOf(back), never());
  expect([rows('leasehold_message'), rows('leasehold_body')]).toEqual([0, 0]);
});

test('a deduplication id makes two sends one within its window, also across processes, and not beyond', async () => {
  const [broker, other] = [open({ deduplication: '1m' }), open({ deduplication: '1m' })];
  const twice = message('once', { deduplicationId: 'task:1' });
  const [first, second] = await broker.send([twice, twice], never());
  const [third] = await other.send([twice], never());
  expect([second, third]).toEqual([first, first]);
  const taken = await take(broker);
  expect(taken).toHaveLength(1);
  await broker.complete(handlesOf(taken), never());
  await one.clock.advance(59_000);
  await other.send([twice], never());
  expect(await take(broker)).toEqual([]);
  await one.clock.advance(2_000);
  await other.send([twice, message('x', { deduplicationId: 'task:2' })], never());
  expect((await take(broker)).map(textOf).sort()).toEqual(['once', 'x']);
  const off = open({ deduplication: false });
  await off.send([twice, twice], never());
  expect(await take(off)).toHaveLength(2);
});

test('depth tells what keeps messages', async () => {
  const broker = open();
  await broker.send([message('held'), message('a'), message('b')], never());
  await take(broker, 1);
  await broker.send(
    [
      message('later', { delayMs: 5_000 }),
      message('G1', { groupId: 'G' }),
      message('G2', { groupId: 'G' }),
      message('dead'),
    ],
    never(),
  );
  const taken = await take(broker);
  const dead = taken.find((delivery) => textOf(delivery) === 'dead');
  await broker.reject(dead?.handle ?? '', why, never());
  await broker.release(handlesOf(taken.filter((delivery) => delivery !== dead)), 0, never());
  expect(await broker.depth()).toEqual({ visible: 3, inFlight: 1, delayed: 1, blocked: 1, deadLetters: 1 });
});

test('what is no handle of this queue is gone, never an error and never another message', async () => {
  const broker = open();
  await broker.send([message('a')], never());
  await take(broker);
  for (const handle of ['', '.', '1', '1.', '1.0', '1.1.1', '01.1e0', '-1.1', '1 OR 1.1', 'NaN.NaN']) {
    expect(await broker.complete([handle], never()), handle).toEqual(['gone']);
  }
});
