import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { brokerSession, messageBytes, type OutgoingMessage } from '@leasehold/core';
import { kinds } from '@leasehold/emulators';
import type { SqsHandle } from '@leasehold/sqs';
import { machine, never, type Machine, type Queue } from './machine.ts';

let one: Machine;
let queue: Queue;
beforeAll(async () => {
  one = await machine();
  queue = await one.queue();
});
afterAll(async () => {
  await queue.dispose();
  await one.close();
});

const bytes = new TextEncoder();
const message = (body: string | Uint8Array): OutgoingMessage => ({
  body: typeof body === 'string' ? bytes.encode(body) : body,
  attributes: {},
});
const calls = (operation: string): number => one.server.faults.calls(operation);

/** Deliveries of new messages, and the driver that holds them. */
async function held(count: number): Promise<{ driver: ReturnType<Queue['driver']>; handles: readonly SqsHandle[] }> {
  const driver = queue.driver();
  await driver.send(
    Array.from({ length: count }, (_, index) => message(`message ${index}`)),
    never(),
  );
  const got = await driver.receive({ max: count, leaseMs: 60_000, waitMs: 0 }, never());
  expect(got).toHaveLength(count);
  return { driver, handles: got.map(({ handle }) => handle) };
}

describe('batches', () => {
  test('field case 21: of ten deletes eight are done; the two that failed are told, and they alone are repeated', async () => {
    const { driver, handles } = await held(10);
    const session = brokerSession(driver, one.clock);
    const failing = one.server.faults.on(
      'DeleteMessageBatch',
      kinds.failEntries({}, (index) => index === 3 || index === 7),
    );
    const before = calls('DeleteMessageBatch');
    const outcomes = handles.map((handle) =>
      session.complete(
        session.hold(
          { handle, messageId: '', body: new Uint8Array(), attributes: {}, leaseMs: 60_000 },
          one.clock.monotonic(),
        ),
      ),
    );
    await one.time.advance(3_000);
    expect(await Promise.all(outcomes)).toEqual(handles.map(() => 'done'));
    expect(failing.hits).toBe(1);
    const [first, second] = one.server.faults.log
      .filter(({ operation }) => operation === 'DeleteMessageBatch')
      .slice(-2);
    expect(calls('DeleteMessageBatch') - before).toBe(2);
    expect(first?.request.json['Entries']).toHaveLength(10);
    expect(second?.request.json['Entries']).toMatchObject(
      [3, 7].map((index) => ({ ReceiptHandle: handles[index]?.receipt })),
    );
  });

  test('field case 21: what an answer without a list of successes does not confirm is not done', async () => {
    const { driver, handles } = await held(3);
    one.server.faults.on('DeleteMessageBatch', kinds.unconfirmedEntries());
    expect(await driver.complete(handles, never())).toEqual(handles.map(() => ({ failed: 'unknown' })));
    // It was applied all the same: repeating it changes nothing.
    expect(await driver.complete(handles, never())).toEqual(['done', 'done', 'done']);
    one.server.faults.on('ChangeMessageVisibilityBatch', kinds.unconfirmedEntries());
    const more = await held(2);
    expect(await more.driver.extend(more.handles, 60_000, never())).toEqual(
      more.handles.map(() => ({ failed: 'unknown' })),
    );
    expect(await more.driver.complete(more.handles, never())).toEqual(['done', 'done']);
  });

  test('field case 22: 23 messages settled at once go in calls of 10, 10 and 3, under ids of their own', async () => {
    const driver = queue.driver();
    const session = brokerSession(driver, one.clock);
    for (const count of [10, 10, 3])
      await driver.send(
        Array.from({ length: count }, () => message('x')),
        never(),
      );
    const taken: SqsHandle[] = [];
    while (taken.length < 23)
      taken.push(
        ...(await driver.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never())).map(({ handle }) => handle),
      );
    const settling = taken.map((handle) =>
      session.complete(
        session.hold(
          { handle, messageId: '', body: new Uint8Array(), attributes: {}, leaseMs: 60_000 },
          one.clock.monotonic(),
        ),
      ),
    );
    await one.time.advance(100);
    expect(new Set(await Promise.all(settling))).toEqual(new Set(['done']));
    const batches = one.server.faults.log
      .filter(({ operation }) => operation === 'DeleteMessageBatch')
      .slice(-3)
      .map(({ request }) => (request.json['Entries'] as { Id: string }[]).map(({ Id }) => Id));
    expect(batches.map((ids) => ids.length)).toEqual([10, 10, 3]);
    for (const ids of batches) expect(new Set(ids).size).toBe(ids.length);
  });

  test('an entry that SQS does not confirm as sent is failed, the others keep their ids', async () => {
    const driver = queue.driver();
    one.server.faults.on(
      'SendMessageBatch',
      kinds.failEntries('ThrottlingException', (index) => index === 1),
    );
    const outcomes = await driver.send(['a', 'b', 'c'].map(message), never());
    expect(outcomes).toEqual([
      { messageId: expect.any(String) as string },
      { failed: 'throttled' },
      { messageId: expect.any(String) as string },
    ]);
    await driver.complete(
      (await driver.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never())).map(({ handle }) => handle),
      never(),
    );
  });
});

