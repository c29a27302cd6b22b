import { describe, expect, test } from 'vitest';
import type { TaskRecord } from '@leasehold/core';
import { audit } from './audit.ts';
import type { Entry } from './journal.ts';
import { evidenceOf, soundDraft, type Draft } from './sound-evidence.ts';

/** Something that went wrong, and the invariant by which the audit has to find it. */
interface Wrong {
  readonly of: string;
  readonly what: string;
  readonly change: (draft: Draft) => void;
}

const TICKET = 'ticket-1';

const WRONGS: Readonly<Record<string, Wrong>> = {
  'a task that is still running': {
    of: 'I5',
    what: 'it has no end: it is running',
    change: (draft) => edit(draft, TICKET, { state: 'running' }),
  },
  'a task without a record': {
    of: 'I5',
    what: 'not in the ledger',
    change: ({ records }) => void records.delete('plain-0'),
  },
  'a follow-up that never came': {
    of: 'I5',
    what: 'not in the ledger',
    change: ({ records }) => void records.delete('parent-4:next:0'),
  },
  'follow-ups that were not sent': {
    of: 'I5',
    what: 'follow-ups were not sent',
    change: (draft) => edit(draft, 'parent-4', { next: [] }),
  },
  'an end that the kind of task cannot have': {
    of: 'I5',
    what: 'it is dead_lettered',
    change: (draft) =>
      edit(draft, TICKET, {
        state: 'dead_lettered',
        lastError: { errorClass: 'attempts-exhausted', code: 'x', message: 'x' },
      }),
  },
  'a dead letter for a reason of another kind': {
    of: 'I5',
    what: 'it was dead-lettered for lapsed',
    change: (draft) => edit(draft, 'broken-3', { lastError: { errorClass: 'lapsed', code: 'x', message: 'x' } }),
  },
  'a dead-lettered task whose message is gone': {
    of: 'I5',
    what: 'its message is not in the dead-letter queue',
    change: (draft) => void (draft.deadLetters = draft.deadLetters.filter(({ reason }) => reason !== 'permanent')),
  },
  'a message of a settled task in the dead-letter queue': {
    of: 'I5',
    what: 'its message was dead-lettered',
    change: ({ deadLetters }) =>
      void deadLetters.push({
        messageId: 'm',
        body: new Uint8Array(),
        attributes: { leaseholdtaskid: 'plain-0' },
        reason: 'busy',
        description: '',
      }),
  },
  'an unreadable message that is nowhere': {
    of: 'I5',
    what: 'poison-1 is not in the dead-letter queue',
    change: (draft) => void (draft.deadLetters = draft.deadLetters.filter(({ reason }) => reason !== 'undecodable')),
  },
  'another payload under a known id that is nowhere': {
    of: 'I5',
    what: 'impostor-1 is not in the dead-letter queue',
    change: (draft) => void (draft.deadLetters = draft.deadLetters.filter(({ reason }) => reason !== 'task-id-reused')),
  },
  'a confirmed cancellation that did not hold': {
    of: 'I5',
    what: 'its cancellation was confirmed',
    change: (draft) => edit(draft, 'doomed-2', { state: 'settled' }),
  },
  'a cancellation that nobody asked for': {
    of: 'I5',
    what: 'nobody asked for that',
    change: (draft) => edit(draft, 'plain-0', { state: 'cancelled' }),
  },
  'a record that nobody asked for': {
    of: 'I5',
    what: 'nobody asked for it',
    change: ({ records }) => {
      const record = records.get('plain-0');
      if (record) records.set('stray', { ...record, taskId: 'stray' });
    },
  },
  'messages that are left in the queue': {
    of: 'I5',
    what: '2 messages are left',
    change: (draft) => void (draft.left = 2),
  },
  'a task that nobody took over for a minute': {
    of: 'I5',
    what: 'without an owner',
    change: ({ entries }) => {
      for (const [index, entry] of entries.entries())
        if (entry.at > 5_300) entries[index] = { ...entry, at: entry.at + 60_000 };
    },
  },
  'an effect that was made twice': {
    of: 'I4',
    what: 'done 2 times',
    change: ({ rows }) => {
      const [row] = rows;
      if (row) rows.push({ ...row, id: 'T-2' });
    },
  },
  'an effect that was made again under another key': {
    of: 'I4',
    what: 'done 2 times',
    change: ({ rows }) => {
      const [row] = rows;
      if (row) rows.push({ ...row, id: 'T-2', key: 'other' });
    },
  },
  'a verified effect that nobody made': {
    of: 'I4',
    what: 'nobody did it',
    change: (draft) => void (draft.rows = draft.rows.filter(({ id }) => id !== 'T-1')),
  },
  'a verified effect with another id': {
    of: 'I4',
    what: 'is said to be T-1, and is T-9',
    change: (draft) => void (draft.rows = draft.rows.map((row) => (row.id === 'T-1' ? { ...row, id: 'T-9' } : row))),
  },
  'a receipt that names something else': {
    of: 'I4',
    what: 'its receipt names T-7',
    change: (draft) => {
      const receipt = draft.records.get(TICKET)?.settlementReceipt;
      if (receipt) edit(draft, TICKET, { settlementReceipt: { ...receipt, externalId: 'T-7' } });
    },
  },
  'a settled task without its effect': {
    of: 'I4',
    what: 'settled without its effect',
    change: (draft) => {
      edit(draft, TICKET, { effects: {} });
      draft.rows = draft.rows.filter(({ id }) => id !== 'T-1');
    },
  },
  'an effect that no record vouches for': {
    of: 'I4',
    what: 'no record vouches for it',
    change: ({ rows }) =>
      void rows.push({
        id: 'T-5',
        meaning: 'ticket for broken-3',
        taskId: 'broken-3',
        token: 1,
        key: 'broken-3:ticket',
      }),
  },
  'an effect that was never read back': {
    of: 'I4',
    what: 'was never read back',
    change: (draft) => editEffect(draft, { status: 'intended' }),
  },
  'an effect that is said to be absent and exists': {
    of: 'I4',
    what: 'is said to be absent',
    change: (draft) => editEffect(draft, { status: 'absent' }),
  },
  'a token that fell': {
    of: 'I1',
    what: 'the token fell from 2 to 1',
    change: (draft) => editWrites(draft, 4, { token: 1 }),
  },
  'two grants under one token': {
    of: 'I1',
    what: 'token 1 was granted twice',
    change: (draft) => {
      editWrites(draft, 3, { token: 1 });
      editWrites(draft, 4, { token: 1 });
    },
  },
  'two claims of one token': {
    of: 'I1',
    what: 'claimed under the tokens 1, 2, 2',
    change: ({ entries }) => {
      const claimed = entries.find(
        (entry) => entry.kind === 'event' && entry.event.taskId === TICKET && entry.event.token === 2,
      );
      if (claimed) entries.push({ ...claimed, who: 'worker-3.1' });
    },
  },
  'one version that was accepted twice': {
    of: 'ledger',
    what: 'version 2 was accepted twice',
    change: (draft) => editWrites(draft, 3, { version: 2 }),
  },
  'a write that the ledger has forgotten': {
    of: 'ledger',
    what: 'the record has 1',
    change: (draft) => edit(draft, TICKET, { version: 1 }),
  },
  'a task that was settled twice': {
    of: 'I2',
    what: 'settled 2 times',
    change: ({ entries }) => {
      const settled = entries.find((entry) => entry.kind === 'event' && entry.event.name === 'task_settled');
      if (settled) entries.push(settled);
    },
  },
  'a settle under another token after the settle': {
    of: 'I2',
    what: 'settled under token 1 and again under 2',
    change: (draft) => editWrites(draft, 3, { state: 'settled', receipt: { token: 1, id: 'x' } }),
  },
  'a settled task that was granted again': {
    of: 'I2',
    what: 'it was settled, and running afterwards',
    change: (draft) => editWrites(draft, 2, { state: 'settled' }),
  },
  'a receipt of another owner': {
    of: 'I2',
    what: 'its receipt is of token 1',
    change: (draft) => {
      const receipt = draft.records.get(TICKET)?.settlementReceipt;
      if (receipt) edit(draft, TICKET, { settlementReceipt: { ...receipt, token: 1 } });
    },
  },
  'an owner that writes on after it was refused': {
    of: 'I3',
    what: 'after it had been refused',
    change: ({ entries }) => {
      const next = { version: 3, token: 1, attempt: 1, state: 'running', opId: 'late' } as const;
      const shown = { version: 3, token: 2, attempt: 2, state: 'running', opId: 'new', owner: 'worker-1.1/x' } as const;
      const who = 'worker-2.1';
      entries.push(
        { who, at: 6_000, kind: 'sent', n: 900, taskId: TICKET, next, expect: 'live' },
        { who, at: 6_010, kind: 'answered', n: 900, answer: 'refused', shown },
        { who, at: 6_020, kind: 'sent', n: 901, taskId: TICKET, next, expect: 'live' },
      );
    },
  },
  'a receiver that acts for an older owner': {
    of: 'I3',
    what: 'acted under token 1 after it had answered token 2',
    change: ({ entries }) =>
      void entries.push({
        who: 'receiver.1',
        at: 5_470,
        kind: 'applied',
        taskId: TICKET,
        token: 1,
        key: `${TICKET}:ticket`,
      }),
  },
  'a call that starts while ownership is unknown': {
    of: 'I6',
    what: 'while the lease was unknown',
    change: ({ entries }) => {
      for (const [index, entry] of entries.entries())
        if (entry.kind === 'call' && entry.token === 2) entries[index] = { ...entry, ownership: 'unknown' };
    },
  },
  'a call that starts when the lease is over': {
    of: 'I6',
    what: 'after its lease was over',
    change: ({ entries }) => {
      for (const [index, entry] of entries.entries())
        if (entry.kind === 'call' && entry.token === 2) entries[index] = { ...entry, at: 11_000 };
    },
  },
  'a write under a lease that was over': {
    of: 'I7',
    what: 'after the lease was over',
    change: (draft) => editWrites(draft, 4, {}, 5_000),
  },
  'a takeover of a lease that was not over': {
    of: 'I7',
    what: 'before the lease was over',
    change: (draft) => editWrites(draft, 3, {}, -2_000),
  },
  'a clock that was not shifted': {
    of: 'clock',
    what: 'was never seen to have its clock shifted by 10 min',
    change: (draft) =>
      void (draft.faults = draft.faults.map((fault) => (fault.kind === 'clock' ? { ...fault, seen: false } : fault))),
  },
};

