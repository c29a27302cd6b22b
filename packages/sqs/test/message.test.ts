import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import { deliveryOf } from '../src/deliveries.ts';
import { countedBytes, readAttributes, writeAttributes } from '../src/message-attributes.ts';
import { bodyOfText, textOfBody } from '../src/message-text.ts';
import { prepare } from '../src/outgoing.ts';

// What AWS documents of SendMessage and MessageAttributeValue, written anew: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference
function accepted(text: string): boolean {
  if (text === '') return false;
  return Array.from(text).every((char) => {
    const code = char.codePointAt(0) ?? 0;
    return (
      [9, 10, 13].includes(code) ||
      (code >= 0x20 && code <= 0xd7ff) ||
      (code >= 0xe000 && code <= 0xfffd) ||
      code > 0xffff
    );
  });
}
function acceptedName(name: string): boolean {
  return (
    /^[A-Za-z0-9_.-]{1,256}$/.test(name) &&
    !/^(aws|amazon)\./i.test(name) &&
    !name.startsWith('.') &&
    !name.endsWith('.') &&
    !name.includes('..')
  );
}

const names = fc.oneof(
  fc.stringMatching(/^[a-z]{1,8}$/),
  fc.constantFrom(
    '__proto__',
    'AWS.x',
    'amazon.y',
    '.a',
    'a.',
    'a..b',
    'leaseholdtaskid',
    'leaseholdencoding',
    'leaseholdattributes',
    'constructor',
  ),
  fc.string({ unit: 'binary', maxLength: 300 }),
);
const values = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '\0', '\u{ffff}', '\ud800', '{"a":"b"}', 'base64'),
);

describe('bodies', () => {
  test('any bytes come back as they were, as a text that SQS takes', () => {
    const bodies = fc.oneof(
      fc.uint8Array(),
      values.map((text) => new TextEncoder().encode(text)),
    );
    fc.assert(
      fc.property(bodies, (body) => {
        const written = textOfBody(body);
        expect(accepted(written.text)).toBe(true);
        expect(bodyOfText(written)).toEqual(new Uint8Array(body));
      }),
    );
  });

  test('text stays readable for others: letters of all scripts, emoji, line ends, a byte order mark', () => {
    for (const text of ['{"a":1}', '中 déjà 😀', 'a\r\n\tb', '\u{feff}x', '\u{7f}\u{85}'])
      expect(textOfBody(new TextEncoder().encode(text))).toEqual({ text, encoded: false });
  });
});

describe('attributes', () => {
  test('any attributes come back as they were, as ten at most that SQS takes', () => {
    fc.assert(
      fc.property(fc.dictionary(names, values, { maxKeys: 15 }), fc.boolean(), (attributes, encoded) => {
        const written = writeAttributes(attributes, encoded);
        expect(Object.keys(written).length).toBeLessThanOrEqual(10);
        for (const [name, { DataType, StringValue = '' }] of Object.entries(written)) {
          expect([name, acceptedName(name), DataType, accepted(StringValue)]).toEqual([name, true, 'String', true]);
        }
        const read = readAttributes(written);
        expect(new Map(Object.entries(read.attributes))).toEqual(new Map(Object.entries(attributes)));
        expect(read.encoded).toBe(encoded);
      }),
    );
  });

  test('ours and the trace are never packed, however many others there are', () => {
    const others = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`a${index}`, 'x']));
    const written = writeAttributes({ ...others, traceparent: 't', leaseholdtaskid: '1', leaseholdtoken: '2' }, true);
    expect(Object.keys(written)).toEqual(
      expect.arrayContaining([
        'leaseholdtaskid',
        'leaseholdtoken',
        'traceparent',
        'leaseholdencoding',
        'leaseholdattributes',
      ]),
    );
    expect(Object.keys(written)).toHaveLength(10);
  });

  test('numbers and bytes of other producers are read as text and base64, and keep their type when sent again', () => {
    const typed: Record<string, MessageAttributeValue> = {
      count: { DataType: 'Number.int', StringValue: '42' },
      digest: { DataType: 'Binary', BinaryValue: Uint8Array.of(0, 255) },
      plain: { DataType: 'String', StringValue: 'x' },
    };
    const { attributes, foreign } = readAttributes(typed);
    expect(attributes).toEqual({ count: '42', digest: 'AP8=', plain: 'x' });
    expect(writeAttributes(attributes, false, foreign)).toEqual(typed);
    expect(writeAttributes({ ...attributes, count: '43' }, false, foreign)['count']?.DataType).toBe('String');
  });

  test('an attribute of somebody else by one of our names is left as it is', () => {
    const typed = {
      leaseholdattributes: { DataType: 'String', StringValue: '[1]' },
      leaseholdencoding: { DataType: 'String', StringValue: 'gzip' },
    };
    expect(readAttributes(typed)).toEqual({
      attributes: { leaseholdattributes: '[1]', leaseholdencoding: 'gzip' },
      encoded: false,
    });
  });
});

