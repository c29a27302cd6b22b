import {
  cloudEvents,
  createLeaseBroker,
  eventBridge,
  isLeaseholdError,
  leaseTiming,
  parseDuration,
  plainJson,
  readMessage,
  recordFromWire,
  recordToWire,
  snsNotification,
  virtualClock,
  type TaskCodec,
  type WireRecord,
} from '@leasehold/core';
import { memoryBroker, memoryGuard, memoryLedger, memoryQueue, memoryTable } from '@leasehold/core/memory';
import { guard } from '@leasehold/guard';
import { createWorker, defineTask } from '@leasehold/worker';
import { mutateBytes, mutateJson, pick } from './mutate.ts';

/** Takes one input from the generator; throws when something happened that must not. */
export type Target = (random: () => number) => Promise<void> | void;

const text = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const asText = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
const EVENT = {
  specversion: '1.0',
  id: 't-1',
  type: 'charge',
  source: 'leasehold',
  data: { n: 1 },
  idempotencykey: 'k',
  agentrunid: 'r',
  traceparent: '00-0-0-0',
};
const SNS = { Type: 'Notification', MessageId: 'm', Message: JSON.stringify(EVENT) };
const BRIDGE = { id: 'e', source: 'shop', 'detail-type': 'charge', detail: { n: 1 } };
const CODECS: readonly (readonly [TaskCodec, unknown])[] = [
  [cloudEvents(), EVENT],
  [plainJson({ type: 'charge' }), { n: 1 }],
  [snsNotification(cloudEvents()), SNS],
  [eventBridge(), BRIDGE],
];
const RECORD = {
  schema_version: '1.0',
  task_id: 't',
  task_type: 'charge',
  state: 'running',
  stage: 'commit',
  stage_entered_at: 1,
  renewal_count: 1,
  history: [{ stage: 'preflight', reason: 'x', at: 1 }],
  lease_owner: 'o',
  lease_expires_at: 9,
  fencing_token: 1,
  attempt: 1,
  failures: 0,
  idempotency_key: 'k',
  effects: { pay: { key: 'k', status: 'intended', token: 1, system: 's', intended_at: 1 } },
  version: 2,
  op_id: 'op',
  created_at: 1,
  updated_at: 2,
  human: [{ question: 'q', asked_at: 1 }],
  next: [{ task_id: 'c', type: 'x', idempotency_key: 'c', input: {} }],
  last_error: { error_class: 'e', code: 'c', message: 'm' },
  result: { inline: 1 },
};

/** Only our own errors, naming the field, may come out of input that does not fit. */
function tolerated(error: unknown): void {
  if (!isLeaseholdError(error)) throw error;
  if (error.message.length > 700)
    throw new Error(`the message has ${error.message.length} characters: ${error.message.slice(0, 80)}`);
}

function unpolluted(): void {
  if ('polluted' in {}) throw new Error('Object.prototype was changed');
}

/** Bodies and attributes of messages, in every format. */
const messages: Target = (random) => {
  const [codec, good] = pick(CODECS, random);
  const value = random() < 0.7 ? text(mutateJson(good, random)) : mutateBytes(text(good), random);
  const attributes =
    random() < 0.2
      ? { leaseholdtoken: asText(mutateJson('7', random)), leaseholdtaskid: asText(mutateJson('t', random)) }
      : {};
  try {
    const message = readMessage(codec, 'q', { messageId: 'm', body: value, attributes });
    if (typeof message.taskId !== 'string' || message.taskId === '' || typeof message.payloadHash !== 'string')
      throw new Error('a message without identity');
  } catch (error) {
    tolerated(error);
  }
};

/** Stored records: read, or refused by name; what was read is written back as it was. */
const records: Target = (random) => {
  const wire = mutateJson(RECORD, random) as WireRecord;
  try {
    const record = recordFromWire(wire);
    const back = recordToWire(record);
    const again = recordToWire(recordFromWire(back));
    if (JSON.stringify(back) !== JSON.stringify(again))
      throw new Error(`a record changes by being read: ${JSON.stringify(wire)}`);
  } catch (error) {
    tolerated(error);
  }
};

/** Configuration. */
const options: Target = (random) => {
  for (const attempt of [
    () => parseDuration(mutateJson('90s', random) as string, 'lease'),
    () => leaseTiming(mutateJson({ length: '9s', heartbeat: '3s', margin: '2s', tolerate: 1 }, random) as never),
    () =>
      defineTask({
        type: 'x',
        ...(mutateJson(
          { lease: '9s', limits: { attempts: 3, tool: '1s', stage: '1m' }, concurrency: 2 },
          random,
        ) as object),
        run: () => 1,
      }),
  ]) {
    try {
      attempt();
    } catch (error) {
      tolerated(error);
    }
  }
};