describe('the order of a FIFO group', () => {
  const texts = (deliveries: readonly { readonly body: Uint8Array }[]): readonly string[] =>
    deliveries.map(({ body }) => new TextDecoder().decode(body));
  const grouped = (text: string) => ({ ...message(text), groupId: text.charAt(0), deduplicationId: randomUUID() });
  /** Everything in the queue, in order. */
  const emptied = async (driver: ReturnType<Queue['driver']>): Promise<readonly string[]> => {
    const found: string[] = [];
    for (;;) {
      const got = await driver.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never());
      if (got.length === 0) return found;
      found.push(...texts(got));
      await driver.complete(
        got.map(({ handle }) => handle),
        never(),
      );
    }
  };

  test('is kept by a send whose first entry is throttled inside a 200: nothing of the group overtakes it, and all of it arrives', async () => {
    const fifo = await one.queue({ fifo: true });
    const driver = fifo.driver();
    await driver.open(never());
    const throttled = one.server.faults.on(
      'SendMessageBatch',
      kinds.failEntries('ThrottlingException', (index) => index === 0),
    );
    const session = brokerSession(driver, one.clock);
    const sending = session.send(['A1', 'A2', 'B1', 'A3'].map(grouped));
    let done = false;
    void sending.then(() => (done = true));
    expect(await one.time.until(() => done, 60_000)).toBe(true);
    expect((await sending).every((outcome) => 'messageId' in outcome)).toBe(true);
    expect(throttled.hits).toBe(1);
    const found = await emptied(driver);
    expect(found.filter((text) => text.startsWith('A'))).toEqual(['A1', 'A2', 'A3']);
    expect(found).toContain('B1');
    await fifo.dispose();
  });

  test('is kept by 25 messages of one group, and one driver call reports what it did not send as failed', async () => {
    const fifo = await one.queue({ fifo: true });
    const driver = fifo.driver();
    await driver.open(never());
    const all = Array.from({ length: 25 }, (_, index) => `A${index}`);
    const session = brokerSession(driver, one.clock);
    const sending = session.send(all.map(grouped));
    let done = false;
    void sending.then(() => (done = true));
    expect(await one.time.until(() => done, 60_000)).toBe(true);
    expect(await emptied(driver)).toEqual(all);
    one.server.faults.on(
      'SendMessageBatch',
      kinds.failEntries('ThrottlingException', (index) => index === 0),
    );
    const outcomes = await driver.send(['A', 'A', 'B', 'A'].map(grouped), never());
    expect(outcomes.map((outcome) => 'failed' in outcome)).toEqual([true, true, false, true]);
    await fifo.dispose();
  });
});

