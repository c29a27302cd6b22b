import {
  GetQueueUrlCommand,
  ListQueuesCommand,
  SendMessageCommand,
  SetQueueAttributesCommand,
} from '@aws-sdk/client-sqs';
import { afterEach, expect, test } from 'vitest';
import type { QueueCalls } from './sqs-calls.ts';
import { refusal, sqsClient, sqsGround } from './started.ts';

const ground = sqsGround();
const { time } = ground;
let names = 0;

afterEach(() => {
  ground.server.rules.staleHandle = 'by-queue';
});

type Kind = 'standard' | 'fifo';
type Standing = 'live' | 'lapsed' | 'lapsed, and a poll looked' | 'released' | 'received again' | 'deleted' | 'garbage';

async function freshQueue(kind: Kind): Promise<QueueCalls> {
  return ground.queue(`rules-${++names}${kind === 'fifo' ? '.fifo' : ''}`, { visibilitySeconds: 30 });
}

/** A handle in that standing, the only message of its queue. */
async function handleThatIs(standing: Standing, queue: QueueCalls): Promise<string> {
  if (standing === 'garbage') return 'AQEBnobodyGaveThis';
  await queue.send('a', queue.url.endsWith('.fifo') ? { group: 'g' } : {});
  const handle = await queue.one();
  if (standing === 'deleted') await queue.remove(handle);
  if (standing === 'released') await queue.extend(handle, 0);
  if (standing === 'lapsed' || standing === 'received again') time.now += 30_000;
  if (standing === 'lapsed, and a poll looked') {
    await queue.send('b', queue.url.endsWith('.fifo') ? { group: 'h' } : {});
    time.now += 30_000;
    // Of the two that it could take, the one that was there first.
    expect((await queue.receive(0, 1)).map(({ Body }) => Body)).toEqual(['b']);
  }
  if (standing === 'received again') await queue.one();
  return handle;
}

const EXPIRED = 'The receipt handle has expired';
const NOT_AVAILABLE = 'Message does not exist or is not available for visibility timeout change';
const GARBAGE = 'The input receipt handle is invalid';

interface Row {
  readonly standing: Standing;
  readonly remove: Readonly<Record<Kind, string>>;
  readonly extend: Readonly<Record<Kind, string>>;
}

const both = (says: string): Readonly<Record<Kind, string>> => ({ standard: says, fifo: says });
const byKind = { standard: 'ok', fifo: EXPIRED };

const ROWS: readonly Row[] = [
  { standing: 'live', remove: both('ok'), extend: both('ok') },
  { standing: 'lapsed', remove: byKind, extend: byKind },
  { standing: 'released', remove: byKind, extend: byKind },
  { standing: 'received again', remove: byKind, extend: byKind },
  { standing: 'deleted', remove: both('ok'), extend: both(NOT_AVAILABLE) },
  { standing: 'garbage', remove: both(GARBAGE), extend: both(GARBAGE) },
];

const CASES = ROWS.flatMap((row) =>
  (['standard', 'fifo'] as const).flatMap((kind) =>
    (['remove', 'extend'] as const).map((operation) => ({
      kind,
      operation,
      standing: row.standing,
      says: row[operation][kind],
    })),
  ),
);

test.each(CASES)('$kind queue, handle $standing, $operation: $says', async ({ kind, operation, standing, says }) => {
  const call = async (queue: QueueCalls, handle: string): Promise<string> => {
    const work = operation === 'remove' ? queue.remove(handle) : queue.extend(handle, 20);
    return work.then(
      () => 'ok',
      (error: unknown) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)),
    );
  };
  const name = says === GARBAGE ? 'ReceiptHandleIsInvalid' : 'InvalidParameterValue';
  const queue = await freshQueue(kind);
  const answer = await call(queue, await handleThatIs(standing, queue));
  if (says === 'ok') expect(answer).toBe('ok');
  else {
    expect(answer).toContain(says);
    expect(answer.split(':')[0]).toBe(name);
  }

  const inBatch = await freshQueue(kind);
  const handles = [await handleThatIs(standing, inBatch)];
  const outcomes = operation === 'remove' ? await inBatch.removeAll(handles) : await inBatch.extendAll(handles, 20);
  expect(outcomes).toEqual([says === 'ok' ? 'ok' : name]);
});

