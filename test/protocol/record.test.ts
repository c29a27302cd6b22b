import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { MOST_QUESTIONS, recordFromWire, recordToWire, type WireRecord } from '@leasehold/core';
import { steps, walk } from '../../packages/core/test/decide-walk.ts';
import { fullRecord, runningRecord } from './full-record.ts';
import { codes, table } from './page.ts';
import { complaints, resolve, schema, type Schema } from './schemas.ts';

const RECORD = 'record.schema.json';
const root = schema('record');
const properties = root.properties ?? {};
const full = recordToWire(fullRecord);

test('whatever a history of events makes of a record is valid, unknown fields of newer versions included', () => {
  fc.assert(
    fc.property(steps, (history) => {
      for (const { transitions } of walk(history)) {
        for (const { after } of transitions) expect(complaints(RECORD, recordToWire(after))).toEqual([]);
      }
    }),
    { numRuns: 150 },
  );
});

test('the schema has the fields the codec writes, no more and no fewer, and so has the page', () => {
  expect(Object.keys(full).toSorted()).toEqual(Object.keys(properties).toSorted());
  expect(table('Record').map((row) => row['field'])).toEqual(Object.keys(properties).map((name) => `\`${name}\``));
});

test('the same holds for what is inside of effects, receipt, history, questions, follow-ups, errors and closings', () => {
  const parts: Readonly<Record<string, Schema | undefined>> = {
    effects: properties['effects']?.additionalProperties,
    settlement_receipt: properties['settlement_receipt'],
    history: properties['history']?.items,
    human: properties['human']?.items,
    next: properties['next']?.items,
    last_error: properties['last_error'],
    closing: properties['closing'],
  };
  for (const [field, part] of Object.entries(parts)) {
    const value = field === 'effects' ? (full['effects'] as Record<string, object>)['create'] : [full[field]].flat()[0];
    const names = Object.keys(value as object).toSorted();
    expect(names, field).toEqual(Object.keys(resolve(root, part).properties ?? {}).toSorted());
    expect(
      names.filter((name) => /[A-Z]/.test(name)),
      field,
    ).toEqual([]);
  }
  expect(table('An effect').map((row) => row['field'])).toEqual(
    Object.keys(resolve(root, parts['effects']).properties ?? {}).map((name) => `\`${name}\``),
  );
});

test('a field that the codec cannot do without is required, and no other', () => {
  const running = recordToWire(runningRecord());
  expect(complaints(RECORD, running)).toEqual([]);
  const needed = Object.keys(full).filter((name) => throws(() => recordFromWire(without(full, name))));
  expect(needed.toSorted()).toEqual([...(root.required ?? [])].toSorted());
  for (const name of needed) expect(complaints(RECORD, without(running, name)), name).not.toEqual([]);
});

test('a field that the codec finds of the wrong kind is invalid', () => {
  const wrong = [null, true, 'text', -1, 1.5, 2 ** 53, {}, []];
  let refused = 0;
  for (const name of Object.keys(full)) {
    for (const value of wrong) {
      const broken: WireRecord = { ...full, [name]: value };
      if (!throws(() => recordFromWire(broken))) continue;
      refused++;
      // The full record is invalid as a whole, since no state has every field: the field itself has to be named.
      const about = complaints(RECORD, broken).filter((complaint) => complaint.startsWith(`/${name} `));
      expect(about.length, `${name}: ${JSON.stringify(value)}`).toBeGreaterThan(0);
    }
  }
  expect(refused).toBeGreaterThan(100);
});

test('a record has what its state stands for, and nothing that belongs to another', () => {
  const open = ['queued', 'running', 'waiting_human'];
  const only: Readonly<Record<string, readonly string[]>> = {
    lease_owner: ['running'],
    lease_expires_at: ['running'],
    settlement_receipt: ['settled'],
    result: ['settled'],
    next: ['settled'],
    dead_letter_sent: ['dead_lettered'],
    closing: open,
    cancel_requested: open,
    retry_at: open,
  };
  const needed: Readonly<Record<string, readonly string[]>> = {
    running: ['lease_owner', 'lease_expires_at'],
    settled: ['settlement_receipt', 'expires_at'],
    dead_lettered: ['dead_letter_sent', 'expires_at'],
    cancelled: ['expires_at'],
  };
  const effect = (full['effects'] as Record<string, WireRecord>)['create'];
  for (const state of table('States').flatMap((row) => codes(row['state']))) {
    const foreign = Object.keys(only).filter((name) => !only[name]?.includes(state));
    const sound = { ...foreign.reduce(without, full), state };
    expect(complaints(RECORD, sound), state).toEqual([]);
    for (const name of foreign)
      expect(complaints(RECORD, { ...sound, [name]: full[name] }), `${state} with ${name}`).not.toEqual([]);
    for (const name of needed[state] ?? [])
      expect(complaints(RECORD, without(sound, name)), `${state} without ${name}`).not.toEqual([]);
    const intended = { ...sound, effects: { create: { ...effect, status: 'intended' } } };
    expect(complaints(RECORD, intended).length === 0, `${state} with an intended effect`).toBe(open.includes(state));
  }
});

test('the page gives the types and requirements of the schema', () => {
  const words: Readonly<Record<string, string>> = {
    string: 'text',
    integer: 'count',
    number: 'instant',
    boolean: 'flag',
    object: 'object',
    array: 'list',
  };
  const typeOf = (part: Schema): string => {
    const { type, enum: values } = resolve(root, part);
    return values ? 'text' : (words[type ?? ''] ?? `unknown ${type}`);
  };
  const typed = (of: Schema): Record<string, string> =>
    Object.fromEntries(
      Object.entries(of.properties ?? {}).map(([name, part]) => [
        `\`${name}\``,
        `${typeOf(part)}${of.required?.includes(name) ? ', required' : ''}`,
      ]),
    );
  const onPage = (heading: string): Record<string, string> =>
    Object.fromEntries(table(heading).map((row) => [row['field'] ?? '', row['type'] ?? '']));
  expect(onPage('Record')).toEqual(typed(root));
  expect(onPage('An effect')).toEqual(typed(resolve(root, { $ref: '#/$defs/effect' })));
});

function without(record: WireRecord, name: string): WireRecord {
  return Object.fromEntries(Object.entries(record).filter(([field]) => field !== name));
}

function throws(act: () => unknown): boolean {
  try {
    act();
    return false;
  } catch {
    return true;
  }
}

test('a record with as many questions as may be asked is valid', () => {
  const human = Array.from({ length: MOST_QUESTIONS }, (_, at) => ({
    question: `${at}?`,
    askedAt: 1,
    approved: true,
    reason: 'yes',
    answeredAt: 2,
  }));
  expect(complaints(RECORD, recordToWire({ ...runningRecord(), human }))).toEqual([]);
});