/** Requests to a guarded receiver: an answer always, and no handler without scope, fence and key. */
const requests: Target = async (random) => {
  let runs = 0;
  const receive = guard(memoryGuard(), { mode: 'enforce', require: 'fence+key', retention: '1h' }, () => {
    runs++;
    return new Response('ok', { status: 201 });
  });
  const header = (good: string): string =>
    (random() < 0.5 ? good : asText(mutateJson(good, random))).replace(/[^\t\x20-\xff]/g, '').slice(0, 9_000);
  const headers = new Headers();
  if (random() < 0.9) headers.set('x-execution-scope', header('t-1'));
  if (random() < 0.9) headers.set('x-execution-fence', header('3'));
  if (random() < 0.9) headers.set('idempotency-key', header('t-1:pay'));
  const look = random() < 0.4;
  const body = look
    ? mutateBytes(text(mutateJson({ scope: 't-1', fence: 3, key: 'k' }, random)), random)
    : mutateBytes(text({ n: 1 }), random);
  const path = look ? '/.well-known/leasehold/look' : '/cases';
  const response = await receive(
    new Request(`http://127.0.0.1${path}`, { method: 'POST', headers, body: Buffer.from(body) }),
  );
  await response.arrayBuffer();
  const complete = headers.has('x-execution-fence') && headers.has('idempotency-key');
  if (runs > 0 && (!complete || look)) throw new Error('the handler ran without a fence, or for a look');
  if (runs === 0 && response.status === 201) throw new Error('a success that nobody gave');
  if (response.status >= 500) throw new Error(`status ${response.status} for bad input`);
};

/** Bad messages and corrupt records among good tasks: nothing lost, no good task harmed. */
const system: Target = async (random) => {
  const clock = virtualClock();
  const queue = memoryQueue();
  const table = memoryTable();
  const driver = memoryBroker({ queue, clock });
  const broker = createLeaseBroker({ driver, ledger: memoryLedger({ table, clock }), clock });
  const done: unknown[] = [];
  const task = defineTask({
    type: 'charge',
    lease: '9s',
    limits: { attempts: 2 },
    run: (input) => void done.push(input),
  });
  const signal = new AbortController().signal;
  const bad = Array.from({ length: 8 }, () =>
    random() < 0.6 ? text(mutateJson(EVENT, random)) : mutateBytes(text(EVENT), random),
  );
  await driver.send(
    bad.map((body, index) => ({ body, attributes: { mark: String(index) } })),
    signal,
  );
  const outcomes = await broker.enqueue(
    [1, 2, 3].map((n) => ({ type: 'charge', input: { good: n }, taskId: `good-${n}` })),
  );
  if (!outcomes.every(({ ok }) => ok)) throw new Error('a good task was not taken');
  const worker = createWorker({ broker, tasks: [task], signals: false, logger: { warn: () => undefined } });
  void worker.run();
  await clock.advance(30_000);
  for (const n of [1, 2, 3]) {
    const state = table.records.find(({ taskId }) => taskId === `good-${n}`)?.state;
    if (state !== 'settled') throw new Error(`good task ${n} is ${state}`);
  }
  // Whatever was not done as a task of this worker is still somewhere.
  const kept = new Set([...queue.messages, ...queue.deadLetters].map(({ attributes }) => attributes['mark']));
  for (const [index, body] of bad.entries()) {
    if (!kept.has(String(index)) && !isCharge(body))
      throw new Error(`message ${index} is gone: ${Buffer.from(body).toString('utf8').slice(0, 200)}`);
  }
  await Promise.all([worker.stop(), clock.advance(60_000)]);
};

function isCharge(body: Uint8Array): boolean {
  try {
    return readMessage(cloudEvents(), 'q', { messageId: 'm', body, attributes: {} }).taskType === 'charge';
  } catch {
    return false;
  }
}

/** Every target, with its share of the inputs. */
export const TARGETS: Readonly<Record<string, { readonly run: Target; readonly share: number }>> = {
  messages: { run: messages, share: 0.4 },
  records: { run: records, share: 0.3 },
  options: { run: options, share: 0.15 },
  requests: { run: requests, share: 0.13 },
  system: { run: system, share: 0.02 },
};

/** Runs one input and checks what must hold whatever the target. */
export async function fuzzOnce(target: Target, random: () => number): Promise<void> {
  await target(random);
  unpolluted();
}
