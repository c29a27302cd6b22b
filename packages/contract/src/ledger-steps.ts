import assert from 'node:assert/strict';
import {
  canonicalJson,
  SCHEMA_VERSION,
  type Json,
  type LedgerDriver,
  type LedgerQuery,
  type LeaseStamp,
  type PutExpectation,
  type TaskRecord,
} from '@leasehold/core';
import type { LedgerHarness } from './conformance-case.ts';
import { attempt, never } from './waiting.ts';

const AT = 1_700_000_000_000;

/** A record of a task that was just claimed, without an expiry: the driver stamps that. */
export function claimed(taskId: string, more: Partial<TaskRecord> = {}): TaskRecord {
  return {
    schemaVersion: SCHEMA_VERSION,
    taskId,
    taskType: 'contract',
    state: 'running',
    stage: 'preflight',
    stageEnteredAt: AT,
    renewalCount: 0,
    history: [{ stage: 'preflight', reason: 'claimed', at: AT }],
    leaseOwner: 'suite/1#a',
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: `key of ${taskId}`,
    effects: {},
    payloadHash: 'a'.repeat(64),
    version: 1,
    opId: `op of ${taskId}`,
    createdAt: AT,
    updatedAt: AT,
    ...more,
  };
}

/** A record with every field there is, but the expiry. */
export function everyField(): TaskRecord {
  return claimed('whole', {
    agentRunId: 'run-1',
    stage: 'verify',
    renewalReason: 'waiting for the answer of crm',
    renewalCount: 3,
    heartbeatAt: 1_700_000_000_123,
    effects: {
      create: {
        key: 'k',
        status: 'verified',
        token: 1,
        system: 'crm',
        targetId: 't',
        requestHash: 'b'.repeat(64),
        externalId: 'case-7',
        externalStatus: 'open',
        lookUrl: 'https://crm.example/look',
        intendedAt: 1,
        committedAt: 2,
        verifiedAt: 3,
      },
    },
    settlementReceipt: {
      taskId: 'whole',
      stage: 'settled',
      externalSystem: 'crm',
      externalId: 'case-7',
      status: 'open',
      idempotencyKey: 'k',
      verifiedAt: 3,
      token: 1,
    },
    result: { inline: { caseId: 'case-7', list: [1, 'two', null, { three: 3 }] } },
    checkpoint: { sha256: 'c'.repeat(64), bytes: 9_000, ref: 's3://x/y' },
    next: [{ taskId: 'whole:next:0', type: 'notify', idempotencyKey: 'n', input: { to: 'somebody' } }],
    parked: { omitted: 'too large' },
    lastError: { errorClass: 'retryable', code: 'timeout', message: 'the model did not answer' },
    closing: { to: 'cancelled', reason: 'asked', errorClass: 'cancelled' },
    cancelRequested: true,
    deadLetterSent: false,
    deadlineAt: 1_700_000_100_000,
    retryAt: 1_700_000_050_000,
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    expiresAt: 1_702_592_000_000,
    extra: { from_the_future: { a: [1] } },
  });
}

/** The next write of `record`: version + 1 and what changed. */
export function after(record: TaskRecord, change: Partial<TaskRecord>): TaskRecord {
  return { ...record, version: record.version + 1, opId: `op ${record.version + 1} of ${record.taskId}`, ...change };
}

/** The record as `lease` of some length would be stored; `undefined` takes the lease away. */
export function withExpiry(record: TaskRecord, leaseExpiresAt: number | undefined): TaskRecord {
  const { leaseExpiresAt: _, ...rest } = record;
  return leaseExpiresAt === undefined ? rest : { ...rest, leaseExpiresAt };
}

/** Puts, and fails when that is refused. Gives the record as stored. */
export async function put(
  driver: LedgerDriver,
  next: TaskRecord,
  lease: LeaseStamp | undefined,
  expect: PutExpectation,
): Promise<TaskRecord> {
  const outcome = await driver.put(next, lease, expect, never());
  assert.ok(outcome.ok, `the write of version ${next.version} of ${next.taskId} was refused`);
  return outcome.record;
}

