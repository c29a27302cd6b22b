import { expect, test } from 'vitest';
import {
  cloudEvents,
  EVENT_SOURCE,
  hashJson,
  HISTORY_LENGTH,
  MOST_QUESTIONS,
  DEFAULT_LEASE_MS,
  DEFAULT_RETENTION_MS,
  leaseTiming,
  MAX_INLINE_BYTES,
  readMessage,
  recordFromWire,
  SCHEMA_VERSION,
  taskIdOf,
  type EffectRecord,
  type Json,
  type Ownership,
  type Stage,
  type TaskEvent,
  type TaskState,
  type WireRecord,
} from '@leasehold/core';
import { LOOK_PATH } from '@leasehold/guard';
import { defineTask } from '@leasehold/worker';
import { parseOptions } from '../../packages/guard/src/options.ts';
import { codes, examples, listed, table, tables } from './page.ts';
import { complaints, resolve, schema } from './schemas.ts';

const found = examples();
const of = (name: string): unknown[] => found.filter((example) => example.schema === name).map(({ json }) => json);

test('every example is valid by the schema it names, and every schema has one', () => {
  for (const { schema: name, json } of found) expect(complaints(name, json), name).toEqual([]);
  const parts = ['record', 'envelope', 'headers', 'look', 'problem'].map((name) => `${name}.schema.json`);
  expect(parts.filter((part) => !found.some((example) => example.schema.startsWith(part)))).toEqual([]);
});

test('the examples are about one task, and their hashes are right', () => {
  const records = (of('record.schema.json') as WireRecord[]).map(recordFromWire);
  const [envelope] = of('envelope.schema.json') as { data: Json }[];
  const [headers] = of('headers.schema.json') as Record<string, string>[];
  const [ask] = of('look.schema.json#/$defs/ask') as Record<string, unknown>[];
  const codec = cloudEvents();
  const body = new TextEncoder().encode(JSON.stringify(envelope));
  const message = readMessage(codec, 'queue', { messageId: 'm', body, attributes: {} });
  expect(records).toHaveLength(2);
  expect(message.payloadHash).toBe(hashJson(envelope?.data));
  const decoded = codec.decode({ messageId: 'm', body, attributes: {} });
  const { taskId, idempotencyKey } = message;
  expect(JSON.parse(new TextDecoder().decode(codec.encode({ ...decoded, taskId, idempotencyKey }).body))).toEqual(
    envelope,
  );
  for (const record of records) {
    const { taskType, agentRunId, payloadHash, effects } = record;
    expect(record.taskId).toBe(taskIdOf('open-case', 'run-12/step-3'));
    expect({ taskId: record.taskId, taskType, idempotencyKey: record.idempotencyKey, agentRunId, payloadHash }).toEqual(
      {
        taskId,
        taskType: message.taskType,
        idempotencyKey,
        agentRunId: message.agentRunId,
        payloadHash: message.payloadHash,
      },
    );
    const effect = effects['create'];
    expect(effect?.requestHash).toBe(hashJson([effect?.system, effect?.key, null, payloadHash]));
    expect(message.traceparent).toContain(record.traceId);
    expect([headers?.['x-execution-scope'], headers?.['idempotency-key']]).toEqual([taskId, effect?.key]);
    expect([ask?.['scope'], ask?.['key']]).toEqual([taskId, effect?.key]);
  }
});

test('the figures are those of the code', () => {
  const guard = parseOptions({ mode: 'enforce', require: 'key', retention: '30d' });
  const timing = leaseTiming(DEFAULT_LEASE_MS);
  const task = defineTask({ type: 't', run: () => null });
  const deep = (levels: number): Json => JSON.parse('['.repeat(levels) + ']'.repeat(levels)) as Json;
  expect(() => hashJson(deep(256))).not.toThrow();
  expect(() => hashJson(deep(257))).toThrow('256');
  const figures = [
    SCHEMA_VERSION,
    HISTORY_LENGTH,
    MOST_QUESTIONS,
    MAX_INLINE_BYTES,
    256,
    EVENT_SOURCE,
    LOOK_PATH,
    DEFAULT_RETENTION_MS,
    timing.leaseMs,
    timing.heartbeatMs,
    timing.marginMs,
    timing.tolerate,
    task.attempts,
    guard.holdMs,
    guard.maxHeaderLength,
    guard.maxBodyBytes,
    guard.maxStoredBytes,
  ];
  expect(table('Figures').map((row) => codes(row['value'])[0])).toEqual(figures.map(String));
});

/** The keys of a record that has to have one for every member of a union: adding a member breaks the compilation here. */
function members<Name extends string>(all: Readonly<Record<Name, true>>): string[] {
  return Object.keys(all).toSorted();
}

test('states, stages, effect statuses, ownership and events are those of the code, on the page and in the schema', () => {
  const root = schema('record');
  const values = (name: string): string[] => (resolve(root, { $ref: `#/$defs/${name}` }).enum as string[]).toSorted();
  const states = members<TaskState>({
    queued: true,
    running: true,
    waiting_human: true,
    settled: true,
    dead_lettered: true,
    cancelled: true,
  });
  const stages = members<Stage>({ preflight: true, external_call: true, commit: true, verify: true, settled: true });
  const statuses = members<EffectRecord['status']>({ intended: true, verified: true, absent: true, in_doubt: true });
  expect([listed('States').toSorted(), values('state')]).toEqual([states, states]);
  expect([listed('Stages').toSorted(), values('stage')]).toEqual([stages, stages]);
  const effect = resolve(root, { $ref: '#/$defs/effect' }).properties?.['status']?.enum as string[];
  const [, onPage = []] = tables('An effect');
  expect([onPage.flatMap((row) => codes(row['status'])).toSorted(), effect.toSorted()]).toEqual([statuses, statuses]);

  const ownership = members<Ownership>({ held: true, unknown: true, lost: true });
  expect((tables('Store clock')[1] ?? []).flatMap((row) => codes(row['ownership'])).toSorted()).toEqual(ownership);
  const events = members<TaskEvent['type']>({
    claim: true,
    renew: true,
    intend: true,
    checkpoint: true,
    settle: true,
    release: true,
    'hand-off': true,
    'dead-letter': true,
    'begin-close': true,
    'end-close': true,
    'raise-token': true,
    'ask-human': true,
    answer: true,
    reopen: true,
    cancel: true,
    sweep: true,
    'follow-ups-sent': true,
    'dead-letter-sent': true,
  });
  expect([...new Set(listed('Transitions'))].toSorted()).toEqual(events);
});