test('a late extend that is answered OK does not revive the lease', async () => {
  const queue = await freshQueue('standard');
  const handle = await handleThatIs('lapsed', queue);
  await queue.extend(handle, 600);
  expect(await queue.bodies()).toEqual(['a']);
});

test('an extend with the handle of an older receive does not touch the newer one', async () => {
  const queue = await freshQueue('standard');
  const old = await handleThatIs('received again', queue);
  await queue.extend(old, 600);
  await queue.extend(old, 0);
  expect(await queue.bodies()).toEqual([]);
  time.now += 30_000;
  expect(await queue.bodies()).toEqual(['a']);
});

test('a standard queue deletes with a handle that lapsed until somebody receives the message again', async () => {
  const lapsed = await freshQueue('standard');
  await lapsed.remove(await handleThatIs('lapsed', lapsed));
  expect(await lapsed.bodies()).toEqual([]);

  const seen = await freshQueue('standard');
  const handle = await handleThatIs('lapsed, and a poll looked', seen);
  await seen.remove(handle);
  time.now += 30_000;
  expect(await seen.bodies()).toEqual(['b']);

  const again = await freshQueue('standard');
  await again.remove(await handleThatIs('received again', again));
  time.now += 30_000;
  expect(await again.bodies()).toEqual(['a']);
});

test('a batch with good and bad handles is judged entry by entry', async () => {
  const queue = await freshQueue('fifo');
  await queue.send('a', { group: 'g' });
  await queue.send('b', { group: 'h' });
  const [a, b] = (await queue.receive()).map(({ ReceiptHandle }) => ReceiptHandle ?? '');
  if (a === undefined || b === undefined) throw new Error('two messages were expected');
  await queue.remove(a);
  expect(await queue.extendAll([a, b, 'garbage'], 20)).toEqual([
    'InvalidParameterValue',
    'ok',
    'ReceiptHandleIsInvalid',
  ]);
  expect(await queue.removeAll(['garbage', b, a])).toEqual(['ReceiptHandleIsInvalid', 'ok', 'ok']);
});

test.each(['standard', 'fifo'] as const)('a %s message is held for 12 hours in all', async (kind) => {
  const queue = await freshQueue(kind);
  const handle = await handleThatIs('live', queue);
  for (let hour = 0; hour < 12; hour++) {
    await queue.extend(handle, 3_600);
    time.now += 3_599_000;
    await queue.extend(handle, 1);
  }
  // 12 seconds are left.
  const limit = 'Total VisibilityTimeout for the message is beyond the limit [43200 seconds]';
  const error = await refusal(queue.extend(handle, 13));
  expect(`${error.name}: ${error.message}`).toContain(
    'InvalidParameterValue: Value 13 for parameter VisibilityTimeout',
  );
  expect(error.message).toContain(limit);
  expect(await queue.extendAll([handle], 13)).toEqual(['InvalidParameterValue']);
  expect(await queue.extendAll([handle], 12)).toEqual(['ok']);
  time.now += 12_000;
  // The refused calls changed nothing.
  expect(await queue.bodies()).toEqual(['a']);
});

test('how stale handles are answered can be set against the kind of the queue', async () => {
  ground.server.rules.staleHandle = 'refused';
  const standard = await freshQueue('standard');
  expect((await refusal(standard.remove(await handleThatIs('lapsed', standard)))).message).toContain(EXPIRED);
  ground.server.rules.staleHandle = 'silent';
  const fifo = await freshQueue('fifo');
  await fifo.extend(await handleThatIs('lapsed', fifo), 600);
  expect(await fifo.bodies()).toEqual(['a']);
  ground.server.rules.staleHandle = 'lenient';
  const lenient = await freshQueue('standard');
  await lenient.remove('garbage');
  await lenient.extend(await handleThatIs('lapsed', lenient), 600);
  expect(await lenient.bodies()).toEqual([]);
});

