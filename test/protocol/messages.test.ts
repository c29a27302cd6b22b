import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  canonicalJson,
  cloudEvents,
  createLeaseBroker,
  hashJson,
  isLeaseholdError,
  plainJson,
  readMessage,
  sha256,
  taskIdOf,
  virtualClock,
  type Json,
  type LeaseBroker,
  type VirtualClock,
} from '@leasehold/core';
import { memoryBroker, memoryLedger, memoryQueue, type MemoryQueue } from '@leasehold/core/memory';
import { codes, table, tables } from './page.ts';
import { complaints, schema } from './schemas.ts';

const ENVELOPE = 'envelope.schema.json';
const codec = cloudEvents();
const text = new TextDecoder();
const asBody = (event: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(event));
const id = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCodePoint(code)),
  minLength: 1,
  maxLength: 256,
});

test('what is encoded is valid, and is read back as the same task', () => {
  const task = fc.record(
    {
      taskId: id,
      idempotencyKey: id,
      type: id,
      payload: fc.jsonValue() as fc.Arbitrary<Json>,
      agentRunId: fc.string({ minLength: 1, maxLength: 256 }),
      traceparent: id,
      tracestate: id,
    },
    { requiredKeys: ['taskId', 'idempotencyKey', 'type', 'payload'] },
  );
  fc.assert(
    fc.property(task, (sent) => {
      const { body, attributes } = codec.encode(sent);
      const event = JSON.parse(text.decode(body)) as object;
      expect(complaints(ENVELOPE, event)).toEqual([]);
      expect(Object.keys(event).filter((name) => !Object.hasOwn(schema('envelope').properties ?? {}, name))).toEqual(
        [],
      );
      const read = readMessage(codec, 'queue', { messageId: 'm', body, attributes });
      const { type, payload, ...rest } = sent;
      expect(read).toMatchObject({ ...rest, taskType: type, payloadHash: hashJson(payload), identity: 'task-id' });
    }),
  );
});

const soundEvent = fc.record(
  {
    specversion: fc.constant<Json>('1.0'),
    id: fc.oneof(id, fc.constant('größe')),
    source: fc.constantFrom<Json>('leasehold', '/shop'),
    type: fc.oneof(id, fc.constant('größe')),
    data: fc.jsonValue() as fc.Arbitrary<Json>,
    idempotencykey: fc.oneof(id, fc.constant(null)),
    agentrunid: fc.constantFrom<Json>('run', 'läuft', null),
    traceparent: fc.constantFrom<Json>('00-a-b-01', null),
    tracestate: fc.constantFrom<Json>('a=b', null),
    subject: fc.jsonValue() as fc.Arbitrary<Json>,
  },
  { requiredKeys: ['specversion', 'id', 'source', 'type'] },
);
const READ = [
  'specversion',
  'id',
  'source',
  'type',
  'idempotencykey',
  'agentrunid',
  'traceparent',
  'tracestate',
  'data_base64',
];
/** What an attribute may be replaced by; undefined takes it away. */
const odd = fc.constantFrom<Json | undefined>(
  undefined,
  '',
  'ä',
  'x',
  'x'.repeat(257),
  'x'.repeat(2_049),
  null,
  7,
  true,
  {},
  [],
);
const anyEvent = fc
  .tuple(soundEvent, fc.option(fc.tuple(fc.constantFrom(...READ), odd)))
  .map(([event, fault]) =>
    Object.fromEntries(
      Object.entries({ ...event, ...(fault && { [fault[0]]: fault[1] }) }).filter(([, value]) => value !== undefined),
    ),
  );

test('an event is refused by the codec if and only if it is invalid, naming a field the schema names too', () => {
  const tally = { valid: 0, invalid: 0 };
  fc.assert(
    fc.property(anyEvent, (event) => {
      const wrong = complaints(ENVELOPE, event);
      const refusal = refusalOf(() =>
        readMessage(codec, 'queue', { messageId: 'm', body: asBody(event), attributes: {} }),
      );
      expect(refusal === undefined, `${JSON.stringify(event)} ${wrong.join('; ')} ${refusal}`).toBe(wrong.length === 0);
      tally[refusal === undefined ? 'valid' : 'invalid']++;
      if (refusal === undefined) return;
      const field = refusal === 'task id' ? 'id' : refusal;
      expect(
        wrong.some((complaint) => complaint.startsWith(`/${field} `) || complaint.includes(`'${field}'`)),
        `${field}: ${wrong.join('; ')}`,
      ).toBe(true);
    }),
    { numRuns: 600 },
  );
  expect(Math.min(tally.valid, tally.invalid)).toBeGreaterThan(50);
});

function refusalOf(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (!isLeaseholdError(error) || error.code !== 'bad-message' || error.field === undefined) throw error;
    return error.field;
  }
}

test('the page lists the attributes of the schema, and which are required', () => {
  const rows = table('Messages').map((row) => [codes(row['attribute']), row['required']] as const);
  const names = rows.flatMap(([found]) => found);
  const known = Object.keys(schema('envelope').properties ?? {});
  expect(names.toSorted()).toEqual(known.filter((name) => name !== 'data_base64').toSorted());
  const required = rows.filter(([, needed]) => needed === 'yes').flatMap(([found]) => found);
  expect(required.toSorted()).toEqual([...(schema('envelope').required ?? [])].toSorted());
});

