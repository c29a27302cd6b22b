import { describe, expect, test } from 'vitest';
import type { RefusalCause, TaskEvent } from '../src/events.ts';
import type { StoreTime, TaskRecord } from '../src/record.ts';
import {
  answer,
  askHuman,
  at,
  beginClose,
  cancel,
  checkpoint,
  claim,
  deadLetter,
  endClose,
  handOff,
  intend,
  LEASE_MS,
  release,
  renew,
  RETENTION_MS,
  settle,
  START,
  sweep,
} from './task-events.ts';
import { after, finding, LATER, refused } from './task-play.ts';

describe('every refusal', () => {
  const running = after(claim());
  const settled = after(claim(), settle());
  const cancelled = after(claim(), cancel());
  const dead = after(claim(), deadLetter());
  const waiting = after(claim(), askHuman());
  const queued = after(claim(), release());
  const open = after(claim(), intend('create'));
  const closing = after(claim(), beginClose());
  /** For each cause what brings it about. A new cause does not compile without one. */
  const ways: Readonly<Record<RefusalCause, readonly (readonly [TaskRecord | undefined, TaskEvent, StoreTime?])[]>> = {
    'no-record': [
      [undefined, renew()],
      [undefined, sweep()],
      [undefined, { type: 'reopen', opId: 'x' }],
    ],
    'newer-schema': [
      [{ ...running, schemaVersion: '2.0' }, claim()],
      [{ ...running, schemaVersion: 'x' }, cancel()],
    ],
    'taken-over': [
      [running, renew({ token: 2 })],
      [running, settle({ owner: 'svc/b#2' })],
    ],
    expired: [
      [running, renew(), at(LEASE_MS)],
      [running, settle(), LATER],
    ],
    released: [
      [queued, renew()],
      [after(claim(), handOff()), checkpoint()],
    ],
    settled: [
      [settled, claim()],
      [settled, renew()],
      [settled, cancel()],
    ],
    cancelled: [
      [cancelled, claim()],
      [cancelled, renew()],
      [cancelled, cancel()],
    ],
    'dead-lettered': [
      [dead, claim()],
      [dead, claim({ carriedToken: 0 })],
      [dead, renew()],
      [dead, cancel()],
    ],
    'waiting-human': [
      [waiting, claim()],
      [waiting, renew()],
    ],
    busy: [
      [running, claim()],
      [running, sweep()],
    ],
    'not-yet': [[after(claim(), release({ delayMs: 1_000 })), claim()]],
    'task-id-reused': [
      [running, claim({ payloadHash: 'other' })],
      [settled, claim({ taskType: 'other' })],
    ],
    'older-than-ledger': [
      [undefined, claim({ carriedToken: 4 })],
      [undefined, claim({ sentAt: START - RETENTION_MS }), at(0)],
    ],
    'effect-open': [
      [open, settle()],
      [open, deadLetter()],
      [open, sweep(), LATER],
      [after(claim(), intend('a'), beginClose()), endClose({ token: 2 })],
    ],
    'effect-verified': [[after(claim(), intend('a'), renew(finding('a', 'verified'))), intend('a')]],
    'effect-key-changed': [[open, intend('create', { details: { key: 'another', system: 'crm' } })]],
    'cancel-requested': [
      [after(claim(), intend('a'), cancel()), intend('b')],
      [after(claim(), intend('a'), cancel()), settle(finding('a', 'absent'))],
      [after(claim(), intend('a'), cancel()), cancel()],
    ],
    closing: [
      [closing, intend('b', { token: 2 })],
      [closing, settle({ token: 2 })],
      [
        after(claim(), beginClose({ closing: { to: 'cancelled', reason: 'r', errorClass: 'cancelled' } })),
        settle({ token: 2 }),
      ],
    ],
    'not-closing': [[running, endClose()]],
    'settle-wins': [[after(claim(), intend('a'), renew(finding('a', 'verified'))), cancel()]],
    'receipt-mismatch': [
      [running, settle({ receipt: { ...settle().receipt, taskId: 'task-2' } })],
      [running, settle({ receipt: { ...settle().receipt, idempotencyKey: 'key-2' } })],
    ],
    'nothing-to-do': [
      [running, answer()],
      [running, { type: 'reopen', opId: 'x' }],
      [settled, sweep()],
      [settled, { type: 'follow-ups-sent', opId: 'x' }],
      [running, { type: 'dead-letter-sent', opId: 'x' }],
    ],
  };
  for (const [cause, cases] of Object.entries(ways)) {
    test(`${cause} is given as the cause`, () => {
      for (const [record, event, now] of cases) expect(refused(record, event, now)).toMatchObject({ refused: cause });
    });
  }
});
