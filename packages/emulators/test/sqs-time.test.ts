import { startSqs } from '@leasehold/emulators';
import { expect, test } from 'vitest';
import { QueueCalls } from './sqs-calls.ts';
import { closing, sqsClient, sqsGround, until } from './started.ts';

const ground = sqsGround();
const { time } = ground;

test('a message comes back when its visibility has lapsed, not a millisecond before', async () => {
  const queue = await ground.queue('visibility', { visibilitySeconds: 40 });
  await queue.send('a');
  expect(await queue.bodies()).toEqual(['a']);
  time.now += 39_999;
  expect(await queue.bodies()).toEqual([]);
  time.now += 1;
  expect(await queue.bodies()).toEqual(['a']);
});

test('a visibility named in the receive, and one set later, count from their calls', async () => {
  const queue = await ground.queue('changed');
  await queue.send('a');
  const handle = await queue.one(10);
  time.now += 9_000;
  await queue.extend(handle, 60);
  time.now += 59_999;
  expect(await queue.bodies()).toEqual([]);
  time.now += 1;
  expect(await queue.bodies()).toEqual(['a']);
});

test('a delayed message is there when its delay is over', async () => {
  const queue = await ground.queue('delayed');
  await queue.send('later', { DelaySeconds: 900 });
  time.now += 899_999;
  expect(await queue.bodies()).toEqual([]);
  time.now += 1;
  expect(await queue.bodies()).toEqual(['later']);
});

test.each(['parked', 'parked.fifo'])('a poll of the queue %s wakes when a lease lapses', async (name) => {
  const { server } = ground;
  const queue = await ground.queue(name, { visibilitySeconds: 15 });
  await queue.send('a', name === 'parked' ? {} : { group: 'g' });
  await queue.one();
  time.now += 14_990;
  const poll = queue.bodies(20);
  await until(() => server.waiting === 1);
  time.now += 9;
  await server.settle();
  expect(server.waiting).toBe(1);
  time.now += 1;
  await server.settle();
  expect(server.waiting).toBe(0);
  expect(await poll).toEqual(['a']);
});

test('a poll ends empty when its wait is over, not before, and wakes for a message that is sent', async () => {
  const { server } = ground;
  const queue = await ground.queue('polled');
  const empty = queue.bodies(20);
  await until(() => server.waiting === 1);
  time.now += 19_999;
  await server.settle();
  expect(server.waiting).toBe(1);
  time.now += 1;
  await server.settle();
  expect(server.waiting).toBe(0);
  expect(await empty).toEqual([]);

  const woken = queue.bodies(20);
  await until(() => server.waiting === 1);
  await queue.send('a');
  expect(await woken).toEqual(['a']);
});

test('a message wakes one poll; the others go on waiting', async () => {
  const { server } = ground;
  const queue = await ground.queue('several');
  const polls = Array.from({ length: 5 }, async () => queue.bodies(20));
  await until(() => server.waiting === 5);
  await queue.send('a');
  await server.settle();
  expect(server.waiting).toBe(4);
  await queue.sendAll(['b', 'c']);
  await server.settle();
  // One poll takes what there is, up to ten.
  expect(server.waiting).toBe(3);
  time.now += 20_000;
  await server.settle();
  expect((await Promise.all(polls)).flat().sort()).toEqual(['a', 'b', 'c']);
});

test('settling waits for every request under way but the polls that stay parked', async () => {
  const { server } = ground;
  const queue = await ground.queue('busy', { visibilitySeconds: 5 });
  const idle = await ground.queue('idle');
  const polls = [idle.receive(20), idle.receive(20)];
  await until(() => server.waiting === 2);
  for (let round = 0; round < 20; round++) {
    const before = server.faults.calls();
    const calls = Array.from({ length: 10 }, async (_, index) =>
      index % 2 === 0 ? queue.send(`${round}-${index}`) : queue.receive(),
    );
    await until(() => server.faults.calls() === before + calls.length);
    time.now += 500;
    await server.settle();
    expect(server.waiting).toBe(2);
    expect(server.faults.log.slice(-10).map(({ status }) => status)).toEqual(calls.map(() => 200));
    await Promise.all(calls);
  }
  time.now += 20_000;
  await server.settle();
  expect(await Promise.all(polls)).toEqual([[], []]);
});

test('stamps of the server and its Date header go by the time that the test moves', async () => {
  const { endpoint, faults } = ground.server;
  const queue = await ground.queue('stamps');
  time.now = Date.UTC(2031, 4, 6, 7, 8, 9, 999);
  await queue.send('a');
  const sentAt = time.now;
  time.now += 5_000;
  const [message] = await queue.receive();
  expect(Number(message?.Attributes?.['SentTimestamp'])).toBe(sentAt);
  expect(Number(message?.Attributes?.['ApproximateFirstReceiveTimestamp'])).toBe(time.now);
  const date = async (): Promise<string | null> => (await fetch(`${endpoint}/health`)).headers.get('date');
  expect(await date()).toBe('Tue, 06 May 2031 07:08:14 GMT');
  faults.serviceClock(-3_600_000);
  expect(await date()).toBe('Tue, 06 May 2031 06:08:14 GMT');
});

test('without a time the machine’s clock counts', async () => {
  const sqs = closing(await startSqs());
  const { url } = await sqs.createQueue('jobs', { visibilitySeconds: 1 });
  const queue = new QueueCalls(sqsClient(sqs), url);
  const before = Date.now();
  await queue.send('a');
  const [first] = await queue.receive();
  expect(Number(first?.Attributes?.['SentTimestamp'])).toBeGreaterThanOrEqual(before);
  // This poll is parked until the lease of one second lapses.
  expect(await queue.bodies(20)).toEqual(['a']);
  await sqs.settle();
  expect(sqs.waiting).toBe(0);
});
