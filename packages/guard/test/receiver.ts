import type { GuardStore, VirtualClock } from '@leasehold/core';
import { virtualClock } from '@leasehold/core';
import { memoryGuard, type MemoryGuard } from '@leasehold/core/memory';
import {
  guard,
  onGuardEvent,
  type GuardContext,
  type GuardEvent,
  type GuardHandler,
  type GuardOptions,
} from '@leasehold/guard';
import { onTestFinished } from 'vitest';

export const HOLD = 30_000;

export const signal = (): AbortSignal => new AbortController().signal;

export interface Receiver {
  readonly clock: VirtualClock;
  readonly store: MemoryGuard;
  readonly handle: (request: Request) => Promise<Response>;
  /** The bodies the handler was given, one per run. */
  readonly runs: string[];
  readonly contexts: GuardContext[];
  readonly events: GuardEvent[];
  readonly names: () => string[];
}

/** A guarded handler over a store in memory and a clock that stands still. */
export function receiver(
  options: Partial<GuardOptions> = {},
  handler: GuardHandler<GuardContext> = () =>
    new Response('created', { status: 201, headers: { location: '/cases/7' } }),
  wrap: (store: MemoryGuard) => GuardStore = (store) => store,
  clock: VirtualClock = virtualClock(),
  store: MemoryGuard = memoryGuard({ clock }),
): Receiver {
  const runs: string[] = [];
  const contexts: GuardContext[] = [];
  const events = eventsOfTest();
  const full: GuardOptions = { mode: 'enforce', require: 'fence+key', retention: '30d', clock, ...options };
  const handle = guard(wrap(store), full, async (request, context) => {
    runs.push(await request.clone().text());
    contexts.push(context);
    return handler(request, context);
  });
  return { clock, store, handle, runs, contexts, events, names: () => events.map((event) => event.name) };
}

/** The events until the test ends. */
export function eventsOfTest(): GuardEvent[] {
  const events: GuardEvent[] = [];
  onTestFinished(onGuardEvent((event) => events.push(event)));
  return events;
}

export interface Call {
  readonly token?: number | string | undefined;
  readonly key?: string | undefined;
  readonly scope?: string | undefined;
  readonly body?: string;
  readonly method?: string;
  readonly path?: string;
  readonly signal?: AbortSignal;
}

/** A request of task `task-1` with token 1 and key `k`, unless said otherwise; `undefined` leaves the header out. */
export function call(more: Call = {}): Request {
  const { token, key, scope, body, method, path } = {
    token: 1,
    key: 'k',
    scope: 'task-1',
    body: 'open a case',
    method: 'POST',
    path: '/cases',
    ...more,
  };
  const headers = new Headers();
  if (scope !== undefined) headers.set('X-Execution-Scope', scope);
  if (token !== undefined) headers.set('X-Execution-Fence', String(token));
  if (key !== undefined) headers.set('Idempotency-Key', key);
  return new Request(`http://receiver.test${path}`, {
    method,
    headers,
    ...(method === 'GET' ? {} : { body }),
    ...(more.signal ? { signal: more.signal } : {}),
  });
}

/** Posts to the look endpoint. */
export function lookup(ask: unknown, path = '/.well-known/leasehold/look'): Request {
  const body = ask instanceof Uint8Array ? Uint8Array.from(ask) : typeof ask === 'string' ? ask : JSON.stringify(ask);
  return new Request(`http://receiver.test${path}`, { method: 'POST', body });
}

/** Status, problem name and replay mark of an answer, with its body as text or JSON. */
export async function seen(
  response: Response,
): Promise<{ status: number; problem?: string; replayed: boolean; body: string; json: Record<string, unknown> }> {
  const body = await response.text();
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  const json = isJson ? (JSON.parse(body) as Record<string, unknown>) : {};
  const type = typeof json['type'] === 'string' ? json['type'].replace('urn:leasehold:problem:', '') : undefined;
  return {
    status: response.status,
    ...(type === undefined ? {} : { problem: type }),
    replayed: response.headers.get('Idempotent-Replayed') === 'true',
    body,
    json,
  };
}

/** A promise that a test settles by hand. */
export function latch<Value = void>(): Latch<Value> {
  let open: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}

/** See {@link latch}. */
export interface Latch<Value = void> {
  readonly promise: Promise<Value>;
  readonly open: (value: Value) => void;
}

/** Lets everything that waits for no timer happen. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
