import type { TaskRecord } from '@leasehold/core';
import { expect, test } from 'vitest';
import { audit } from '../src/audit.ts';
import type { Evidence } from '../src/evidence.ts';
import { soundEvidence } from './sound-evidence.ts';

type Part = Partial<{ -readonly [Field in keyof Evidence]: Evidence[Field] }>;

const sound = soundEvidence();

/** The evidence with the record of one task changed, or taken away. */
function withRecord(taskId: string, changes: Partial<TaskRecord> | undefined): Part {
  const records = sound.records.flatMap((record) => {
    if (record.taskId !== taskId) return [record];
    return changes ? [{ ...record, ...changes }] : [];
  });
  return { records };
}

const withLetters = (deadLetters: Evidence['queue']['deadLetters']): Part => ({
  queue: { ...sound.queue, deadLetters },
});

function without(
  kind: 'workers' | 'service',
  drop: (event: { readonly name: string; readonly state?: string; readonly key?: string }) => boolean,
): Part {
  if (kind === 'workers') return { workers: sound.workers.filter(({ event }) => !drop(event)) };
  return { service: sound.service.filter((said) => said.kind !== 'guard' || !drop(said.event)) };
}

const event = (name: 'task_claimed' | 'task_settled', taskId: string, token: number): Evidence['workers'][number] => ({
  pid: 4,
  event: { name, at: 1, taskId, token },
});

test('evidence with nothing wrong gives its numbers and no violation', () => {
  expect(audit(sound)).toEqual({
    tally: {
      tasks: 6,
      followUps: 1,
      poison: 1,
      settled: 5,
      cancelled: 1,
      deadLettered: 2,
      effects: 4,
      duplicateEffects: 0,
      lost: 0,
      takeovers: 2,
      staleRejected: 1,
      replays: 1,
      readBacks: 2,
    },
    violations: [],
  });
});

const twin = { ...sound.effects[2], id: 'case-twin' } as Evidence['effects'][number];

test.each<[violated: string, what: string, tampered: Part]>([
  ['I1', 'two grants under one token', { workers: [...sound.workers, event('task_claimed', 'kill', 2)] }],
  [
    'I1',
    'a grant above the token that the ledger ended with',
    { workers: [...sound.workers, event('task_claimed', 'drop', 2)] },
  ],
  [
    'I1',
    'a token that falls within one process',
    { workers: [...sound.workers, event('task_claimed', 'kill', 9), event('task_claimed', 'kill', 8)] },
  ],
  ['I1', 'a token that falls in the ledger', { tokenHistory: new Map([['kill', [2, 1]]]) }],
  ['I2', 'two accepted settles', { workers: [...sound.workers, event('task_settled', 'kill', 2)] }],
  [
    'I2',
    'a settle under another token than the receipt bears',
    { workers: [...sound.workers, event('task_settled', 'import', 7)] },
  ],
  ['I2', 'a settle of a task that is cancelled', { workers: [...sound.workers, event('task_settled', 'cancel', 1)] }],
  ['I3', 'an effect under a token below one that was seen', { service: sound.service.toReversed() }],
  ['I4', 'two effects with one key', { effects: [...sound.effects, { ...twin, meaning: 'something else' }] }],
  ['I4', 'two effects with one meaning', { effects: [...sound.effects, { ...twin, key: 'another' }] }],
  ['I4', 'an effect that no task vouches for', withRecord('drop', { effects: {} })],
  ['I4', 'a receipt for something that does not exist', { effects: sound.effects.slice(1) }],
  [
    'I4',
    'a terminal record with an effect still intended',
    withRecord('cancel', { effects: { x: { key: 'x', status: 'intended', token: 1, system: 's', intendedAt: 1 } } }),
  ],
  ['I5', 'a task that is not in the ledger', withRecord('bad', undefined)],
  ['I5', 'a task that has not ended', withRecord('drop', { state: 'running' })],
  ['I5', 'a follow-up that was promised and never came', withRecord('import:next:0', undefined)],
  [
    'I5',
    'a follow-up that was not sent',
    withRecord('import', { next: [{ taskId: 'x', type: 'y', idempotencyKey: 'x', input: null }] }),
  ],
  ['I5', 'a task that nobody asked for', { enqueued: sound.enqueued.slice(0, 5) }],
  ['I5', 'a message left in the queue', { queue: { ...sound.queue, held: 1 } }],
  ['I5', 'an unreadable message that was dropped', withLetters(sound.queue.deadLetters.slice(1))],
  ['I5', 'a dead-lettered task whose message was dropped', withLetters(sound.queue.deadLetters.slice(0, 1))],
  [
    'I5',
    'a settled task whose message was dead-lettered',
    withLetters([...sound.queue.deadLetters, { of: 'drop', reason: 'max-deliveries' }]),
  ],
  ['I5', 'a dead letter of no task', withLetters([...sound.queue.deadLetters, { of: 'nobody', reason: 'permanent' }])],
  ['kill', 'a killed task that no second owner settled', withRecord('kill', { fencingToken: 1 })],
  [
    'kill',
    'a killed task whose effect was not read back',
    without('service', ({ name, key }) => name === 'guard_looked' && key === 'kill:open'),
  ],
  ['stop', 'a stale call that was not refused', without('service', ({ name }) => name === 'guard_refused')],
  [
    'drop',
    'a lost answer that was not read back',
    without('service', ({ name, key }) => name === 'guard_looked' && key === 'drop:open'),
  ],
  ['cancel', 'a cancelled task that settled after all', withRecord('cancel', { state: 'settled' })],
  [
    'replay',
    'a repeated message that was not answered from its receipt',
    without('workers', ({ name }) => name === 'task_replayed'),
  ],
  ['takeovers', 'no takeover at all', { records: sound.records.map(({ lastError: _error, ...record }) => record) }],
  ['readBacks', 'no read-back at all', without('service', ({ name }) => name === 'guard_looked')],
])('%s reports %s', (violated, _what, tampered) => {
  const { violations } = audit({ ...sound, ...tampered });
  expect(violations.map(({ of }) => of)).toContain(violated);
});

test('a message that was moved to the dead-letter queue twice is one, as SQS has no way to move it once', () => {
  const twice = audit({ ...sound, ...withLetters([...sound.queue.deadLetters, ...sound.queue.deadLetters]) });
  expect(twice).toEqual(audit(sound));
});

test('doubles and losses are counted as well as reported', () => {
  const doubled = audit({ ...sound, effects: [...sound.effects, twin] }).tally;
  expect(doubled.duplicateEffects).toBe(1);
  const lost = audit({
    ...sound,
    ...withRecord('import:next:0', undefined),
    ...withLetters(sound.queue.deadLetters.slice(1)),
  }).tally;
  expect(lost.lost).toBe(2);
});
