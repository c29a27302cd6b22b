import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OutgoingMessage } from '@leasehold/core';
import { kinds } from '@leasehold/emulators';
import { machine, never, type Machine } from './machine.ts';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

const message: OutgoingMessage = { body: new TextEncoder().encode('x'), attributes: {} };
const ask = { max: 1, leaseMs: 60_000, waitMs: 20_000 };

/** Resolves when the server holds so many polls. */
async function parked(count: number): Promise<void> {
  while (one.server.waiting < count) await new Promise((resolve) => setTimeout(resolve, 5));
}
const receives = (): number => one.server.faults.calls('ReceiveMessage');

describe('polls', () => {
  test('however many are in flight, none holds up an extend', async () => {
    const queue = await one.queue();
    const driver = queue.driver();
    await driver.send([message], never());
    const [held] = await driver.receive({ ...ask, waitMs: 0 }, never());
    const stop = new AbortController();
    // More than the SDK's own pool has connections.
    const polls = Array.from({ length: 60 }, () => driver.receive(ask, stop.signal).catch(() => []));
    await parked(60);
    expect(await driver.extend([held?.handle as never], 60_000, never())).toEqual(['done']);
    expect(one.server.waiting).toBe(60);
    stop.abort();
    await one.time.advance(5_000);
    await Promise.all(polls);
    await queue.dispose();
  });

  test('with one connection for each of two given clients, a poll in flight does not hold up an extend either', async () => {
    const queue = await one.queue();
    const { endpoint, region, credentials } = one.server;
    const narrow = () =>
      new SQSClient({
        endpoint,
        region,
        credentials,
        maxAttempts: 1,
        requestHandler: { httpAgent: { maxSockets: 1 } },
      });
    const [client, pollClient] = [narrow(), narrow()];
    const driver = queue.driver({ client, pollClient });
    await driver.send([message], never());
    const [held] = await driver.receive({ ...ask, waitMs: 0 }, never());
    const waiting = driver.receive(ask, never());
    await parked(1);
    expect(await driver.extend([held?.handle as never], 60_000, never())).toEqual(['done']);
    await one.time.advance(21_000);
    expect(await waiting).toEqual([]);
    await queue.dispose();
    client.destroy();
    pollClient.destroy();
  });

  test('a wait is made of several polls, and not of one more than it takes', async () => {
    const queue = await one.queue();
    const driver = queue.driver({ longPoll: '4s' });
    const before = receives();
    const waiting = driver.receive({ ...ask, waitMs: 10_999 }, never());
    await one.time.advance(10_500);
    expect(await waiting).toEqual([]);
    expect(one.server.faults.log.slice(-3).map(({ request }) => request.json['WaitTimeSeconds'])).toEqual([4, 4, 2]);
    expect(receives() - before).toBe(3);
    await queue.dispose();
  });

  test('field case 24: what a poll takes after the abort is given to the caller, not to nobody', async () => {
    const queue = await one.queue();
    const driver = queue.driver();
    const stop = new AbortController();
    const waiting = driver.receive(ask, stop.signal);
    await parked(1);
    stop.abort(new Error('stop'));
    // Whatever the abort set going at once has happened by then.
    await one.clock.advance(0);
    await driver.send([message], never());
    expect(await waiting).toHaveLength(1);
    await queue.dispose();
  });

  test('an abort ends the wait with the poll under way', async () => {
    const queue = await one.queue();
    const driver = queue.driver();
    const stop = new AbortController();
    const before = receives();
    const waiting = driver.receive(ask, stop.signal).catch((error: unknown) => error);
    await one.time.advance(6_000);
    stop.abort(new Error('stop'));
    await one.time.advance(2_500);
    expect(await waiting).toMatchObject({ message: 'stop' });
    expect(receives() - before).toBe(2);
    await queue.dispose();
  });

  test('what a poll takes while the driver closes is handed back', async () => {
    const queue = await one.queue();
    const [driver, other] = [queue.driver(), queue.driver()];
    const waiting = driver.receive(ask, never()).catch((error: unknown) => error);
    await parked(1);
    const closing = driver.close();
    await other.send([message], never());
    await closing;
    expect(await waiting).toMatchObject({ code: 'closed' });
    expect(await other.receive({ ...ask, waitMs: 0 }, never())).toHaveLength(1);
    await queue.dispose();
  });

  test('a close ends although what a poll took cannot be handed back', async () => {
    const queue = await one.queue();
    const [driver, other] = [queue.unwatched(), queue.driver()];
    const waiting = driver.receive(ask, never()).catch((error: unknown) => error);
    await parked(1);
    const hung = one.server.faults.on('ChangeMessageVisibilityBatch', kinds.hang());
    const closing = driver.close();
    await other.send([message], never());
    while (hung.hits < 1) await new Promise((resolve) => setTimeout(resolve, 5));
    await one.clock.advance(2_000);
    await closing;
    expect(await waiting).toMatchObject({ code: 'closed' });
    expect(one.clock.pending).toBe(0);
    await queue.dispose();
  });

  test('field case 46: a poll that hangs is cut when it is given up or closed over, once it is overdue', async () => {
    const queue = await one.queue();
    const hung = one.server.faults.on('ReceiveMessage', kinds.hang(), { times: 2 });
    const [driver, other] = [queue.driver(), queue.driver()];
    const stop = new AbortController();
    const ends: string[] = [];
    const waiting = driver.receive(ask, stop.signal).catch(() => ends.push('cut'));
    const beside = other.receive(ask, never()).catch(() => ends.push('closed over'));
    while (hung.hits < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    await one.clock.advance(25_000);
    expect(ends).toEqual([]);
    stop.abort();
    await one.clock.advance(0);
    await waiting;
    const closing = other.close();
    await one.clock.advance(0);
    await closing;
    await beside;
    expect(ends).toEqual(['cut', 'closed over']);
    expect(one.clock.pending).toBe(0);
    await queue.dispose();
  });
});
