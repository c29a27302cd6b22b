import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  cloudEvents,
  eventBridge,
  plainJson,
  readMessage,
  snsNotification,
  traceIdOf,
  type RawMessage,
  type TaskCodec,
} from '../src/envelope.ts';
import { isLeaseholdError } from '../src/errors.ts';
import { hashJson, type Json } from '../src/json.ts';

const raw = (body: unknown, attributes: Readonly<Record<string, string>> = {}): RawMessage => ({
  messageId: 'm-1',
  body: typeof body === 'string' ? new TextEncoder().encode(body) : new TextEncoder().encode(JSON.stringify(body)),
  attributes,
});
function refusal(codec: TaskCodec, message: RawMessage): { readonly code: string; readonly field: string | undefined } {
  try {
    readMessage(codec, 'queue', message);
  } catch (error) {
    if (isLeaseholdError(error)) return { code: error.code, field: error.field };
    throw error;
  }
  return expect.unreachable('accepted');
}
const text = fc.string({ minLength: 1, maxLength: 40 });

test('what was encoded is read back as the same task', () => {
  const optional = fc.option(text, { nil: undefined });
  const task = fc.record({
    taskId: text,
    type: text,
    idempotencyKey: text,
    payload: fc.jsonValue(),
    agentRunId: optional,
    tracestate: optional,
  });
  fc.assert(
    fc.property(task, ({ payload, agentRunId, tracestate, ...rest }) => {
      const codec = cloudEvents();
      const value = JSON.parse(JSON.stringify(payload)) as Json;
      const given = {
        ...rest,
        payload: value,
        ...(agentRunId !== undefined && { agentRunId }),
        ...(tracestate !== undefined && { tracestate }),
      };
      const { body, attributes } = codec.encode(given);
      const { type, ...same } = given;
      expect(readMessage(codec, 'queue', { messageId: 'm-1', body, attributes })).toEqual({
        ...same,
        taskType: type,
        payloadHash: hashJson(value),
        identity: 'task-id',
      });
    }),
  );
});

describe('identity', () => {
  const event = { specversion: '1.0', id: 'e-1', source: '/shop', type: 'order', data: { n: 1 } };

  test('of our own events is their id, of others a hash of source and id, of what has none the broker message', () => {
    expect(readMessage(cloudEvents(), 'queue', raw({ ...event, source: 'leasehold' })).taskId).toBe('e-1');
    expect(readMessage(cloudEvents(), 'queue', raw({ ...event, idempotencykey: 'k' })).taskId).toBe('e-1');
    expect(readMessage(cloudEvents(), 'queue', raw(event)).taskId).toBe(hashJson(['/shop', 'e-1']));
    const plain = plainJson({ type: 'order' });
    const first = readMessage(plain, 'queue', raw({ n: 1 }));
    expect(first.identity).toBe('message-id');
    expect(readMessage(plain, 'queue', { ...raw({ n: 1 }), messageId: 'm-2' }).taskId).not.toBe(first.taskId);
    expect(readMessage(plain, 'other queue', raw({ n: 1 })).taskId).not.toBe(first.taskId);
  });

  test('is overruled by the attributes that every message sent again bears', () => {
    const again = readMessage(cloudEvents(), 'queue', raw(event, { leaseholdtaskid: 't-9', leaseholdtoken: '41' }));
    expect(again).toMatchObject({ taskId: 't-9', carriedToken: 41, identity: 'task-id' });
  });

  test.each(['', '-1', '1.5', '1e3', '0x1', '9'.repeat(17), '9007199254740992', ' 1'])(
    'never from a token such as "%s"',
    (token) => {
      expect(refusal(cloudEvents(), raw(event, { leaseholdtoken: token }))).toEqual({
        code: 'bad-message',
        field: 'leaseholdtoken',
      });
    },
  );
});

describe('what cannot be read names the field at fault', () => {
  const event = { specversion: '1.0', id: 'e-1', source: '/shop', type: 'order', data: { n: 1 } };
  test.each<readonly [string, unknown, string]>([
    ['no body', '', 'body'],
    ['half a body', '{', 'body'],
    ['a list', [1], 'body'],
    ['another version', { ...event, specversion: '0.3' }, 'specversion'],
    ['binary data', { ...event, data_base64: 'AA==' }, 'data_base64'],
    ['no id', { ...event, id: undefined }, 'id'],
    ['an id of another kind', { ...event, id: 7 }, 'id'],
    ['a long id', { ...event, id: 'x'.repeat(257) }, 'id'],
    ['no type', { ...event, type: '' }, 'type'],
    ['no source', { ...event, source: undefined }, 'source'],
    ['a run of another kind', { ...event, agentrunid: 7 }, 'agentrunid'],
  ])('%s', (_, body, field) => {
    expect(refusal(cloudEvents(), raw(body))).toEqual({ code: 'bad-message', field });
  });

  test('bytes that are no UTF-8, and numbers that JSON text can spell but not carry', () => {
    const body = new Uint8Array([0x22, 0xff, 0x22]);
    expect(refusal(cloudEvents(), { messageId: 'm', body, attributes: {} })).toEqual({
      code: 'bad-message',
      field: 'body',
    });
    expect(refusal(plainJson({ type: 'order' }), raw('{"n":1e999}')).code).toBe('not-json');
    expect(refusal(plainJson({ type: 'order' }), raw(`${'['.repeat(300)}1${']'.repeat(300)}`)).code).toBe('not-json');
  });
});

test('a team keeps its own messages: plain JSON, SNS notifications, EventBridge events', () => {
  const order = { n: 1, id: 'o-1' };
  const idOf = (payload: Json): string => (payload as { readonly id: string }).id;
  const plain = plainJson({ type: 'order', taskId: idOf, idempotencyKey: idOf });
  expect(readMessage(plain, 'queue', raw(order))).toMatchObject({
    taskId: 'o-1',
    taskType: 'order',
    payload: order,
    idempotencyKey: 'o-1',
  });
  expect(() => plain.encode({ type: 'mail', taskId: 't', idempotencyKey: 'k', payload: 1 })).toThrow(
    /plain order messages only/,
  );
  const sns = snsNotification(plain);
  expect(readMessage(sns, 'queue', raw({ Type: 'Notification', Message: JSON.stringify(order) })).taskId).toBe('o-1');
  expect(refusal(sns, raw({ Type: 'SubscriptionConfirmation' })).field).toBe('Type');
  expect(refusal(sns, raw({ Type: 'Notification', Message: 7 })).field).toBe('Message');
  const bridge = eventBridge();
  const event = { id: 'e-1', source: 'shop', 'detail-type': 'order', detail: order };
  expect(readMessage(bridge, 'queue', raw(event))).toMatchObject({
    taskType: 'order',
    payload: order,
    taskId: hashJson(['shop', 'e-1']),
  });
  const { body, attributes } = bridge.encode({ type: 'mail', taskId: 't', idempotencyKey: 'k', payload: 1 });
  expect(readMessage(bridge, 'queue', { messageId: 'm', body, attributes })).toMatchObject({
    taskType: 'mail',
    taskId: 't',
  });
});

test('a trace id is read from a W3C traceparent and from nothing else', () => {
  const id = '4bf92f3577b34da6a3ce929d0e0e4736';
  expect(traceIdOf(`00-${id}-00f067aa0ba902b7-01`)).toBe(id);
  for (const other of [undefined, '', id, `00-${id.toUpperCase()}-00f067aa0ba902b7-01`, `00-${id}-short-01`]) {
    expect(traceIdOf(other)).toBeUndefined();
  }
});
