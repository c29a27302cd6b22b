import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { LeaseholdError, setOwn, type Json } from '@leasehold/core';

/** An item as the SDK gives and takes it. */
export type Item = Readonly<Record<string, AttributeValue>>;

/** The most bytes of an item. See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html */
export const MAX_ITEM_BYTES: number = 400 * 1024;

// Sets, bytes and numbers beyond JavaScript's have no form in JSON: an attribute that somebody else gave an item is kept in a wrapping of its own.
const NUMBER = 'dynamodb:number';
const BYTES = 'dynamodb:bytes';
const STRINGS = 'dynamodb:strings';
const NUMBERS = 'dynamodb:numbers';
const BLOBS = 'dynamodb:byte-sets';

/**
 * A number as an attribute holds it.
 *
 * @throws LeaseholdError `bad-request` for what neither the service (38 digits, 1e-130 to 1e126) nor a reader (2^53) could keep.
 */
export function numberText(value: number, name: string): string {
  if (!canBeStored(value))
    throw new LeaseholdError('bad-request', `${name} is ${value}, which cannot be stored.`, { field: name });
  return Object.is(value, -0) ? '0' : String(value);
}

function canBeStored(value: number): boolean {
  const size = Math.abs(value);
  return Number.isInteger(value) ? Number.isSafeInteger(value) : size >= 1e-130 && size < 1e126;
}

/** A stored number; NaN for one that JavaScript could not give back as it is. */
export function numberOf(text: string): number {
  const value = Number(text);
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? Number.NaN : value;
}

/** An attribute from JSON. @throws LeaseholdError `bad-request` for a number that cannot be stored. */
export function attributeOf(value: Json, name: string): AttributeValue {
  if (value === null) return { NULL: true };
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'boolean') return { BOOL: value };
  if (typeof value === 'number') return { N: numberText(value, name) };
  if (Array.isArray(value)) return { L: value.map((each: Json) => attributeOf(each, name)) };
  const entries = Object.entries(value as Readonly<Record<string, Json>>).filter(([, each]) => each !== undefined);
  const [only, ...more] = entries;
  if (only && more.length === 0) {
    const [wrapping, inner] = only;
    if (wrapping === NUMBER && typeof inner === 'string' && !Number.isNaN(Number(inner))) return { N: inner };
    if (wrapping === BYTES) return { B: Buffer.from(inner as string, 'base64') };
    if (wrapping === STRINGS) return { SS: [...(inner as readonly string[])] };
    if (wrapping === NUMBERS) return { NS: [...(inner as readonly string[])] };
    if (wrapping === BLOBS) return { BS: (inner as readonly string[]).map((each) => Buffer.from(each, 'base64')) };
  }
  const members: Record<string, AttributeValue> = {};
  for (const [key, each] of entries) setOwn(members, key, attributeOf(each, name));
  return { M: members };
}

/** JSON from an attribute. A number that JavaScript cannot keep comes back wrapped: it is written as it was, and no reader of records takes it for one. */
export function jsonOf(attribute: AttributeValue): Json {
  if (attribute.S !== undefined) return attribute.S;
  if (attribute.N !== undefined) return isKept(attribute.N) ? Number(attribute.N) : { [NUMBER]: attribute.N };
  if (attribute.BOOL !== undefined) return attribute.BOOL;
  if (attribute.M !== undefined) {
    const members: Record<string, Json> = {};
    for (const [key, each] of Object.entries(attribute.M)) setOwn(members, key, jsonOf(each));
    return members;
  }
  if (attribute.L !== undefined) return attribute.L.map(jsonOf);
  if (attribute.B !== undefined) return { [BYTES]: base64(attribute.B) };
  if (attribute.SS !== undefined) return { [STRINGS]: attribute.SS };
  if (attribute.NS !== undefined) return { [NUMBERS]: attribute.NS };
  if (attribute.BS !== undefined) return { [BLOBS]: attribute.BS.map(base64) };
  return null;
}

function isKept(text: string): boolean {
  const value = Number(text);
  return canBeStored(value) && digitsOf(String(value)) === digitsOf(text);
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

/** No less than {@link itemBytes}, and found at once. */
export function itemBytesAtMost(item: Item): number {
  let sum = 0;
  for (const name of Object.keys(item)) {
    const value = item[name] as AttributeValue;
    sum += 3 * name.length;
    // A character has three bytes at most, a digit half of one; a number's sign and exponent come on top.
    if (value.S !== undefined) sum += 3 * value.S.length;
    else sum += value.N === undefined ? attributeBytes(value) : 3 + value.N.length;
  }
  return sum;
}

/**
 * The size of an item as the service charges for it: a write unit for every 1,024 bytes begun.
 * See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
 */
export function itemBytes(item: Item): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + attributeBytes(value), 0);
}

function attributeBytes(value: AttributeValue): number {
  if (value.S !== undefined) return Buffer.byteLength(value.S);
  if (value.N !== undefined) return numberBytes(value.N);
  if (value.B !== undefined) return value.B.byteLength;
  if (value.L !== undefined) return 3 + value.L.reduce((sum, each) => sum + 1 + attributeBytes(each), 0);
  if (value.M !== undefined) return 3 + Object.keys(value.M).length + itemBytes(value.M);
  if (value.SS !== undefined) return value.SS.reduce((sum, each) => sum + Buffer.byteLength(each), 0);
  if (value.NS !== undefined) return value.NS.reduce((sum, each) => sum + numberBytes(each), 0);
  if (value.BS !== undefined) return value.BS.reduce((sum, each) => sum + each.byteLength, 0);
  return 1;
}

/** Two digits to the byte, zeros at either end not counted, and a byte for the exponent. */
function numberBytes(text: string): number {
  return Math.ceil(digitsOf(text).length / 2) + (text.startsWith('-') ? 2 : 1);
}

/** The digits that tell, without zeros at either end. */
function digitsOf(text: string): string {
  return text
    .replace(/e.*$/i, '')
    .replace(/[^0-9]/g, '')
    .replace(/^0+|0+$/g, '');
}
