import { LeaseholdError } from './errors.ts';
import { hashJson, sha256, type Json } from './json.ts';

/** Attributes that every message sent again bears; they win over what the body says. */
export const TASK_ID_ATTRIBUTE = 'leaseholdtaskid';
/** The fencing token the record had when the message was sent again. */
export const TOKEN_ATTRIBUTE = 'leaseholdtoken';
/** `message-id` on what is sent again of a message that named no task: it bears a task id now, and a second copy of the first would be another task. */
export const IDENTITY_ATTRIBUTE = 'leaseholdidentity';
/** The `source` of our own events; their `id` is the task id. */
export const EVENT_SOURCE = 'leasehold';

const MAX_ID_LENGTH = 256;

/** What a queue's messages say, in the queue's own format. Without a `taskId` the message's own identity stands in. */
export interface DecodedTask {
  readonly type: string;
  readonly payload: Json;
  readonly taskId?: string;
  readonly idempotencyKey?: string;
  readonly agentRunId?: string;
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** What the body and attributes of a delivery hold. */
export interface RawMessage {
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
}

/** How one queue's messages are read and written. `decode` throws a {@link LeaseholdError} `bad-message` naming the field at fault. */
export interface TaskCodec {
  /** Reads a message, or throws naming the field at fault. */
  decode(message: RawMessage): DecodedTask;
  /** Writes a message that `decode` reads as the same task. */
  encode(task: DecodedTask & { readonly taskId: string; readonly idempotencyKey: string }): {
    readonly body: Uint8Array;
    readonly attributes: Readonly<Record<string, string>>;
  };
}

/** A task as a delivery brings it. */
export interface TaskMessage {
  readonly taskId: string;
  readonly taskType: string;
  readonly payload: Json;
  /** SHA-256 of the canonical payload. */
  readonly payloadHash: string;
  readonly idempotencyKey: string;
  readonly agentRunId?: string;
  readonly traceparent?: string;
  readonly tracestate?: string;
  /** The token a message that was sent again bears. */
  readonly carriedToken?: number;
  /** `message-id`: the message names no task, so another copy of it would be another task. */
  readonly identity: 'task-id' | 'message-id';
}

/** The id of a task that is known by its meaning: SHA-256 of type and idempotency key. */
export function taskIdOf(type: string, idempotencyKey: string): string {
  return hashJson([type, idempotencyKey]);
}

/**
 * Reads a delivery. `entity` names the queue, for messages that have no identity but the broker's.
 *
 * @throws LeaseholdError `bad-message` naming the field and what to send instead.
 */
export function readMessage(codec: TaskCodec, entity: string, message: RawMessage): TaskMessage {
  const decoded = codec.decode(message);
  const type = textField('type', decoded.type, MAX_ID_LENGTH);
  const override = message.attributes[TASK_ID_ATTRIBUTE];
  const named = override ?? decoded.taskId;
  const taskId = named === undefined ? sha256(`${entity}\n${message.messageId}`) : idField('task id', named);
  const carriedToken = tokenAttribute(message.attributes[TOKEN_ATTRIBUTE]);
  const { idempotencyKey } = decoded;
  return {
    taskId,
    taskType: type,
    payload: decoded.payload,
    payloadHash: hashJson(decoded.payload),
    // Mostly the same text: one copy of it will do.
    idempotencyKey:
      idempotencyKey === undefined || idempotencyKey === taskId ? taskId : idField('idempotencykey', idempotencyKey),
    identity: named === undefined || message.attributes[IDENTITY_ATTRIBUTE] === 'message-id' ? 'message-id' : 'task-id',
    ...(decoded.agentRunId !== undefined && { agentRunId: textField('agentrunid', decoded.agentRunId, MAX_ID_LENGTH) }),
    ...(decoded.traceparent !== undefined && { traceparent: decoded.traceparent }),
    ...(decoded.tracestate !== undefined && { tracestate: decoded.tracestate }),
    ...(carriedToken !== undefined && { carriedToken }),
  };
}

/** The trace id of a W3C `traceparent`, if it is one. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/.exec(traceparent ?? '')?.[1];
}

/**
 * CloudEvents 1.0 in structured JSON, the default. Our own events (source `leasehold`, or any with an `idempotencykey` extension)
 * bear the task id in `id`; of events of other sources the id is a hash of `source` and `id`.
 * See https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
 */
export function cloudEvents(options: { readonly source?: string } = {}): TaskCodec {
  const ownSource = options.source ?? EVENT_SOURCE;
  return {
    decode(message) {
      const event = jsonObject(message.body);
      if (event['specversion'] !== '1.0')
        throw badMessage('specversion', "is not '1.0'; send a CloudEvents 1.0 JSON event");
      if (event['data_base64'] !== undefined) throw badMessage('data_base64', 'is not supported; put JSON into data');
      const id = textField('id', event['id'], MAX_ID_LENGTH);
      const source = textField('source', event['source'], 2048);
      const idempotencyKey = optionalText(event, 'idempotencykey');
      const ours = source === ownSource || idempotencyKey !== undefined;
      return {
        type: textField('type', event['type'], MAX_ID_LENGTH),
        payload: event['data'] ?? null,
        taskId: ours ? id : hashJson([source, id]),
        ...(idempotencyKey !== undefined && { idempotencyKey }),
        ...optional('agentRunId', optionalText(event, 'agentrunid')),
        ...optional('traceparent', optionalText(event, 'traceparent')),
        ...optional('tracestate', optionalText(event, 'tracestate')),
      };
    },
    encode(task) {
      const event = {
        specversion: '1.0',
        id: task.taskId,
        type: task.type,
        source: ownSource,
        datacontenttype: 'application/json',
        data: task.payload,
        idempotencykey: task.idempotencyKey,
        agentrunid: task.agentRunId,
        traceparent: task.traceparent,
        tracestate: task.tracestate,
      };
      return { body: bytes(event), attributes: {} };
    },
  };
}

/** Messages whose body is the JSON payload itself; every one is a task of `type`. `taskId` and `idempotencyKey` are read from the payload. */
export function plainJson(options: {
  readonly type: string;
  readonly taskId?: (payload: Json) => string | undefined;
  readonly idempotencyKey?: (payload: Json) => string | undefined;
}): TaskCodec {
  return {
    decode(message) {
      const payload = json(message.body);
      return {
        type: options.type,
        payload,
        ...optional('taskId', options.taskId?.(payload)),
        ...optional('idempotencyKey', options.idempotencyKey?.(payload)),
      };
    },
    encode(task) {
      if (task.type !== options.type) {
        throw new LeaseholdError(
          'bad-task',
          `This queue holds plain ${options.type} messages only; send ${task.type} to a queue of its own.`,
          {
            field: 'type',
          },
        );
      }
      return { body: bytes(task.payload), attributes: { [TASK_ID_ATTRIBUTE]: task.taskId } };
    },
  };
}

/** Amazon SNS notifications without raw delivery: what `Message` holds goes to the codec inside. */
export function snsNotification(inner: TaskCodec): TaskCodec {
  return {
    decode(message) {
      const notification = jsonObject(message.body);
      if (notification['Type'] !== 'Notification')
        throw badMessage('Type', "is not 'Notification'; this queue expects SNS notifications");
      const text = notification['Message'];
      if (typeof text !== 'string') throw badMessage('Message', 'is missing or not text');
      return inner.decode({ ...message, body: new TextEncoder().encode(text) });
    },
    encode: (task) => inner.encode(task),
  };
}

/** Amazon EventBridge events: `detail-type` is the task type, `detail` the payload, `source` and `id` make the task id. */
export function eventBridge(): TaskCodec {
  const ours = cloudEvents();
  return {
    decode(message) {
      const event = jsonObject(message.body);
      // Follow-ups and other messages of our own travel on the same queue as CloudEvents.
      if (event['specversion'] !== undefined) return ours.decode(message);
      const id = textField('id', event['id'], MAX_ID_LENGTH);
      const source = textField('source', event['source'], 2048);
      return {
        type: textField('detail-type', event['detail-type'], MAX_ID_LENGTH),
        payload: event['detail'] ?? null,
        taskId: hashJson([source, id]),
      };
    },
    encode: (task) => ours.encode(task),
  };
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

function json(body: Uint8Array): Json {
  if (body.byteLength === 0) throw badMessage('body', 'is empty; send a JSON document');
  let text: string;
  try {
    text = UTF8.decode(body);
  } catch (cause) {
    throw badMessage('body', 'is not UTF-8', cause);
  }
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw badMessage('body', 'is not JSON', cause);
  }
}

function jsonObject(body: Uint8Array): { readonly [key: string]: Json } {
  const value = json(body);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badMessage('body', 'is not a JSON object');
  return value as { readonly [key: string]: Json };
}

function textField(field: string, value: unknown, most: number): string {
  if (typeof value !== 'string' || value.length === 0) throw badMessage(field, 'is missing, empty or not text');
  if (value.length > most) throw badMessage(field, `has ${value.length} characters; the most is ${most}`);
  return value;
}

/** Ids travel in headers, so they are printable ASCII. */
function idField(field: string, value: unknown): string {
  const id = textField(field, value, MAX_ID_LENGTH);
  if (!/^[\x20-\x7e]+$/.test(id))
    throw badMessage(field, 'holds characters other than printable ASCII; encode it, or send a hash of it');
  return id;
}

function optionalText(event: { readonly [key: string]: Json }, field: string): string | undefined {
  const value = event[field];
  return value === undefined || value === null ? undefined : textField(field, value, 2048);
}

function tokenAttribute(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const token = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(token)) throw badMessage(TOKEN_ATTRIBUTE, 'is not a fencing token');
  return token;
}

function optional<Name extends string>(name: Name, value: string | undefined): { readonly [Key in Name]?: string } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [Key in Name]?: string };
}

function bytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function badMessage(field: string, what: string, cause?: unknown): LeaseholdError {
  return new LeaseholdError('bad-message', `${field} ${what}.`, { field, ...(cause !== undefined && { cause }) });
}
