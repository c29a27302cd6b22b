import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isLeaseholdError } from '../src/errors.ts';
import { canonicalJson, type Json } from '../src/json.ts';
import { checkRecord, recordFromWire, recordToWire, type WireRecord } from '../src/record-codec.ts';
import type { TaskRecord } from '../src/record.ts';

const text = fc.string({ maxLength: 12, unit: 'grapheme' });
/** Names that objects know of themselves, ours in either spelling, and anything else. */
const hostile = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'task_id',
  'taskId',
  'key',
  'status',
  'extra',
);
const anyName = fc.oneof(text, hostile);
/** What a newer version might write: snake_case, and none of ours. */
const newName = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'ttl', 'x_shard'),
  fc.stringMatching(/^z_[a-z_]{0,8}$/),
);
const json = fc
  .jsonValue({ maxDepth: 2 })
  .filter((value) => !JSON.stringify(value).includes('-0')) as fc.Arbitrary<Json>;
const extras = fc.array(fc.tuple(newName, json), { maxLength: 3 }).map((entries) => Object.fromEntries(entries));
const instant = fc.integer({ min: 0, max: 2 ** 45 });
const count = fc.maxSafeNat();
const option = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
  fc.option(value, { nil: undefined });
const stage = fc.constantFrom('preflight', 'external_call', 'commit', 'verify', 'settled');
const withNew = <Value extends object>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value> =>
  fc.tuple(value, extras).map(([ours, theirs]) => ({ ...theirs, ...ours }));
const content = fc.oneof(
  fc.record({ inline: json }),
  fc.record({ sha256: text, bytes: count, ref: text }),
  fc.record({ omitted: text }),
);
const effect = withNew(
  fc.record({
    key: text,
    status: fc.constantFrom('intended', 'verified', 'absent', 'in_doubt'),
    token: count,
    system: text,
    targetId: option(text),
    requestHash: option(text),
    externalId: option(text),
    externalStatus: option(text),
    lookUrl: option(text),
    intendedAt: instant,
    committedAt: option(instant),
    verifiedAt: option(instant),
  }),
);
const receipt = withNew(
  fc.record({
    taskId: text,
    stage: fc.constant('settled'),
    externalSystem: text,
    externalId: text,
    status: text,
    idempotencyKey: text,
    verifiedAt: instant,
    token: count,
  }),
);
const record = fc.record({
  schemaVersion: fc.constantFrom('1.0', '1.7', '0.9'),
  taskId: text,
  taskType: text,
  agentRunId: option(text),
  state: fc.constantFrom('queued', 'running', 'waiting_human', 'settled', 'dead_lettered', 'cancelled'),
  stage,
  stageEnteredAt: instant,
  renewalReason: option(text),
  renewalCount: count,
  history: fc.array(withNew(fc.record({ stage, reason: text, at: instant })), { maxLength: 3 }),
  leaseOwner: option(text),
  leaseExpiresAt: option(instant),
  heartbeatAt: option(instant),
  fencingToken: count,
  attempt: count,
  failures: count,
  idempotencyKey: text,
  effects: fc.array(fc.tuple(anyName, effect), { maxLength: 3 }).map((entries) => Object.fromEntries(entries)),
  settlementReceipt: option(receipt),
  result: option(content),
  checkpoint: option(content),
  next: option(
    fc.array(withNew(fc.record({ taskId: text, type: text, idempotencyKey: text, input: json })), { maxLength: 2 }),
  ),
  parked: option(content),
  human: option(
    fc.array(
      withNew(
        fc.record({ question: text, askedAt: instant, approved: option(fc.boolean()), answeredAt: option(instant) }),
      ),
      { maxLength: 2 },
    ),
  ),
  lastError: option(withNew(fc.record({ errorClass: text, code: text, message: text }))),
  closing: option(
    withNew(fc.record({ to: fc.constantFrom('dead_lettered', 'cancelled'), reason: text, errorClass: text })),
  ),
  cancelRequested: option(fc.boolean()),
  deadLetterSent: option(fc.boolean()),
  deadlineAt: option(instant),
  retryAt: option(instant),
  traceId: option(text),
  payloadHash: option(text),
  version: count,
  opId: text,
  createdAt: instant,
  updatedAt: instant,
  expiresAt: option(instant),
  extra: extras.map((all) => (Object.keys(all).length > 0 ? all : undefined)),
}) as unknown as fc.Arbitrary<TaskRecord>;

/** As a store would: through text. */
const stored = (value: TaskRecord): WireRecord => JSON.parse(JSON.stringify(recordToWire(value))) as WireRecord;

function corruption(wire: unknown): { readonly code: string; readonly field: string | undefined } {
  try {
    recordFromWire(wire as WireRecord);
  } catch (error) {
    if (isLeaseholdError(error)) return { code: error.code, field: error.field };
    throw error;
  }
  return expect.unreachable('accepted');
}