/** Creates the record with a lease. */
export function create(driver: LedgerDriver, record: TaskRecord, ms: number): Promise<TaskRecord> {
  return put(driver, record, { ms }, { version: 0 });
}

/** Puts, and fails unless it is refused with `current` as it stands; nothing may have changed. */
export async function refused(
  driver: LedgerDriver,
  next: TaskRecord,
  lease: LeaseStamp | undefined,
  expect: PutExpectation,
  current: TaskRecord | undefined,
): Promise<void> {
  const outcome = await driver.put(next, lease, expect, never());
  assert.ok(!outcome.ok, `the write of version ${next.version} of ${next.taskId} was accepted`);
  same(outcome.current, current, 'the refusal carries the record as it stands');
  same(await read(driver, next.taskId), current, 'a refused write changes nothing');
}

/** The record as stored now. */
export async function read(driver: LedgerDriver, taskId: string): Promise<TaskRecord | undefined> {
  return (await driver.get(taskId, never())).record;
}

/** Compares by content, whatever the names of fields: `__proto__` counts as well. */
export function same(found: unknown, expected: unknown, what: string): void {
  const show = (value: unknown): string => (value === undefined ? 'nothing' : canonicalJson(value));
  assert.equal(show(found), show(expected), what);
}

/** The put is refused as a bad request, by an error that core can classify, and nothing is written. */
export async function invalid(
  driver: LedgerDriver,
  next: TaskRecord,
  expect: PutExpectation,
  stays: TaskRecord | undefined,
): Promise<void> {
  const outcome = await attempt(driver.put(next, { ms: 1_000 }, expect, never()));
  assert.ok('error' in outcome, 'the write was answered, not rejected');
  assert.equal(driver.classify(outcome.error), 'invalid');
  same(await read(driver, next.taskId), stays, 'nothing is written');
}

/** A lease that can be waited out: no shorter than the store can keep apart, its clock error included. */
export function shortLease(harness: LedgerHarness, driver: LedgerDriver): number {
  return (
    Math.max(driver.capabilities.minLeaseMs, harness.advance ? 10_000 : 1_000) + 2 * driver.capabilities.clockErrorMs
  );
}

/** Every page of a query, and the ids on them in order. */
export async function listed(driver: LedgerDriver, query: Omit<LedgerQuery, 'cursor'>): Promise<readonly TaskRecord[]> {
  const found: TaskRecord[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < 200; pages++) {
    const page = await driver.list(cursor === undefined ? query : { ...query, cursor }, never());
    assert.ok(page.records.length <= query.limit, `a page of ${page.records.length} with a limit of ${query.limit}`);
    found.push(...page.records);
    if (page.cursor === undefined) return found;
    cursor = page.cursor;
  }
  assert.fail('the pages of a list never end');
}

/** Names that stores, languages and query builders trip over. */
export const AWKWARD_NAMES: readonly string[] = [
  ...[
    'ttl',
    'owner',
    'lease',
    'size',
    'value',
    'key',
    'order',
    'select',
    'a.b',
    '#n',
    ':v',
    '$set',
    "o'clock",
    '"q"',
    'a b',
  ],
  ...[
    '__proto__',
    'constructor',
    'hasOwnProperty',
    'toString',
    'length',
    'état',
    '中文',
    '😀',
    'e\u0301',
    '\u00e9',
    '100%',
    '[0]',
  ],
];

/** An object whose own fields bear the awkward names. */
export function awkward<T extends Json>(value: (name: string) => T): Record<string, T> {
  const made: Record<string, T> = {};
  for (const name of AWKWARD_NAMES) {
    Object.defineProperty(made, name, { value: value(name), enumerable: true, configurable: true, writable: true });
  }
  return made;
}
