import { readFileSync } from 'node:fs';
import { GetItemCommand, PutItemCommand, ScanCommand, type AttributeValue } from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import fc from 'fast-check';
import { type Json, type LedgerDriver, type LedgerQuery, type TaskRecord } from '@leasehold/core';
import { attributeOf, itemBytes, itemBytesAtMost, jsonOf, type Item } from '../src/attribute.ts';
import { namesOf } from '../src/options.ts';
import { isReserved, recordFromItem, recordToItem, STRUCTURES } from '../src/record-item.ts';
import { after, claimed, machine, never, type Machine, type Table } from './machine.ts';

let one: Machine;
let table: Table;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  table = await one.table({ table: 'records' });
});
afterEach(() => table.dispose());

const names = namesOf({ table: 'any' });
const put = async (ledger: LedgerDriver, record: TaskRecord, version = 0): Promise<TaskRecord> => {
  const expected = version === 0 ? { version: 0 as const } : { version, lease: 'any' as const };
  const outcome = await ledger.put(record, undefined, expected, never());
  if (!outcome.ok) throw new Error(`version ${record.version} of ${record.taskId} was refused`);
  return outcome.record;
};
const idsOf = async (ledger: LedgerDriver, query: Partial<LedgerQuery> = {}): Promise<readonly string[]> => {
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await ledger.list({ limit: 7, ...query, ...(cursor !== undefined && { cursor }) }, never());
    found.push(...page.records.map(({ taskId }) => taskId));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
};

test('every field of the published record, and no other, is a name that no key or TTL may have', () => {
  const schema = JSON.parse(
    readFileSync(new URL('../../../docs/schemas/record.schema.json', import.meta.url), 'utf8'),
  ) as {
    readonly properties: Readonly<Record<string, { readonly type?: string; readonly $ref?: string }>>;
  };
  const fields = Object.entries(schema.properties);
  expect(fields.length).toBeGreaterThan(35);
  for (const [name] of fields) expect(isReserved(name), name).toBe(true);
  for (const name of ['pk', 'sk', 'ttl', 'lane', 'lane_at', 'GSI1PK']) expect(isReserved(name), name).toBe(false);
  for (const name of STRUCTURES) expect(fields.map(([field]) => field)).toContain(name);
});

test('any JSON in a record comes back as it was, however deep, large or oddly named', () => {
  const json = fc.jsonValue({ maxDepth: 40 }) as fc.Arbitrary<Json>;
  fc.assert(
    fc.property(json, fc.string(), fc.boolean(), (value, text, receipt) => {
      const record = claimed(`task ${text.replaceAll(/\p{Surrogate}/gu, '')}`, {
        result: { inline: value },
        checkpoint: { inline: { [text]: value } },
        next: [{ taskId: 'n', type: 't', idempotencyKey: text, input: value }],
        ...(receipt && {
          settlementReceipt: {
            ...{ taskId: 'another', stage: 'settled', externalSystem: 'none', externalId: 'x', status: 'done' },
            ...{ idempotencyKey: text, verifiedAt: 1, token: 1 },
          } as const,
        }),
      });
      const back = recordFromItem(recordToItem(record, names), record.taskId, names);
      expect(JSON.stringify(back.result)).toBe(JSON.stringify(record.result));
      expect(JSON.stringify(back.checkpoint)).toBe(JSON.stringify(record.checkpoint));
      expect(JSON.stringify(back.next)).toBe(JSON.stringify(record.next));
      expect(back.settlementReceipt).toEqual(record.settlementReceipt);
    }),
    { numRuns: 150 },
  );
});