describe('a message on its way', () => {
  const send = (more: object, fifo: boolean) => {
    const entry = prepare({ body: new TextEncoder().encode('{}'), attributes: {}, ...more }, fifo, 1_000);
    if ('failed' in entry) throw new Error(entry.failed);
    return entry;
  };
  const receivedGroup = (group: string | undefined) =>
    deliveryOf({ Body: '{}', ...(group !== undefined && { Attributes: { MessageGroupId: group } }) }, 1_000, 0).groupId;

  test('a FIFO queue gets a group and a deduplication id of every message, within what it takes', () => {
    fc.assert(
      fc.property(
        fc.option(values, { nil: undefined }),
        fc.option(values, { nil: undefined }),
        (groupId, deduplicationId) => {
          const entry = send(
            { ...(groupId !== undefined && { groupId }), ...(deduplicationId !== undefined && { deduplicationId }) },
            true,
          );
          expect(entry.MessageGroupId).toMatch(/^[!-~]{1,128}$/);
          expect(entry.MessageDeduplicationId).toMatch(/^[!-~]{1,128}$/);
          // None that it did not have comes back.
          expect(receivedGroup(entry.MessageGroupId) === undefined).toBe(groupId === undefined);
        },
      ),
    );
  });

  test('messages of a task without a group are in one group of their own, those of other tasks in others', () => {
    const group = (taskId: string) => send({ attributes: { leaseholdtaskid: taskId } }, true).MessageGroupId;
    expect(group('1')).toBe(group('1'));
    expect(group('1')).not.toBe(group('2'));
  });

  test('groups and deduplication ids that SQS takes stay as they are, others are hashed alike', () => {
    expect(send({ groupId: 'g', deduplicationId: 'd' }, true)).toMatchObject({
      MessageGroupId: 'g',
      MessageDeduplicationId: 'd',
    });
    const long = { groupId: 'customer 7', deduplicationId: 'x'.repeat(200) };
    expect(send(long, true)).toEqual(send(long, true));
  });

  test('a standard queue gets no deduplication id, and a group only where there is one', () => {
    expect(send({ deduplicationId: 'd' }, false)).toEqual({ MessageBody: '{}', MessageAttributes: {} });
    expect(send({ groupId: 'g' }, false)).toMatchObject({ MessageGroupId: 'g' });
  });

  test('a delay is whole seconds, never shorter than asked', () => {
    expect([1, 1_000, 1_001].map((delayMs) => send({ delayMs }, false).DelaySeconds)).toEqual([1, 1, 2]);
  });

  test('field case 38: the size is bytes, with names, types and values of attributes', () => {
    const binary = { DataType: 'Binary', BinaryValue: new Uint8Array(5) };
    expect(countedBytes('中中', { ab: { DataType: 'String', StringValue: 'é' }, b: binary })).toBe(
      6 + 2 + 6 + 2 + 1 + 6 + 5,
    );
  });
});