test('The evidence of a sound run passes, and its numbers are right', () => {
  const { tally, violations } = audit(evidenceOf(soundDraft()));
  expect(violations).toEqual([]);
  expect(tally).toMatchObject({
    tasks: 6,
    settled: 4,
    cancelled: 1,
    deadLettered: 1,
    lost: 0,
    effects: 2,
    duplicateEffects: 0,
  });
  // Killed at 1250, granted anew at 5405.
  expect(tally.recovery).toMatchObject({ takeovers: 1, medianMs: 4_155, p95Ms: 4_155, maxMs: 4_155 });
});

describe('The audit finds', () => {
  test.each(Object.entries(WRONGS))('%s', (_name, { of, what, change }) => {
    const draft = soundDraft();
    change(draft);
    const { violations } = audit(evidenceOf(draft));
    expect(
      violations
        .filter((violation) => violation.of === of)
        .map((violation) => violation.what)
        .join('\n'),
    ).toContain(what);
  });
});

test('Double effects and lost tasks are counted', () => {
  const draft = soundDraft();
  const [row] = draft.rows;
  if (row) draft.rows.push({ ...row, id: 'T-2' }, { ...row, id: 'T-3', key: 'other' });
  draft.records.delete('plain-0');
  draft.deadLetters = [];
  const { tally } = audit(evidenceOf(draft));
  // The task, the unreadable message and the impostor.
  expect(tally).toMatchObject({ duplicateEffects: 2, lost: 3 });
});

function edit({ records }: Draft, taskId: string, change: Partial<TaskRecord>): void {
  const record = records.get(taskId);
  if (record) records.set(taskId, { ...record, ...change });
}

function editEffect(draft: Draft, change: Partial<TaskRecord['effects'][string]>): void {
  const effect = draft.records.get(TICKET)?.effects['ticket'];
  if (effect) edit(draft, TICKET, { effects: { ticket: { ...effect, ...change } } });
}

/** Changes the write of one version of the ticket's record, and moves it and its answer in time. */
function editWrites(
  { entries }: Draft,
  version: number,
  change: Partial<Extract<Entry, { kind: 'sent' }>['next']>,
  byMs = 0,
): void {
  const index = entries.findIndex(
    (entry) => entry.kind === 'sent' && entry.taskId === TICKET && entry.next.version === version,
  );
  const [sent, answered] = [entries[index], entries[index + 1]];
  if (sent?.kind !== 'sent' || !answered) return;
  entries[index] = { ...sent, at: sent.at + byMs, next: { ...sent.next, ...change } };
  entries[index + 1] = { ...answered, at: answered.at + byMs };
}
