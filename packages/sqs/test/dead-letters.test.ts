import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLeaseBroker, redriveTasks, sweepTasks, type DeadLetter, type Delivery } from '@leasehold/core';
import { memoryLedger } from '@leasehold/core/memory';
import { kinds } from '@leasehold/emulators';
import { deliveryOf } from '../src/deliveries.ts';
import { countedBytes } from '../src/message-attributes.ts';
import { machine, never, testClient, type Machine, type Queue } from './machine.ts';
import { SendMessageCommand, SetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import type { SqsBroker } from '@leasehold/sqs';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

const ask = { max: 10, leaseMs: 60_000, waitMs: 0 };
const why = {
  reason: 'undecodable',
  description: 'not JSON',
  attributes: { leaseholdtaskid: '7', leaseholdtoken: '3' },
};

async function heldBy(driver: SqsBroker, body = 'x', attributes: Record<string, string> = {}): Promise<Delivery> {
  await driver.send([{ body: new TextEncoder().encode(body), attributes }], never());
  const [held] = await driver.receive(ask, never());
  if (!held) throw new Error('nothing was received');
  return held;
}

/** A call that waits for an empty queue's answer. */
async function answered<T>(work: Promise<T>): Promise<T> {
  let over = false;
  const done = (): void => void (over = true);
  work.then(done, done);
  await one.time.until(() => over, 60_000);
  return work;
}

const readable = (driver: SqsBroker): Required<Pick<SqsBroker, 'deadLetters' | 'redrive'>> => {
  const { deadLetters, redrive } = driver;
  if (!deadLetters || !redrive) throw new Error('this queue has dead letters that cannot be read');
  return { deadLetters, redrive };
};
async function allLetters(driver: SqsBroker, limit: number): Promise<readonly DeadLetter[]> {
  const found: DeadLetter[] = [];
  let cursor: string | undefined;
  do {
    const page = await answered(
      readable(driver).deadLetters({ limit, ...(cursor !== undefined && { cursor }) }, never()),
    );
    found.push(...page.letters);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
}

describe('rejecting', () => {
  test.each([false, true])(
    'a delete that is not confirmed is told; repeated, nothing is lost and copies are known by their source (FIFO: %s)',
    async (fifo) => {
      const queue = await one.queue({ fifo, deadLetter: true });
      const driver = queue.driver();
      const held = await heldBy(driver);
      one.server.faults.on('DeleteMessageBatch', kinds.failEntries());
      expect(await driver.reject(held.handle as never, why, never())).toEqual({ failed: 'unavailable' });
      expect(await driver.reject(held.handle as never, why, never())).toBe('done');
      const letters = await queue.letters();
      // A FIFO queue drops the second one.
      expect(letters).toHaveLength(fifo ? 1 : 2);
      for (const { attributes } of letters)
        expect(attributes).toMatchObject({
          ...why.attributes,
          leaseholdreason: 'undecodable',
          leaseholddescription: 'not JSON',
          leaseholdmessageid: held.messageId,
        });
      await queue.dispose();
    },
  );

  test('a message near the limit of a queue that takes less than others is dead-lettered with as many attributes as fit', async () => {
    const attributes = { MaximumMessageSize: '262144' };
    const queue = await one.queue({ deadLetter: true, attributes });
    const client = testClient(one.server);
    await client.send(new SetQueueAttributesCommand({ QueueUrl: queue.deadLetterUrl, Attributes: attributes }));
    await client.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'x'.repeat(262_144 - 100) }));
    const driver = queue.driver();
    const [held] = await driver.receive(ask, never());
    expect(await driver.reject(held?.handle as never, why, never())).toBe('done');
    expect((await queue.letters())[0]?.attributes).toEqual({
      leaseholdtaskid: '7',
      leaseholdtoken: '3',
      leaseholdreason: 'undecodable',
    });
    client.destroy();
    await queue.dispose();
  });

  test('where the dead-letter queue cannot be sent to, nothing is deleted', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    const held = await heldBy(driver);
    one.server.faults.on('SendMessageBatch', kinds.failEntries('AccessDenied'));
    expect(await driver.reject(held.handle as never, why, never())).toEqual({ failed: 'denied' });
    one.server.faults.on('SendMessageBatch', kinds.failBefore('denied'));
    await expect(driver.reject(held.handle as never, why, never())).rejects.toMatchObject({
      name: 'AccessDeniedException',
    });
    expect(await queue.letters()).toEqual([]);
    expect(await driver.complete([held.handle as never], never())).toEqual(['done']);
    await queue.dispose();
  });

  test('a message without room for attributes keeps what says why it is there, as far as it fits; its body always', async () => {
    const queue = await one.queue({ deadLetter: true });
    const client = testClient(one.server);
    for (const room of [40, 200]) {
      const MessageAttributes = { note: { DataType: 'String', StringValue: 'n'.repeat(20) } };
      const MessageBody = 'x'.repeat(1_048_576 - room - countedBytes('', MessageAttributes));
      await client.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody, MessageAttributes }));
      const driver = queue.driver();
      const [held] = await driver.receive(ask, never());
      expect(await driver.reject(held?.handle as never, why, never())).toBe('done');
      const letter = (await queue.letters()).find(({ body }) => body.byteLength === MessageBody.length);
      expect(letter?.attributes['leaseholdtaskid']).toBe('7');
      expect(letter?.attributes['leaseholdreason']).toBe(room === 200 ? 'undecodable' : undefined);
    }
    client.destroy();
    await queue.dispose();
  });

  test('attributes of other types come along as they were', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    const client = testClient(one.server);
    const MessageAttributes = {
      count: { DataType: 'Number', StringValue: '42' },
      digest: { DataType: 'Binary.md5', BinaryValue: Uint8Array.of(1, 2) },
    };
    await client.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'x', MessageAttributes }));
    const [held] = await driver.receive(ask, never());
    await driver.reject(held?.handle as never, why, never());
    const [letter] = await queue.letters();
    expect(letter?.handle).toMatchObject({ foreign: MessageAttributes });
    client.destroy();
    await queue.dispose();
  });
});

