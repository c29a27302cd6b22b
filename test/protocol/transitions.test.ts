import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isLoss, recordToWire } from '@leasehold/core';
import type { RefusalCause } from '@leasehold/core';
import { steps, walk, type Transition } from '../../packages/core/test/decide-walk.ts';
import { codes, table, tables, type Table } from './page.ts';
import { scripted } from './transition-scripts.ts';

/** One kind of transition: an event, where from, where to. */
interface Row {
  readonly kinds: readonly string[];
  readonly event: string;
  readonly cells: Table[number];
}

interface Seen {
  readonly sets: Set<string>;
  readonly removes: Set<string>;
  readonly conditions: Set<string>;
}

const EVERY = ['version', 'op_id', 'updated_at'];

const kind = (event: string, from: string, to: string): string => `${event}: ${from} → ${to}`;

function rowsOf(found: Table): readonly Row[] {
  return found.map((cells) => {
    const [event = ''] = codes(cells['event']);
    const [from, to] = (cells['change'] ?? '').split('→').map(codes);
    return { event, cells, kinds: (from ?? []).flatMap((state) => (to ?? []).map((next) => kind(event, state, next))) };
  });
}

/** The fields of a cell, without the remarks in brackets. */
const fields = (cell: string | undefined): string[] => codes(cell?.replaceAll(/\([^()]*\)/g, ''));

const transitions = rowsOf(table('Transitions'));
const [writesTable = [], carriedTable = []] = tables('What each writes');
const writes = rowsOf(writesTable);
const carried = carriedTable.flatMap((row) => fields(row['sets']));
const owners = new Set(transitions.filter(({ cells }) => cells['by'] === 'the owner').map(({ event }) => event));

/** Every kind of transition that happens: the scripts show all that can be, random histories that there is no more. */
function observe(): ReadonlyMap<string, Seen> {
  const seen = new Map<string, Seen>();
  const note = ({ before, after, event, decision }: Transition): void => {
    if (!decision) return;
    const name = kind(event.type, before?.state ?? 'none', after.state);
    const found = seen.get(name) ?? { sets: new Set(), removes: new Set(), conditions: new Set() };
    seen.set(name, found);
    const expects = 'lease' in decision.expect ? decision.expect.lease : 'none';
    found.conditions.add(`${expects}${decision.leaseMs === undefined ? '' : ', lease'}`);
    const [old, fresh] = [before ? recordToWire(before) : {}, recordToWire(after)];
    for (const [field, value] of Object.entries(fresh)) {
      if (JSON.stringify(value) !== JSON.stringify(old[field])) found.sets.add(field);
    }
    for (const field of Object.keys(old)) if (!Object.hasOwn(fresh, field)) found.removes.add(field);
  };
  for (const transition of scripted()) note(transition);
  fc.assert(
    fc.property(steps, (history) => walk(history).forEach((life) => life.transitions.forEach(note))),
    { numRuns: 250 },
  );
  return seen;
}

const observed = observe();

test('the transitions of the page are those that happen', () => {
  expect(transitions.flatMap(({ kinds }) => kinds).toSorted()).toEqual([...observed.keys()].toSorted());
  expect(writes.flatMap(({ kinds }) => kinds).toSorted()).toEqual([...observed.keys()].toSorted());
});

test('each is conditional on what the page says, and stamps a lease where it says so', () => {
  for (const { kinds, cells } of transitions) {
    const expected = `${codes(cells['expects']).join()}${cells['lease'] === 'yes' ? ', lease' : ''}`;
    for (const name of kinds) expect([...(observed.get(name)?.conditions ?? [])], name).toEqual([expected]);
  }
});

test('each sets and removes the fields the page names, and no others', () => {
  for (const { kinds, event, cells } of writes) {
    const all = (way: 'sets' | 'removes'): Set<string> =>
      new Set(kinds.flatMap((name) => [...(observed.get(name)?.[way] ?? [])]));
    const sets = fields(cells['sets']);
    const may = [...sets, ...EVERY, ...(owners.has(event) ? carried : [])];
    const name = kinds.join();
    expect(
      [...all('sets')].filter((field) => !may.includes(field)),
      `${name} sets`,
    ).toEqual([]);
    expect(
      [...sets, ...EVERY].filter((field) => !all('sets').has(field)),
      `${name} does not set`,
    ).toEqual([]);
    expect([...all('removes')].toSorted(), `${name} removes`).toEqual(fields(cells['removes']).toSorted());
  }
});

test('the table of fields names the events that set and remove them', () => {
  const events = new Set(transitions.map(({ event }) => event));
  for (const row of table('Record')) {
    const [field = ''] = codes(row['field']);
    const by = (way: 'sets' | 'removes'): string[] =>
      [
        ...new Set(writes.filter(({ cells }) => fields(cells[way]).includes(field)).map(({ event }) => event)),
      ].toSorted();
    const named = (cell: string | undefined): string[] =>
      [...new Set(codes(cell).filter((code) => events.has(code)))].toSorted();
    expect(named(row['set by']), `${field} is set by`).toEqual(by('sets'));
    expect(named(row['removed by']), `${field} is removed by`).toEqual(by('removes'));
    expect(row['set by']?.includes('_carried_'), `${field} is carried`).toBe(carried.includes(field));
    expect(row['set by'] === '_every_', `${field} is set by every write`).toBe(EVERY.includes(field));
  }
});

test('the causes of refusals, and which of them end a lease, are those of the code', () => {
  const causes: Readonly<Record<RefusalCause, true>> = {
    'no-record': true,
    'newer-schema': true,
    'taken-over': true,
    expired: true,
    released: true,
    settled: true,
    cancelled: true,
    'dead-lettered': true,
    'waiting-human': true,
    busy: true,
    'not-yet': true,
    'task-id-reused': true,
    'older-than-ledger': true,
    'effect-open': true,
    'effect-verified': true,
    'effect-key-changed': true,
    'cancel-requested': true,
    closing: true,
    'not-closing': true,
    'settle-wins': true,
    'receipt-mismatch': true,
    'nothing-to-do': true,
  };
  const rows = table('Refusals').map((row) => [codes(row['cause'])[0] ?? '', row['to an owner'] ?? ''] as const);
  expect(rows.map(([cause]) => cause).toSorted()).toEqual(Object.keys(causes).toSorted());
  for (const [cause, toOwner] of rows) expect(toOwner.startsWith('lost'), cause).toBe(isLoss(cause as RefusalCause));
});
