import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import { ENCODING_ATTRIBUTE, isCarried } from './message-text.ts';

/** Holds, as one JSON object, the attributes that SQS cannot carry as they are: beyond ten, empty, or with a name it refuses. */
const PACKED_ATTRIBUTE = 'leaseholdattributes';

/** https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html */
export const MOST_ATTRIBUTES = 10;
/** Every attribute counts with the name of its type, here `String`. */
export const TYPE_BYTES = 6;

type Attributes = Readonly<Record<string, string>>;
type Typed = Record<string, MessageAttributeValue>;

const NAME = /^(?!aws\.|amazon\.|\.)(?!.*\.\.)(?!.*\.$)[a-z0-9_.-]{1,256}$/i;

/** What an attribute reads as: numbers as their text, bytes as base64. */
function valueOf({ StringValue, BinaryValue }: MessageAttributeValue): string {
  return StringValue ?? (BinaryValue ? Buffer.from(BinaryValue).toString('base64') : '');
}

/** Reads the attributes of a message. `foreign` are those of another type than `String`, as they came. */
export function readAttributes(typed: Typed | undefined): {
  readonly attributes: Attributes;
  readonly foreign?: Typed;
  readonly encoded: boolean;
} {
  const entries: [string, string][] = [];
  const foreign: [string, MessageAttributeValue][] = [];
  let encoded = false;
  for (const [name, value] of Object.entries(typed ?? {})) {
    if (name === ENCODING_ATTRIBUTE && value.StringValue === 'base64') {
      encoded = true;
      continue;
    }
    const packed = name === PACKED_ATTRIBUTE ? unpack(value.StringValue) : undefined;
    if (packed) {
      entries.push(...packed);
      continue;
    }
    entries.push([name, valueOf(value)]);
    if (value.DataType !== 'String') foreign.push([name, value]);
  }
  return {
    attributes: Object.fromEntries(entries),
    ...(foreign.length > 0 && { foreign: Object.fromEntries(foreign) }),
    encoded,
  };
}

/**
 * Writes attributes, without loss. `foreign` ones keep their type while their value is the same. Ours and the trace come first, so that
 * others can read them whatever has to be packed.
 */
export function writeAttributes(attributes: Attributes, encoded: boolean, foreign?: Typed): Typed {
  const native: [string, MessageAttributeValue][] = [];
  const packed: [string, string][] = [];
  for (const [name, value] of Object.entries(attributes)) {
    const before = foreign && Object.hasOwn(foreign, name) ? foreign[name] : undefined;
    if (before && valueOf(before) === value) native.push([name, before]);
    else if (NAME.test(name) && name !== PACKED_ATTRIBUTE && name !== ENCODING_ATTRIBUTE && isCarried(value))
      native.push([name, text(value)]);
    else packed.push([name, value]);
  }
  native.sort(([one], [other]) => rank(one) - rank(other));
  const slots = MOST_ATTRIBUTES - (encoded ? 1 : 0);
  if (native.length + (packed.length > 0 ? 1 : 0) > slots) {
    for (const [name, value] of native.splice(slots - 1)) packed.push([name, valueOf(value)]);
  }
  if (encoded) native.push([ENCODING_ATTRIBUTE, text('base64')]);
  if (packed.length > 0) native.push([PACKED_ATTRIBUTE, text(pack(packed))]);
  return Object.fromEntries(native);
}

/** The bytes of a message as SQS counts them: body, and name, type and value of each attribute. */
export function countedBytes(body: string, attributes: Typed): number {
  let bytes = Buffer.byteLength(body);
  for (const [name, { DataType = '', StringValue = '', BinaryValue }] of Object.entries(attributes))
    bytes += name.length + DataType.length + Buffer.byteLength(StringValue) + (BinaryValue?.byteLength ?? 0);
  return bytes;
}

function text(value: string): MessageAttributeValue {
  return { DataType: 'String', StringValue: value };
}

function rank(name: string): number {
  if (name.startsWith('leasehold')) return 0;
  return name === 'traceparent' || name === 'tracestate' ? 1 : 2;
}

function pack(entries: readonly (readonly [string, string])[]): string {
  // Two characters that JSON leaves as they are and SQS refuses; DEL and the like it takes.
  return JSON.stringify(Object.fromEntries(entries)).replace(
    /[\u{fffe}\u{ffff}]/gu,
    (found) => `\\u${found.charCodeAt(0).toString(16)}`,
  );
}

function unpack(json: string | undefined): readonly [string, string][] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json ?? '');
  } catch {
    // Not ours: it stays what it is.
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  return entries.every((entry): entry is [string, string] => typeof entry[1] === 'string') ? entries : undefined;
}
