import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { randomBytes } from 'node:crypto';
import { LeaseholdError, type StoredResponse } from '@leasehold/core';
import { itemBytes, MAX_ITEM_BYTES, numberOf, numberText, type Item } from './attribute.ts';
import { NO_SCOPE, scopeExpiry, type GuardKey, type GuardScope, type KeyEnd } from './guard-scope.ts';
import type { Condition } from './item-table.ts';
import type { TableNames } from './table-names.ts';

/**
 * The item of a scope. `revision` is new at every write: a write is conditional on the one that was seen, so that fence and keys are
 * checked and changed as one. Attributes that are not ours are kept.
 *
 * @throws LeaseholdError `record-too-large` when the scope holds more than an item can.
 */
export function scopeToItem(scope: GuardScope, name: string, before: Item | undefined, names: TableNames): Item {
  const ttl = scopeExpiry(scope);
  const item: Record<string, AttributeValue> = {
    ...before,
    ...names.key('guard', name),
    revision: { S: randomBytes(9).toString('base64url') },
    keep_until: { N: numberText(scope.keepUntil, 'retentionMs') },
    holds: { L: scope.keys.map((entry) => ({ M: keyToMap(entry) })) },
    ...(scope.token !== undefined && { token: { N: numberText(scope.token, 'token') } }),
  };
  if (names.ttl !== undefined) {
    delete item[names.ttl];
    if (ttl !== undefined) item[names.ttl] = { N: String(Math.ceil(ttl / 1_000)) };
  }
  const bytes = itemBytes(item);
  if (bytes > MAX_ITEM_BYTES) {
    throw new LeaseholdError(
      'record-too-large',
      `The guard's memory of one scope would take ${bytes} bytes with ${scope.keys.length} keys; an item holds ${MAX_ITEM_BYTES}, and none of ` +
        'it may be forgotten yet. Store smaller responses (maxStoredBytes), keep them for a shorter time, or use one scope per task.',
      { field: 'scope' },
    );
  }
  return item;
}

/** What an item remembers. @throws LeaseholdError `record-corrupt` for an item that is something else than a guard's. */
export function scopeFromItem(item: Item | undefined): GuardScope {
  if (!item) return NO_SCOPE;
  const keepUntil = numberOf(item['keep_until']?.N ?? '');
  const token = item['token']?.N;
  const scope = {
    keepUntil,
    keys: (item['holds']?.L ?? []).map(({ M: map }) => keyFromMap(map ?? {})),
    ...(token !== undefined && { token: numberOf(token) }),
  };
  if (item['revision']?.S === undefined || !item['holds']?.L || !(keepUntil >= 0)) throw corrupt();
  if (scope.token !== undefined && !Number.isSafeInteger(scope.token)) throw corrupt();
  return scope;
}

/** True as long as the item is the one that was seen. */
export function unchanged(seen: Item | undefined, names: TableNames): Condition {
  const revision = seen?.['revision'];
  if (!revision) return { expression: 'attribute_not_exists(#key)', names: { '#key': names.partition } };
  return { expression: '#revision = :seen', names: { '#revision': 'revision' }, values: { ':seen': revision } };
}

function keyToMap({ key, requestHash, retentionMs, hold, end }: GuardKey): Record<string, AttributeValue> {
  const map: Record<string, AttributeValue> = {
    key: { S: key },
    hash: { S: requestHash },
    retention_ms: { N: numberText(retentionMs, 'retentionMs') },
    hold: { S: hold },
  };
  if ('heldUntil' in end) return { ...map, held_until: { N: numberText(end.heldUntil, 'holdMs') } };
  map['expires_at'] = { N: numberText(end.expiresAt, 'retentionMs') };
  if ('freed' in end) return map;
  const { status, headers, body } = end.response;
  return { ...map, status: { N: String(status) }, headers: { S: JSON.stringify(headers) }, body: { B: body } };
}

function keyFromMap(map: Item): GuardKey {
  const text = (name: string): string => {
    const value = map[name]?.S;
    if (value === undefined) throw corrupt();
    return value;
  };
  const number = (name: string): number => {
    const value = numberOf(map[name]?.N ?? 'missing');
    if (Number.isNaN(value)) throw corrupt();
    return value;
  };
  return {
    key: text('key'),
    requestHash: text('hash'),
    retentionMs: number('retention_ms'),
    hold: text('hold'),
    end: endFrom(map, number),
  };
}

function endFrom(map: Item, number: (name: string) => number): KeyEnd {
  if (map['held_until']) return { heldUntil: number('held_until') };
  const expiresAt = number('expires_at');
  if (!map['status']) return { freed: true, expiresAt };
  const response: StoredResponse = {
    status: number('status'),
    headers: headersFrom(map['headers']?.S),
    body: Uint8Array.from(map['body']?.B ?? []),
  };
  return { response, expiresAt };
}

function headersFrom(text: string | undefined): Readonly<Record<string, string>> {
  try {
    return JSON.parse(text ?? '') as Readonly<Record<string, string>>;
  } catch (cause) {
    throw corrupt(cause);
  }
}

function corrupt(cause?: unknown): LeaseholdError {
  return new LeaseholdError(
    'record-corrupt',
    "An item under this scope's key is not a guard's, or cannot be read. It was left as it is; repair or delete it by hand.",
    { field: 'scope', ...(cause !== undefined && { cause }) },
  );
}