test('the worked examples of canonical JSON and hashes are right', () => {
  const rows = table('Canonical JSON and hashes');
  expect(rows.length).toBeGreaterThanOrEqual(4);
  for (const row of rows) {
    const [[json = ''], [canonical = ''], [hash = '']] = [
      codes(row['JSON']),
      codes(row['canonical']),
      codes(row['hash']),
    ];
    expect(canonicalJson(JSON.parse(json))).toBe(canonical);
    expect(sha256(canonical)).toBe(hash);
    const body = asBody({
      specversion: '1.0',
      source: 'leasehold',
      id: 'a',
      type: 't',
      data: JSON.parse(json) as Json,
    });
    expect(readMessage(codec, 'queue', { messageId: 'm', body, attributes: {} }).payloadHash).toBe(hash);
  }
});

test('a task id is found as the page says', () => {
  const read = (event: object, attributes: Readonly<Record<string, string>> = {}, by = codec): string =>
    readMessage(by, 'a queue', { messageId: 'm-1', body: asBody(event), attributes }).taskId;
  const event = { specversion: '1.0', id: '42', source: '/shop', type: 'order' };
  expect(read(event, { leaseholdtaskid: 'task-9' })).toBe('task-9');
  expect(read({ ...event, source: 'leasehold' })).toBe('42');
  expect(read({ ...event, idempotencykey: 'key' })).toBe('42');
  expect(read(event)).toBe(hashJson(['/shop', '42']));
  expect(read(event, {}, plainJson({ type: 'order', taskId: () => 'order-42' }))).toBe('order-42');
  expect(read(event, {}, plainJson({ type: 'order' }))).toBe(sha256('a queue\nm-1'));
  expect(taskIdOf('order', 'key')).toBe(hashJson(['order', 'key']));
});

/** A broker that keeps no delay on a hand-back, so that what has to wait goes out as a copy. */
function desk(format = cloudEvents()): {
  readonly broker: LeaseBroker;
  readonly queue: MemoryQueue;
  readonly clock: VirtualClock;
} {
  const clock = virtualClock();
  const queue = memoryQueue();
  const driver = memoryBroker({ queue, clock, releaseDelayMs: 0, sendDelayMs: 900_000 });
  return { broker: createLeaseBroker({ driver, ledger: memoryLedger({ clock }), clock, codec: format }), queue, clock };
}

test('messages bear the attributes the page names: at first, sent again, and dead-lettered', async () => {
  const named = await lifeOf(desk(), (broker) => broker.enqueue([{ type: 'open-case', input: {}, taskId: 'task-1' }]));
  const ours = { leaseholdtaskid: 'task-1' };
  expect(named).toEqual([
    ours,
    { ...ours, leaseholdtoken: '1' },
    { ...ours, leaseholdtoken: '2', leaseholdreason: 'permanent' },
  ]);
  const place = desk(plainJson({ type: 'open-case' }));
  const body = new TextEncoder().encode('{}');
  const unnamed = await lifeOf(place, () =>
    memoryBroker({ queue: place.queue, clock: place.clock }).send(
      [{ body, attributes: {} }],
      new AbortController().signal,
    ),
  );
  const still = { leaseholdidentity: 'message-id' };
  const hashed = expect.stringMatching(/^[0-9a-f]{64}$/) as string;
  expect(unnamed).toEqual([
    {},
    { ...still, leaseholdtaskid: hashed, leaseholdtoken: '1' },
    { ...still, leaseholdtaskid: hashed, leaseholdtoken: '2', leaseholdreason: 'permanent' },
  ]);
  const [, attributes = []] = tables('Messages');
  expect(attributes.flatMap((row) => codes(row['message attribute'])).toSorted()).toEqual(
    Object.keys(unnamed.at(-1) ?? {}).toSorted(),
  );
});

/** The attributes of a message as it was sent, after its task has failed once, and in the dead-letter queue. */
async function lifeOf(
  { broker, queue, clock }: ReturnType<typeof desk>,
  send: (broker: LeaseBroker) => Promise<unknown>,
): Promise<readonly (Readonly<Record<string, string>> | undefined)[]> {
  const during = async <Result>(work: Promise<Result>): Promise<Result> => {
    let ended = false;
    const end = (): void => void (ended = true);
    work.then(end, end);
    await clock.runUntil(() => ended, 60_000);
    return work;
  };
  const timing = { leaseMs: 90_000, heartbeatMs: 30_000, marginMs: 20_000, tolerate: 1 };
  const policy = { timing, attempts: 5, retentionMs: 2_592_000_000 };
  const take = async () => {
    const [acquired] = await during(
      broker.acquire({ max: 1, leaseMs: 90_000, waitMs: 0, owner: 'o', policy: () => policy }),
    );
    if (acquired?.kind !== 'lease') throw new Error(`acquired ${acquired?.kind}`);
    return acquired;
  };
  const error = { errorClass: 'permanent', code: 'E', message: 'no' };

  await during(send(broker));
  const seen = [queue.messages[0]?.attributes];
  await during(broker.release(await take(), { error, delayMs: 60_000, failure: true }));
  await during(broker.drain());
  seen.push(queue.messages[0]?.attributes);
  await clock.advance(60_001);
  await during(broker.deadLetter(await take(), error));
  await during(broker.drain());
  const ours = Object.entries(queue.deadLetterQueue.messages[0]?.attributes ?? {}).filter(([name]) =>
    /^leasehold[a-z]+$/.test(name),
  );
  return [...seen, Object.fromEntries(ours)];
}