test('a record comes back from its wire form as it was, with unknown fields and hostile names', () => {
  fc.assert(
    fc.property(record, (value) => {
      expect(canonicalJson(recordFromWire(stored(value)))).toBe(canonicalJson(value));
      // And what a store holds comes back from ours: nothing is dropped by reading and writing.
      expect(canonicalJson(stored(recordFromWire(stored(value))))).toBe(canonicalJson(stored(value)));
    }),
    { numRuns: 400 },
  );
});

test('the wire form is snake_case, and holds a field of ours rather than an unknown one of the same name', () => {
  fc.assert(
    fc.property(record, (value) => {
      const wire = recordToWire({ ...value, extra: { ...value.extra, version: 'theirs', op_id: 'theirs' } });
      expect([wire['version'], wire['op_id']]).toEqual([value.version, value.opId]);
      const ours = Object.keys(wire).filter((name) => !Object.hasOwn(value.extra ?? {}, name));
      expect(ours.filter((name) => !/^[a-z_]+$/.test(name))).toEqual([]);
    }),
    { numRuns: 50 },
  );
});

const REQUIRED = [
  'schema_version',
  'task_id',
  'task_type',
  'state',
  'stage',
  'stage_entered_at',
  'renewal_count',
  'history',
].concat([
  'fencing_token',
  'attempt',
  'failures',
  'idempotency_key',
  'effects',
  'version',
  'op_id',
  'created_at',
  'updated_at',
]);

test.each(REQUIRED)('a record without %s is corrupt, by that name', (name) => {
  const [sample] = fc.sample(record, { numRuns: 1, seed: 7 });
  const { [name]: _gone, ...wire } = stored(sample as TaskRecord);
  expect(corruption(wire)).toEqual({ code: 'record-corrupt', field: name });
});

test('a field of another kind is corrupt, by its name; of a newer major version nothing is checked and all is kept', () => {
  const [sample] = fc.sample(record, { numRuns: 1, seed: 7 });
  const wire = stored(sample as TaskRecord);
  const wrong: readonly (readonly [string, Json])[] = [
    ['version', -1],
    ['version', 1.5],
    ['fencing_token', '1'],
    ['updated_at', null],
    ['state', 'walking'],
    ['stage', 'somewhere'],
    ['history', {}],
    ['effects', 7],
    ['cancel_requested', 1],
    ['agent_run_id', 7],
  ];
  for (const [field, value] of wrong) {
    expect(corruption({ ...wire, [field]: value })).toEqual({ code: 'record-corrupt', field });
  }
  for (const [field, value] of wrong.filter(([name]) => name !== 'effects')) {
    const newer = { ...wire, [field]: value, schema_version: '2.0' };
    expect(recordToWire(recordFromWire(newer))).toEqual(newer);
  }
  expect(corruption({ ...wire, effects: { a: { key: 'k' } } }).field).toBe('effects.a');
  for (const nothing of [null, [], 'text', 7]) expect(corruption(nothing).code).toBe('record-corrupt');
});

test('a writer finds wrong with a record what a reader of its wire form would, and nothing else', () => {
  const odd = fc.constantFrom<unknown>(undefined, null, -1, 1.5, Number.NaN, '', 'x', true, {}, [], {
    a: { key: 'k' },
  });
  const fields = fc.constantFrom(
    ...['schemaVersion', 'taskId', 'state', 'stage', 'history', 'version', 'fencingToken', 'updatedAt', 'expiresAt'],
    ...['cancelRequested', 'human', 'result', 'lastError', 'closing', 'agentRunId', 'leaseExpiresAt'],
  );
  const spoilt = fc
    .tuple(
      record,
      fc.dictionary(fields, odd, { maxKeys: 1 }),
      fc.constantFrom<unknown>({}, { lease_owner: 7 }, { lease_owner: undefined }),
    )
    .map(([good, bad, extra]) => ({ ...good, ...bad, extra }) as unknown as TaskRecord);
  const openEnded = {
    ...fc.sample(record, { numRuns: 1, seed: 7 })[0],
    effects: { a: { key: 'k' } },
  } as unknown as TaskRecord;
  const failure = (run: () => void): string | undefined => {
    try {
      run();
      return undefined;
    } catch (error) {
      return isLeaseholdError(error) ? error.code : 'another';
    }
  };
  fc.assert(
    fc.property(fc.oneof(record, spoilt), (one) => {
      const read = failure(() => void recordFromWire(recordToWire(one)));
      // What has no form on the wire at all is no reader's business.
      fc.pre(read !== 'another');
      expect(failure(() => checkRecord(one))).toBe(read);
    }),
    { numRuns: 500 },
  );
  expect(failure(() => checkRecord(openEnded))).toBe('record-corrupt');
});