test('the visibility of a queue is known however it was set', async () => {
  const queue = await ground.queue('attributes', { attributes: { VisibilityTimeout: '7' } });
  await queue.send('a');
  await queue.send('b');
  const first = await queue.one();
  time.now += 6_999;
  await queue.extend(first, 7);
  time.now += 7_000;
  await queue.client.send(
    new SetQueueAttributesCommand({ QueueUrl: queue.url, Attributes: { VisibilityTimeout: '3' } }),
  );
  const [message] = await queue.receive(0, 1);
  const handle = message?.ReceiptHandle ?? '';
  time.now += 3_000;
  await queue.extend(handle, 600);
  expect((await queue.bodies()).sort()).toEqual(['a', 'b']);
});

test('one receive of a FIFO queue brings several messages of a group in order, and what comes back keeps it', async () => {
  const queue = await freshQueue('fifo');
  for (const [body, group] of [
    ['a1', 'a'],
    ['a2', 'a'],
    ['b1', 'b'],
    ['a3', 'a'],
  ] as const) {
    await queue.send(body, { group });
  }
  const first = await queue.receive(0, 2);
  expect(first.map(({ Body }) => Body)).toEqual(['a1', 'a2']);
  expect(first[0]?.Attributes?.['MessageGroupId']).toBe('a');
  // The rest of a group waits while some of it is in flight.
  expect(await queue.bodies()).toEqual(['b1']);
  const [a1, a2] = first.map(({ ReceiptHandle }) => ReceiptHandle ?? '');
  await queue.extend(a1 ?? '', 0);
  expect(await queue.bodies()).toEqual([]);
  await queue.extend(a2 ?? '', 0);
  const second = await queue.receive();
  expect(second.map(({ Body }) => Body)).toEqual(['a1', 'a2', 'a3']);
  time.now += 30_000;
  expect((await queue.bodies()).sort()).toEqual(['a1', 'a2', 'a3', 'b1']);
});

test('after more receives than its queue allows a message is in the dead-letter queue', async () => {
  const dead = await ground.queue('dead');
  const queue = await ground.queue('short-lived', { deadLetter: { queueUrl: dead.url, maxReceiveCount: 2 } });
  await queue.send('a');
  for (let receive = 0; receive < 2; receive++) {
    expect(await queue.bodies()).toEqual(['a']);
    time.now += 30_000;
  }
  expect(await queue.bodies()).toEqual([]);
  expect(await dead.bodies()).toEqual(['a']);
});

test('queues are named by the endpoint, also when a client asks for them', async () => {
  const { server } = ground;
  const { url, arn } = await server.createQueue('named', { fifo: true });
  expect(url).toBe(`${server.endpoint}/000000000000/named.fifo`);
  expect(arn).toBe('arn:aws:sqs:us-east-1:000000000000:named.fifo');
  const client = sqsClient(server);
  expect((await client.send(new GetQueueUrlCommand({ QueueName: 'named.fifo' }))).QueueUrl).toBe(url);
  expect((await client.send(new ListQueuesCommand({ QueueNamePrefix: 'named' }))).QueueUrls).toEqual([url]);
  await expect(server.createQueue('named.fifo', { visibilitySeconds: 50_000 })).rejects.toThrow(
    /createQueue: the server refused: .*VisibilityTimeout.*; change the name or the attributes/,
  );
});

test('a body may have every character that SQS takes, and no other', async () => {
  const queue = await ground.queue('characters');
  const taken = 'ä中𝄞🦊\u{10ffff}\t\r\n\ufffd';
  await queue.client.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: taken }));
  expect(await queue.bodies()).toEqual([taken]);
  for (const bad of ['a\u0000', '\u000b', '\ufffe', '\ud83e']) {
    const refused = queue.client.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: bad }));
    expect((await refusal(refused)).name, JSON.stringify(bad)).toContain('InvalidMessageContents');
  }
});
