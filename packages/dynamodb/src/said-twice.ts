import { setOwn, type Json, type WireRecord } from '@leasehold/core';

/*
 * What a record says twice is stored once: a record of a task without effects stays below one write unit so, and most with one effect.
 * A receipt names its task and its key, which are the record's; an effect's key is the record's with the effect's name, unless chosen otherwise.
 */

/** A structure without what can be told from the rest of the record. */
export function withoutRepeats(field: string, value: Json, wire: WireRecord): Json {
  if (!isObject(value)) return value;
  if (field === 'settlement_receipt') return without(value, { task_id: wire['task_id'], idempotency_key: keyOf(wire) });
  if (field !== 'effects') return value;
  return each(value, (effect, name) => without(effect, { key: effectKey(wire, name) }));
}

/** The same structure, whole again. */
export function withRepeats(field: string, value: Json, wire: WireRecord): Json {
  if (!isObject(value)) return value;
  if (field === 'settlement_receipt')
    return { ...given({ task_id: wire['task_id'], idempotency_key: keyOf(wire) }), ...value };
  if (field !== 'effects') return value;
  return each(value, (effect, name) => ({ ...given({ key: effectKey(wire, name) }), ...effect }));
}

type JsonObject = { readonly [name: string]: Json };

function keyOf(wire: WireRecord): Json | undefined {
  return wire['idempotency_key'];
}

function effectKey(wire: WireRecord, name: string): Json | undefined {
  const key = keyOf(wire);
  return typeof key === 'string' ? `${key}:${name}` : undefined;
}

function without(value: JsonObject, repeats: Readonly<Record<string, Json | undefined>>): JsonObject {
  const left: Record<string, Json> = {};
  for (const name of Object.keys(value)) {
    const held = value[name] as Json;
    if (!Object.hasOwn(repeats, name) || repeats[name] !== held) setOwn(left, name, held);
  }
  return left;
}

function given(values: Readonly<Record<string, Json | undefined>>): JsonObject {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as JsonObject;
}

function each(effects: JsonObject, change: (effect: JsonObject, name: string) => JsonObject): JsonObject {
  const changed: Record<string, Json> = {};
  for (const [name, effect] of Object.entries(effects))
    setOwn(changed, name, isObject(effect) ? change(effect, name) : effect);
  return changed;
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
