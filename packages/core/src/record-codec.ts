import { LeaseholdError } from './errors.ts';
import { setOwn, type Json } from './json.ts';
import { isNewerSchema, type TaskRecord } from './record.ts';

/** A record under its wire and storage names (snake_case), without the fields that are absent. */
export type WireRecord = Readonly<Record<string, Json>>;

type Kind = 'text' | 'count' | 'instant' | 'flag' | 'object' | 'list';
type Fields = Readonly<Record<string, readonly [name: string, kind: Kind, required?: 'required']>>;

const RECORD: Fields = {
  schema_version: ['schemaVersion', 'text', 'required'],
  task_id: ['taskId', 'text', 'required'],
  task_type: ['taskType', 'text', 'required'],
  agent_run_id: ['agentRunId', 'text'],
  state: ['state', 'text', 'required'],
  stage: ['stage', 'text', 'required'],
  stage_entered_at: ['stageEnteredAt', 'instant', 'required'],
  renewal_reason: ['renewalReason', 'text'],
  renewal_count: ['renewalCount', 'count', 'required'],
  history: ['history', 'list', 'required'],
  lease_owner: ['leaseOwner', 'text'],
  lease_expires_at: ['leaseExpiresAt', 'instant'],
  heartbeat_at: ['heartbeatAt', 'instant'],
  fencing_token: ['fencingToken', 'count', 'required'],
  attempt: ['attempt', 'count', 'required'],
  failures: ['failures', 'count', 'required'],
  idempotency_key: ['idempotencyKey', 'text', 'required'],
  effects: ['effects', 'object', 'required'],
  settlement_receipt: ['settlementReceipt', 'object'],
  result: ['result', 'object'],
  checkpoint: ['checkpoint', 'object'],
  next: ['next', 'list'],
  parked: ['parked', 'object'],
  human: ['human', 'list'],
  last_error: ['lastError', 'object'],
  closing: ['closing', 'object'],
  cancel_requested: ['cancelRequested', 'flag'],
  dead_letter_sent: ['deadLetterSent', 'flag'],
  deadline_at: ['deadlineAt', 'instant'],
  retry_at: ['retryAt', 'instant'],
  trace_id: ['traceId', 'text'],
  payload_hash: ['payloadHash', 'text'],
  version: ['version', 'count', 'required'],
  op_id: ['opId', 'text', 'required'],
  created_at: ['createdAt', 'instant', 'required'],
  updated_at: ['updatedAt', 'instant', 'required'],
  expires_at: ['expiresAt', 'instant'],
};

const EFFECT: Readonly<Record<string, string>> = {
  target_id: 'targetId',
  request_hash: 'requestHash',
  external_id: 'externalId',
  external_status: 'externalStatus',
  look_url: 'lookUrl',
  intended_at: 'intendedAt',
  lease_ms: 'leaseMs',
  committed_at: 'committedAt',
  verified_at: 'verifiedAt',
};
const RECEIPT: Readonly<Record<string, string>> = {
  task_id: 'taskId',
  external_system: 'externalSystem',
  external_id: 'externalId',
  idempotency_key: 'idempotencyKey',
  verified_at: 'verifiedAt',
};
const TASK_ERROR: Readonly<Record<string, string>> = { error_class: 'errorClass' };
const HUMAN: Readonly<Record<string, string>> = { asked_at: 'askedAt', answered_at: 'answeredAt' };
const FOLLOW_UP: Readonly<Record<string, string>> = { task_id: 'taskId', idempotency_key: 'idempotencyKey' };

const STATES: readonly string[] = ['queued', 'running', 'waiting_human', 'settled', 'dead_lettered', 'cancelled'];
const STAGES: readonly string[] = ['preflight', 'external_call', 'commit', 'verify', 'settled'];

const flip = (names: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(names).map(([wire, ours]) => [ours, wire]));
const EFFECT_OUT = flip(EFFECT);
const RECEIPT_OUT = flip(RECEIPT);
const TASK_ERROR_OUT = flip(TASK_ERROR);
const HUMAN_OUT = flip(HUMAN);
const FOLLOW_UP_OUT = flip(FOLLOW_UP);
/** By wire name; a map, since a record may hold fields of any name. */
const FIELDS: ReadonlyMap<string, { readonly ours: string; readonly kind: Kind; readonly required: boolean }> = new Map(
  Object.entries(RECORD).map(([wire, [ours, kind, required]]) => [
    wire,
    { ours, kind, required: required !== undefined },
  ]),
);
/** By the name it has in a record. */
const OURS: ReadonlyMap<string, { readonly name: string; readonly kind: Kind; readonly required: boolean }> = new Map(
  [...FIELDS].map(([name, { ours, ...field }]) => [ours, { name, ...field }]),
);
const ALL: readonly (readonly [wire: string, ours: string])[] = [...FIELDS].map(([wire, { ours }]) => [wire, ours]);
const REQUIRED: readonly string[] = ALL.map(([wire]) => wire).filter((wire) => RECORD[wire]?.[2] === 'required');
const OPTIONAL: typeof ALL = ALL.filter(([wire]) => !REQUIRED.includes(wire));
const NESTED: ReadonlySet<string> = new Set(['effects', 'settlementReceipt', 'lastError', 'closing', 'human', 'next']);