describe('field case 38: sizes are bytes', () => {
  test('80,000 three-byte letters five times are split by bytes, not by letters, and come back whole', async () => {
    const driver = queue.driver();
    await driver.open(never());
    const session = brokerSession(driver, one.clock);
    const body = '中'.repeat(80_000);
    const before = calls('SendMessageBatch');
    const outcomes = await session.send(Array.from({ length: 5 }, () => message(body)));
    expect(outcomes.filter((outcome) => 'messageId' in outcome)).toHaveLength(5);
    expect(calls('SendMessageBatch') - before).toBe(2);
    const got = [];
    while (got.length < 5) got.push(...(await driver.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never())));
    for (const { body: back } of got) expect(new TextDecoder().decode(back) === body).toBe(true);
    await driver.complete(
      got.map(({ handle }) => handle),
      never(),
    );
  });

  test('bodies that grow on the way are split by what they have become, and one that becomes too large fails alone', async () => {
    const driver = queue.driver();
    await driver.open(never());
    const { maxBatchBytes = 0, maxBodyBytes } = driver.capabilities;
    const binary = (size: number) => message(new Uint8Array(size).fill(255));
    const messages = [binary(300_000), binary(800_000), message('small'), binary(300_000), binary(300_000)];
    expect(messages.filter((each) => messageBytes(each) > maxBodyBytes)).toEqual([]);
    expect(messageBytes(messages[0] as OutgoingMessage) * 3).toBeLessThan(maxBatchBytes);
    const before = calls('SendMessageBatch');
    const outcomes = await driver.send(messages, never());
    expect(outcomes.map((outcome) => ('messageId' in outcome ? 'sent' : outcome.failed))).toEqual([
      'sent',
      'invalid',
      'sent',
      'sent',
      'sent',
    ]);
    expect(calls('SendMessageBatch') - before).toBe(2);
    const got = [];
    while (got.length < 4) got.push(...(await driver.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never())));
    expect(got.map(({ body }) => body.byteLength).sort((a, b) => a - b)).toEqual([5, 300_000, 300_000, 300_000]);
    await driver.complete(
      got.map(({ handle }) => handle),
      never(),
    );
  });

  test('a message that its attributes make too large for the queue fails alone, and is not asked for', async () => {
    const small = queue.driver({ settings: { maxMessageBytes: 2_000 } });
    const before = calls('SendMessageBatch');
    const outcomes = await small.send(
      [
        { ...message('x'.repeat(1_700)), attributes: { a: 'y'.repeat(300) } },
        { ...message('x'.repeat(1_700)), attributes: { a: 'y'.repeat(200) } },
      ],
      never(),
    );
    expect(outcomes).toMatchObject([{ failed: 'invalid' }, { messageId: expect.any(String) as string }]);
    expect(calls('SendMessageBatch') - before).toBe(1);
    expect(one.server.faults.log.at(-1)?.request.json['Entries']).toMatchObject([
      { MessageAttributes: { a: { StringValue: 'y'.repeat(200) } } },
    ]);
  });

  test('when the second call of a send fails, what the first one sent is told', async () => {
    const driver = queue.driver();
    one.server.faults.on('SendMessageBatch', kinds.failBefore('throttled'), { nth: 2 });
    const outcomes = await driver.send(
      Array.from({ length: 3 }, () => message('x'.repeat(500_000))),
      never(),
    );
    expect(outcomes.map((outcome) => ('messageId' in outcome ? 'sent' : outcome.failed))).toEqual([
      'sent',
      'sent',
      'throttled',
    ]);
    await expect(
      (async () => {
        one.server.faults.on('SendMessageBatch', kinds.failBefore('throttled'));
        return driver.send([message('x')], never());
      })(),
    ).rejects.toMatchObject({ name: 'RequestThrottled' });
  });
});