describe('what lies in a dead-letter queue', () => {
  const reject = async (driver: SqsBroker, count: number): Promise<void> => {
    for (let index = 0; index < count; index++) {
      const held = await heldBy(driver, `body ${index}`);
      await driver.reject(held.handle as never, { ...why, attributes: { leaseholdtaskid: `task ${index}` } }, never());
    }
  };

  test('is listed page by page, each letter once, and is there for others afterwards', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    await reject(driver, 23);
    for (const limit of [100, 10, 7]) {
      const letters = await allLetters(driver, limit);
      expect(new Set(letters.map(({ messageId }) => messageId)).size).toBe(23);
      expect(letters).toHaveLength(23);
      expect(letters[0]).toMatchObject({ reason: 'undecodable', description: 'not JSON' });
    }
    expect(await queue.letters()).toHaveLength(23);
    expect(await driver.depth()).toMatchObject({ visible: 0, deadLetters: 23 });
    await queue.dispose();
  });

  test('a listing that was broken off is begun anew by the next', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    await reject(driver, 5);
    await answered(readable(driver).deadLetters({ limit: 2 }, never()));
    expect(await allLetters(driver, 100)).toHaveLength(5);
    await queue.dispose();
  });

  test('what SQS moved itself has a reason, too', async () => {
    const queue = await one.queue({ maxReceiveCount: 1 });
    const driver = queue.driver();
    const held = await heldBy(driver);
    await driver.release([held.handle as never], 0, never());
    expect(await driver.receive(ask, never())).toEqual([]);
    expect(await allLetters(driver, 100)).toMatchObject([{ reason: 'max-deliveries' }]);
    await queue.dispose();
  });

  test('only those that were chosen go back, without what said why they were there', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    await reject(driver, 12);
    const chosen = (await allLetters(driver, 100)).slice(3, 5);
    expect(
      await answered(readable(driver).redrive([...chosen.map(({ messageId }) => messageId), 'gone'], never())),
    ).toBe(2);
    expect(await queue.letters()).toHaveLength(10);
    const back = await driver.receive(ask, never());
    expect(back.map(({ attributes }) => attributes)).toEqual(
      expect.arrayContaining(chosen.map(({ attributes }) => ({ leaseholdtaskid: attributes['leaseholdtaskid'] }))),
    );
    expect(back.map(({ deliveryCount }) => deliveryCount)).toEqual([1, 1]);
    await queue.dispose();
  });

  test('what a redrive took and could not move is there for the next try at once', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    await reject(driver, 12);
    const all = (await allLetters(driver, 100)).map(({ messageId }) => messageId);
    one.server.faults.on('SendMessageBatch', kinds.failBefore('unavailable'));
    await expect(answered(readable(driver).redrive(all, never()))).rejects.toMatchObject({
      name: 'ServiceUnavailable',
    });
    expect(await queue.letters()).toHaveLength(12);
    one.server.faults.on(
      'SendMessageBatch',
      kinds.failEntries({}, (index) => index === 0),
    );
    expect(await answered(readable(driver).redrive(all.slice(0, 2), never()))).toBe(1);
    expect(await queue.letters()).toHaveLength(11);
    await queue.dispose();
  });

  test('cannot be read on a FIFO queue, and is not there without one', async () => {
    const fifo = await one.queue({ fifo: true, deadLetter: true });
    expect(fifo.driver().deadLetters).toBeUndefined();
    expect(fifo.driver().redrive).toBeUndefined();
    const none = await one.queue();
    expect(await readable(none.driver()).deadLetters({}, never())).toEqual({ letters: [] });
    expect(await readable(none.driver()).redrive(['x'], never())).toBe(0);
    await expect(readable(none.driver()).deadLetters({ limit: 0 }, never())).rejects.toMatchObject({ field: 'limit' });
    await Promise.all([fifo.dispose(), none.dispose()]);
  });

  test('is what a sweep closes and a redrive runs again', async () => {
    const queue: Queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    const ledger = memoryLedger({ clock: one.clock });
    const broker = createLeaseBroker({ driver, ledger, clock: one.clock });
    await answered(broker.enqueue([{ type: 't', input: {}, taskId: 'swept' }]));
    const [held] = await driver.receive(ask, never());
    await driver.reject(held?.handle as never, { ...why, attributes: held?.attributes ?? {} }, never());
    const parts = { driver, ledger, clock: one.clock };
    expect(await answered(sweepTasks(parts))).toMatchObject({ deadLetters: 1, unrecorded: 1, closed: [] });
    expect(await answered(redriveTasks(parts, () => true))).toEqual({ reopened: [], moved: 1 });
    expect(await driver.receive(ask, never())).toHaveLength(1);
    await queue.dispose();
  });
});

test('a message from SQS without any of its optional parts is read all the same', () => {
  expect(deliveryOf({}, 1_000, 0)).toMatchObject({ messageId: '', attributes: {}, leaseMs: 1_000 });
});