/**
 * The record under its wire names. Fields in `extra` come back beside ours; a field of ours always wins.
 * Drivers store this (as one document, or field by field).
 */
export function recordToWire(record: TaskRecord): WireRecord {
  const source = record as unknown as Readonly<Record<string, Json | undefined>>;
  const newer = isNewerSchema(record);
  const wire: Record<string, Json> = newer ? {} : requiredToWire(record);
  for (const [name, ours] of newer ? ALL : OPTIONAL) {
    const value = source[ours];
    if (value !== undefined) wire[name] = NESTED.has(ours) ? rename(ours, value, 'out') : value;
  }
  const extra = record.extra ?? NONE;
  for (const name of Object.keys(extra)) if (!Object.hasOwn(wire, name)) setOwn(wire, name, extra[name] as Json);
  return wire;
}

/**
 * A record from what a store holds. Unknown fields land in `extra`. A record of a newer major version is read as far as it
 * can be and not checked: core looks at `schemaVersion` first and leaves it alone.
 *
 * @throws LeaseholdError `record-corrupt` naming the field that is missing or of the wrong kind.
 */
export function recordFromWire(wire: WireRecord): TaskRecord {
  if (typeof wire !== 'object' || wire === null || Array.isArray(wire))
    throw corrupt('record', 'is not an object', '?');
  const id = typeof wire['task_id'] === 'string' ? wire['task_id'].slice(0, 80) : '?';
  if (typeof wire['schema_version'] !== 'string') throw corrupt('schema_version', 'is missing or not text', id);
  const newer = isNewerSchema({ schemaVersion: wire['schema_version'] });
  const record: Record<string, unknown> = newer ? {} : requiredFromWire(wire);
  let extra: Record<string, Json> | undefined;
  for (const name of Object.keys(wire)) {
    const value = wire[name];
    const field = FIELDS.get(name);
    if (value === undefined) continue;
    if (!field) {
      setOwn((extra ??= {}), name, value);
      continue;
    }
    if (!newer && !fits(field.kind, value)) throw corrupt(name, `is not ${EXPECTED[field.kind]}`, id);
    if (field.required && !newer) continue;
    const { ours } = field;
    record[ours] = NESTED.has(ours) && typeof value === 'object' && value !== null ? rename(ours, value, 'in') : value;
  }
  if (!newer) check(wire, id);
  if (extra) record['extra'] = extra;
  return record as unknown as TaskRecord;
}

const NONE: Readonly<Record<string, Json>> = {};

// Written out: an object that grows key by key becomes a hash table, several times as large and slow to copy.
function requiredToWire(record: TaskRecord): Record<string, Json> {
  return {
    schema_version: record.schemaVersion,
    task_id: record.taskId,
    task_type: record.taskType,
    state: record.state,
    stage: record.stage,
    stage_entered_at: record.stageEnteredAt,
    renewal_count: record.renewalCount,
    history: record.history as unknown as Json,
    fencing_token: record.fencingToken,
    attempt: record.attempt,
    failures: record.failures,
    idempotency_key: record.idempotencyKey,
    effects: rename('effects', record.effects as unknown as Json, 'out'),
    version: record.version,
    op_id: record.opId,
    created_at: record.createdAt,
    updated_at: record.updatedAt,
  };
}

function requiredFromWire(wire: WireRecord): Record<string, unknown> {
  return {
    schemaVersion: wire['schema_version'],
    taskId: wire['task_id'],
    taskType: wire['task_type'],
    state: wire['state'],
    stage: wire['stage'],
    stageEnteredAt: wire['stage_entered_at'],
    renewalCount: wire['renewal_count'],
    history: wire['history'],
    fencingToken: wire['fencing_token'],
    attempt: wire['attempt'],
    failures: wire['failures'],
    idempotencyKey: wire['idempotency_key'],
    effects: isObject(wire['effects']) ? rename('effects', wire['effects'], 'in') : wire['effects'],
    version: wire['version'],
    opId: wire['op_id'],
    createdAt: wire['created_at'],
    updatedAt: wire['updated_at'],
  };
}

/**
 * What {@link recordFromWire} would find wrong with the record's wire form, without making either. For writers; a record of a newer
 * version has nothing wrong.
 *
 * @throws LeaseholdError `record-corrupt` naming the field that is missing or of the wrong kind.
 */
