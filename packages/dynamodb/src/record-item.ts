import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { hash } from 'node:crypto';
import { checkRecord, isLeaseholdError, LeaseholdError, recordFromWire, recordToWire, setOwn } from '@leasehold/core';
import type { Json, TaskRecord } from '@leasehold/core';
import { attributeOf, itemBytes, itemBytesAtMost, jsonOf, MAX_ITEM_BYTES, type Item } from './attribute.ts';
import { withoutRepeats, withRepeats } from './said-twice.ts';
import type { TableNames } from './table-names.ts';

/** Wire fields that hold objects or lists: stored as JSON text, which keeps every name, number and depth as it is. */
export const STRUCTURES: ReadonlySet<string> = new Set([
  'history',
  'effects',
  'settlement_receipt',
  'result',
  'checkpoint',
  'next',
  'parked',
  'human',
  'last_error',
  'closing',
]);

/** Those that say again what the record says elsewhere. */
const REPEATING: readonly string[] = ['settlement_receipt', 'effects'];

/** States whose records are in the index. What is settled or cancelled needs nobody's attention any more, and is nearly everything. */
export const OPEN_STATES: readonly string[] = ['queued', 'running', 'waiting_human', 'dead_lettered'];

/** Lanes of each state. One partition of an index takes about 1,000 writes a second. */
export const SHARDS = 16;

/** Marks a field of a newer version that bears the name of one of this table's own attributes, or one that no item can have. */
const ESCAPE = '+';
const UNSPEAKABLE: readonly string[] = ['', '__proto__'];

/** The value of the index's partition key. */
export function laneOf(names: TableNames, state: string, shard: number): string {
  return `${names.prefix}task#${state}#${shard}`;
}

/**
 * The item of a record: its fields under their wire names, scalars as they are and structures as JSON text; the task's id is in the key.
 *
 * @throws LeaseholdError `bad-request` for a record no reader could use, `record-too-large` beyond 400 KB.
 */
export function recordToItem(record: TaskRecord, names: TableNames): Item {
  const item: Record<string, AttributeValue> = { ...names.key('task', record.taskId) };
  const wire = recordToWire(record);
  try {
    checkRecord(record);
    for (const name of Object.keys(wire)) {
      if (name === 'task_id') continue;
      const value = wire[name] as Json;
      if (STRUCTURES.has(name)) item[name] = { S: JSON.stringify(withoutRepeats(name, value, wire)) };
      // No attribute of the table's own bears a name of ours.
      else if (SCALARS.has(name)) item[name] = attributeOf(value, name);
      else setOwn(item, escaped(name, names), attributeOf(value, name));
    }
  } catch (cause) {
    throw new LeaseholdError(
      'bad-request',
      `Nothing was written, since no reader could use it. ${(cause as Error).message}`,
      { cause },
    );
  }
  Object.assign(item, cleanUp(record, names), indexEntry(record, names));
  const bytes = itemBytesAtMost(item) > MAX_ITEM_BYTES ? itemBytes(item) : 0;
  if (bytes > MAX_ITEM_BYTES) {
    throw new LeaseholdError(
      'record-too-large',
      `The record of task ${record.taskId} has ${bytes} bytes, and an item holds ${MAX_ITEM_BYTES}; nothing was written. Keep large content in a content store.`,
      { field: 'record' },
    );
  }
  return item;
}

/**
 * The record of an item.
 *
 * @throws LeaseholdError `record-corrupt`, also for an item that is something else than a record.
 */
export function recordFromItem(item: Item, taskId: string, names: TableNames): TaskRecord {
  const wire: Record<string, Json> = { task_id: taskId };
  for (const [stored, attribute] of Object.entries(item)) {
    if (names.own.has(stored)) continue;
    const name = stored.startsWith(ESCAPE) ? stored.slice(1) : stored;
    if (name === 'task_id') continue;
    const text = STRUCTURES.has(name) ? attribute.S : undefined;
    setOwn(wire, name, text === undefined ? jsonOf(attribute) : structureOf(name, text, taskId));
  }
  for (const name of REPEATING) {
    const value = wire[name];
    if (value !== undefined) wire[name] = withRepeats(name, value, wire);
  }
  return recordFromWire(wire);
}

/** True for the error of one record that cannot be read. */
export function isCorrupt(error: unknown): boolean {
  return isLeaseholdError(error) && error.code === 'record-corrupt';
}

function structureOf(name: string, text: string, taskId: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new LeaseholdError(
      'record-corrupt',
      `The stored record of task ${taskId} cannot be used: ${name} is not JSON. It was left as it is; repair or delete it by hand.`,
      { field: name, cause },
    );
  }
}

function escaped(name: string, names: TableNames): string {
  return UNSPEAKABLE.includes(name) || name.startsWith(ESCAPE) || names.own.has(name) ? `${ESCAPE}${name}` : name;
}

// Whole seconds, as the service's own clean-up wants them. A task that is worked on or waited for is never thrown away.
function cleanUp({ expiresAt, state }: TaskRecord, names: TableNames): Item {
  if (names.ttl === undefined || expiresAt === undefined || state === 'running' || state === 'waiting_human') return {};
  return { [names.ttl]: { N: String(Math.max(0, Math.ceil(expiresAt / 1_000))) } };
}

/**
 * The record's place in the index, which changes with its state alone: a renewal writes no index. Written also where there is no index,
 * so that one that is added later finds everything.
 */
function indexEntry({ taskId, state, createdAt }: TaskRecord, names: TableNames): Item {
  if (!OPEN_STATES.includes(state)) return {};
  const digest = hash('sha256', taskId, 'buffer');
  const created = String(Math.max(0, Math.floor(createdAt))).padStart(13, '0');
  return {
    [names.index.partition]: { S: laneOf(names, state, (digest[0] as number) % SHARDS) },
    [names.index.sort]: { S: `${created}#${digest.toString('base64url').slice(0, 12)}` },
  };
}

/** Scalars of a record under their wire names. */
const SCALARS: ReadonlySet<string> = new Set([
  ...['schema_version', 'task_id', 'task_type', 'agent_run_id', 'state', 'stage', 'stage_entered_at', 'renewal_reason'],
  ...['renewal_count', 'lease_owner', 'lease_expires_at', 'heartbeat_at', 'fencing_token', 'attempt', 'failures'],
  ...['idempotency_key', 'cancel_requested', 'dead_letter_sent', 'deadline_at', 'retry_at', 'trace_id', 'payload_hash'],
  ...['version', 'op_id', 'created_at', 'updated_at', 'expires_at'],
]);

/** True for the wire name of a field of a record, and for what a guard's item holds: no key or TTL attribute may bear it. */
export function isReserved(name: string): boolean {
  return STRUCTURES.has(name) || SCALARS.has(name) || GUARD_FIELDS.includes(name);
}

const GUARD_FIELDS: readonly string[] = ['token', 'revision', 'keep_until', 'holds'];