test('what a receipt or an effect would say again of its record is not stored, and is there when it is read', async () => {
  const ledger = table.ledger();
  const effect = { status: 'verified', token: 1, system: 'crm', intendedAt: 1 } as const;
  const record = claimed('receipt', {
    state: 'settled',
    effects: {
      create: { ...effect, key: 'key of receipt:create' },
      other: { ...effect, key: 'chosen' },
    },
    settlementReceipt: {
      ...{ taskId: 'receipt', stage: 'settled', externalSystem: 'none', externalId: 'x', status: 'done' },
      ...{ idempotencyKey: 'key of receipt', verifiedAt: 1, token: 1 },
    } as const,
  });
  await put(ledger, record);
  const item = await table.item('task#receipt');
  expect(item?.['settlement_receipt']?.S).not.toMatch(/task_id|idempotency_key/);
  expect(item?.['effects']?.S?.match(/"key":"[^"]*"/g)).toEqual(['"key":"chosen"']);
  expect((await ledger.get('receipt', never())).record).toEqual(record);
});

test('a number that JavaScript cannot keep is refused when written, and is no record when read', async () => {
  const ledger = table.ledger();
  for (const extra of [{ n: 2 ** 60 }, { n: 1e300 }, { n: 1e-200 }]) {
    await expect(ledger.put(claimed('n', { extra }), undefined, { version: 0 }, never())).rejects.toMatchObject({
      code: 'bad-request',
    });
  }
  await put(ledger, claimed('big'));
  const item = await table.item('task#big');
  await table.forge('task#big', { ...item, fencing_token: { N: '9007199254740993' } });
  await expect(ledger.get('big', never())).rejects.toMatchObject({ code: 'record-corrupt', field: 'fencing_token' });
});

test('attributes that somebody else gave an item are kept by every write, those that JSON cannot hold too', async () => {
  const ledger = table.ledger();
  const record = await put(ledger, claimed('foreign'));
  const foreign = {
    note: { S: 'by hand' },
    tags: { SS: ['a', 'b'] },
    sizes: { NS: ['1', '2'] },
    snowflake: { N: '1234567890123456789' },
    fine: { N: '0.12345678901234567890123' },
    huge: { L: [{ N: `1${'0'.repeat(100)}` }] },
    picture: { B: new Uint8Array([0, 255]) },
    pictures: { BS: [new Uint8Array([1])] },
    nested: { M: { list: { L: [{ N: '1.5' }, { NULL: true }, { BOOL: false }] } } },
  };
  await table.forge('task#foreign', { ...(await table.item('task#foreign')), ...foreign });
  const { record: read } = await ledger.get('foreign', never());
  if (!read) throw new Error('gone');
  await put(ledger, after(read), record.version);
  expect(await table.item('task#foreign')).toMatchObject({ ...foreign, version: { N: '2' } });
});

test('an unreadable record is told of when it is asked for, hides no other in a list, and is left as it is', async () => {
  const ledger = table.ledger();
  for (const id of ['a', 'b', 'c', 'd']) await put(ledger, claimed(id));
  const whole = (await table.item('task#b')) ?? {};
  const { state: _, ...stateless } = whole;
  await table.forge('task#b', stateless);
  await table.forge('task#c', { ...whole, effects: { S: '{' } });
  await table.forge('task#d', { lane: { S: 'x' }, lane_at: { S: 'y' }, title: { S: 'somebody else' } });
  for (const id of ['b', 'c', 'd']) {
    await expect(ledger.get(id, never()), id).rejects.toMatchObject({ code: 'record-corrupt' });
    await expect(ledger.put(claimed(id), { ms: 1_000 }, { version: 0 }, never()), id).rejects.toMatchObject({
      code: 'record-corrupt',
    });
  }
  expect(await idsOf(ledger, { states: ['running'] })).toEqual(['a']);
  expect(await idsOf(ledger)).toEqual(['a']);
  expect(await table.item('task#d')).toMatchObject({ title: { S: 'somebody else' } });
});

test('two ledgers, a guard and other things in one table see nothing of each other', async () => {
  const other = await one.table({ table: 'records' });
  const [ledger, theirs] = [table.ledger(), other.ledger()];
  await put(ledger, claimed('same', { idempotencyKey: 'ours' }));
  await put(theirs, claimed('same', { idempotencyKey: 'theirs' }));
  await table.forge('order#1', { total: { N: '5' } });
  await table.guard().look({ scope: 'same', token: 9, key: 'k' }, never());
  for (const query of [{}, { states: ['running' as const] }]) expect(await idsOf(ledger, query)).toEqual(['same']);
  expect((await ledger.get('same', never())).record?.idempotencyKey).toBe('ours');
  await other.dispose();
});

test('what has ended is thrown away when its retention is over, what somebody may still need never, and nothing without a TTL', () => {
  const expiresAt = 1_700_000_000_400;
  const ttlOf = (state: TaskRecord['state'], ttl?: string | false): string | undefined => {
    const record = claimed('a', state === 'running' ? { state } : { state, expiresAt });
    const named = namesOf({ table: 'any', ...(ttl !== undefined && { ttl }) });
    return recordToItem(record, named)[ttl === undefined || ttl === false ? 'ttl' : ttl]?.N;
  };
  const states = ['settled', 'cancelled', 'dead_lettered', 'queued', 'running', 'waiting_human'] as const;
  expect(states.map((state) => ttlOf(state))).toEqual([
    ...['1700000001', '1700000001', '1700000001', '1700000001'],
    undefined,
    undefined,
  ]);
  expect(ttlOf('settled', 'gone_at')).toBe('1700000001');
  expect(states.map((state) => ttlOf(state, false))).toEqual(states.map(() => undefined));
});

test('a ledger and a guard share a pk/sk table with items of somebody else, under the same partition key too', async () => {
  const design = { table: 'shared', keys: { partition: 'PK', sort: 'SK' } };
  const mine = await one.table(design);
  const ledger = mine.ledger();
  await put(ledger, claimed('same'));
  await mine.guard().look({ scope: 'same', token: 9, key: 'k' }, never());
  const client = one.client();
  const [stored] = (await client.send(new ScanCommand({ TableName: 'shared' }))).Items ?? [];
  const PK = stored?.['PK'] as AttributeValue;
  const SK = { S: 'order#1' };
  const foreign = { ...stored, SK, total: { N: '5' } };
  await client.send(new PutItemCommand({ TableName: 'shared', Item: foreign }));
  expect(await idsOf(ledger)).toEqual(['same']);
  expect((await ledger.get('same', never())).record).toMatchObject({ taskId: 'same', version: 1 });
  await put(ledger, after(claimed('same')), 1);
  const kept = await client.send(new GetItemCommand({ TableName: 'shared', Key: { PK, SK } }));
  expect(kept.Item).toEqual(foreign);
  await mine.dispose();
});

test('index and scan list the same open tasks; the index the newest first, page by page, and it follows the state', async () => {
  const [ledger, scanning] = [table.ledger(), table.ledger({ index: false })];
  const ids = Array.from({ length: 20 }, (_, at) => `t${at}`);
  const states = ['queued', 'running', 'waiting_human', 'dead_lettered', 'settled'] as const;
  await Promise.all(
    ids.map((id, at) =>
      put(ledger, claimed(id, { state: states[at % 5] ?? 'queued', createdAt: 1_700_000_000_000 + at })),
    ),
  );
  const open = ['queued', 'running', 'waiting_human', 'dead_lettered'] as const;
  for (const asked of [open, ['running'], ['queued', 'dead_lettered']] as const) {
    const indexed = await idsOf(ledger, { states: asked });
    const expected = ids.filter((_, at) => (asked as readonly string[]).includes(states[at % 5] ?? ''));
    expect(indexed).toEqual(expected.toReversed());
    expect((await idsOf(scanning, { states: asked })).toSorted()).toEqual(expected.toSorted());
  }
  one.server.faults.reset();
  await idsOf(ledger, { states: open });
  expect(one.server.faults.calls('Scan')).toBe(0);
  const { record } = await ledger.get('t0', never());
  if (!record) throw new Error('gone');
  await put(ledger, after(record, { state: 'settled' }), 1);
  expect(await idsOf(ledger, { states: ['queued'] })).not.toContain('t0');
  // The other way round: what an index-less process wrote is in the index.
  await put(scanning, claimed('by a scanning one', { state: 'queued' }));
  expect(await idsOf(ledger, { states: ['queued'] })).toContain('by a scanning one');
});

test('a cursor of the index is refused by a query that reads the table', async () => {
  const ledger = table.ledger();
  for (const id of ['a', 'b', 'c']) await put(ledger, claimed(id));
  const { cursor } = await ledger.list({ limit: 1, states: ['running'] }, never());
  expect(cursor).toBeDefined();
  await expect(ledger.list({ limit: 1, cursor: cursor as string }, never())).rejects.toMatchObject({
    code: 'bad-request',
    field: 'cursor',
  });
});

test('an id that no key can hold is refused before anything is asked', async () => {
  const ledger = table.ledger();
  one.server.faults.reset();
  for (const id of ['x'.repeat(2_048), '\ud800']) {
    await expect(ledger.get(id, never())).rejects.toMatchObject({ code: 'bad-request', field: 'taskId' });
    await expect(ledger.put(claimed(id), undefined, { version: 0 }, never())).rejects.toMatchObject({
      code: 'bad-request',
    });
  }
  expect(one.server.faults.calls()).toBe(0);
});

test('a first write without an idea of the time reads first, and so does one after a long silence', async () => {
  const ledger = table.ledger();
  one.server.faults.reset();
  const calls = (): string => {
    const log = one.server.faults.log.map(({ operation }) => operation).join(' ');
    one.server.faults.reset();
    return log;
  };
  await ledger.put(claimed('timed'), { ms: 60_000 }, { version: 0 }, never());
  expect(calls()).toBe('GetItem PutItem');
  await ledger.put(claimed('at once'), { ms: 60_000 }, { version: 0 }, never());
  expect(calls()).toBe('PutItem');
  await one.time.advance(300_000);
  await ledger.put(claimed('later'), { ms: 60_000 }, { version: 0 }, never());
  expect(calls()).toBe('GetItem PutItem');
  one.clock.stepWall(-3_600_000);
  await ledger.put(claimed('stepped'), { ms: 60_000 }, { version: 0 }, never());
  expect(calls()).toBe('GetItem PutItem');
});

test('the size of an item is counted as the service counts it', () => {
  const bytes = (value: Json): number => itemBytes({ a: attributeOf(value, 'a') }) - 1;
  expect(bytes('中')).toBe(3);
  expect(bytes(null)).toBe(1);
  expect(bytes(true)).toBe(1);
  expect(bytes(1_700_000_000_123)).toBe(8);
  expect(bytes(-12_300)).toBe(4);
  expect(bytes([])).toBe(3);
  expect(bytes(['ab', 'c'])).toBe(3 + 3 + 2);
  expect(bytes({ key: 'v' })).toBe(3 + 1 + 3 + 1);
  expect(jsonOf(attributeOf({ a: [1, { b: null }] }, 'a'))).toEqual({ a: [1, { b: null }] });
});

test('the size that is found at once is never below the size', () => {
  const fractions = fc
    .double({ noNaN: true, min: -1e9, max: 1e9, noInteger: true })
    .filter((each) => Math.abs(each) > 1e-100);
  const numbers = fc.oneof(fc.maxSafeInteger(), fractions);
  const value = fc.oneof(fc.string({ unit: 'binary' }), numbers, fc.constant(null), fc.array(fc.string()));
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), value), (fields) => {
      const entries = Object.entries(fields).map(([name, each]) => [name, attributeOf(each, name)]);
      const item = Object.fromEntries(entries) as Item;
      expect(itemBytesAtMost(item)).toBeGreaterThanOrEqual(itemBytes(item));
    }),
  );
});