export function checkRecord(record: TaskRecord): void {
  const source = record as unknown as Readonly<Record<string, Json | undefined>>;
  const id = typeof record.taskId === 'string' ? record.taskId.slice(0, 80) : '?';
  if (typeof record.schemaVersion !== 'string') throw corrupt('schema_version', 'is missing or not text', id);
  if (isNewerSchema(record)) return;
  let required = 0;
  // Not by Object.keys or by our list: this way V8 reads the fields in place.
  for (const ours in source) {
    const field = OURS.get(ours);
    const value = source[ours];
    if (!field || value === undefined) continue;
    if (!fits(field.kind, value)) throw corrupt(field.name, `is not ${EXPECTED[field.kind]}`, id);
    if (field.required) required++;
  }
  // A field of a newer version under a name of ours would be read as ours.
  for (const name of Object.keys(record.extra ?? NONE)) {
    const field = FIELDS.get(name);
    const value = record.extra?.[name];
    if (!field || value === undefined || source[field.ours] !== undefined) continue;
    if (!fits(field.kind, value)) throw corrupt(name, `is not ${EXPECTED[field.kind]}`, id);
    if (field.required) required++;
  }
  const absent = required < REQUIRED.length ? missing(record) : undefined;
  if (absent !== undefined) throw corrupt(absent, 'is missing', id);
  checkWords(record.state, record.stage, source['effects'] as Readonly<Record<string, Json>>, id);
}

function missing(record: TaskRecord): string | undefined {
  const has = recordToWire(record);
  return REQUIRED.find((name) => has[name] === undefined);
}

/** What every record of our format has. */
function check(wire: WireRecord, id: string): void {
  for (const name of REQUIRED) if (wire[name] === undefined) throw corrupt(name, 'is missing', id);
  checkWords(wire['state'] as string, wire['stage'] as string, wire['effects'] as Record<string, Json>, id);
}

function checkWords(state: string, stage: string, effects: Readonly<Record<string, Json>>, id: string): void {
  if (!STATES.includes(state)) throw corrupt('state', `is none of ${STATES.join(', ')}`, id);
  if (!STAGES.includes(stage)) throw corrupt('stage', `is none of ${STAGES.join(', ')}`, id);
  for (const name of Object.keys(effects)) {
    const effect = effects[name];
    if (!isObject(effect) || typeof effect['key'] !== 'string' || typeof effect['status'] !== 'string') {
      throw corrupt(`effects.${name}`, 'has no key or status', id);
    }
  }
}

const EXPECTED: Readonly<Record<Kind, string>> = {
  text: 'text',
  count: 'a whole number from 0 to 2^53-1',
  instant: 'a number of milliseconds',
  flag: 'true or false',
  object: 'an object',
  list: 'a list',
};

function fits(kind: Kind, value: Json): boolean {
  switch (kind) {
    case 'text':
      return typeof value === 'string';
    case 'count':
      return Number.isSafeInteger(value) && (value as number) >= 0;
    case 'instant':
      return typeof value === 'number' && Number.isFinite(value);
    case 'flag':
      return typeof value === 'boolean';
    case 'object':
      return isObject(value);
    case 'list':
      return Array.isArray(value);
  }
}

function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function rename(field: string, value: Json, way: 'in' | 'out'): Json {
  const out = way === 'out';
  switch (field) {
    case 'effects': {
      const renamed: Record<string, Json> = {};
      for (const [name, effect] of Object.entries(value as Record<string, Json>)) {
        setOwn(renamed, name, keys(effect, out ? EFFECT_OUT : EFFECT));
      }
      return renamed;
    }
    case 'settlementReceipt':
      return keys(value, out ? RECEIPT_OUT : RECEIPT);
    case 'lastError':
    case 'closing':
      return keys(value, out ? TASK_ERROR_OUT : TASK_ERROR);
    case 'human':
      return each(value, out ? HUMAN_OUT : HUMAN);
    case 'next':
      return each(value, out ? FOLLOW_UP_OUT : FOLLOW_UP);
    default:
      return value;
  }
}

function each(value: Json, names: Readonly<Record<string, string>>): Json {
  return Array.isArray(value) ? value.map((item: Json) => keys(item, names)) : value;
}

function keys(value: Json, names: Readonly<Record<string, string>>): Json {
  if (!isObject(value)) return value;
  const renamed: Record<string, Json> = {};
  for (const key of Object.keys(value)) {
    const item = value[key];
    if (item !== undefined) setOwn(renamed, Object.hasOwn(names, key) ? (names[key] as string) : key, item);
  }
  return renamed;
}

function corrupt(field: string, what: string, id: string): LeaseholdError {
  return new LeaseholdError(
    'record-corrupt',
    `The stored record of task ${id} cannot be used: ${field} ${what}. It was left as it is; repair or delete it by hand.`,
    { field },
  );
}
