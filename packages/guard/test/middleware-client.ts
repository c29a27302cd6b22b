import { virtualClock, type GuardStore, type VirtualClock } from '@leasehold/core';
import { memoryGuard, type MemoryGuard } from '@leasehold/core/memory';
import { request as httpRequest } from 'node:http';
import type { Framework, Handle, Incoming, Options } from './frameworks.ts';
import type { Call } from './receiver.ts';

/** A guarded route of a real server, over a store in memory and a clock that stands still. */
export interface Served {
  readonly url: string;
  readonly clock: VirtualClock;
  readonly store: MemoryGuard;
  readonly runs: Incoming[];
}

/** An answer, its body as latin1: one character per byte. */
export interface Seen {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
  readonly json: Record<string, unknown>;
}

export const TICKET = { title: 'printer on fire' };

/** Sends a request of task `task-1` with token 1 and key `k`, unless said otherwise. */
export async function send(
  url: string,
  more: Call & { readonly json?: unknown; readonly signal?: AbortSignal } = {},
): Promise<Seen> {
  const { token = 1, key = 'k', scope = 'task-1', method = 'POST', path = '/tickets', json = TICKET } = more;
  const headers = new Headers({ 'content-type': 'application/json' });
  if (!('scope' in more) || more.scope !== undefined) headers.set('X-Execution-Scope', scope);
  if (!('token' in more) || more.token !== undefined) headers.set('X-Execution-Fence', String(token));
  if (!('key' in more) || more.key !== undefined) headers.set('Idempotency-Key', key);
  const answer = await fetch(`${url}${path}`, {
    method,
    headers,
    redirect: 'manual',
    ...(method === 'GET' ? {} : { body: more.body ?? JSON.stringify(json) }),
    ...(more.signal ? { signal: more.signal } : {}),
  });
  const body = Buffer.from(await answer.arrayBuffer()).toString('latin1');
  const isJson = (answer.headers.get('content-type') ?? '').includes('json');
  return {
    status: answer.status,
    body,
    headers: answer.headers,
    json: isJson ? (JSON.parse(body) as Seen['json']) : {},
  };
}

/** The name of a problem. */
export const problem = ({ json }: Seen): string => String(json['type']).replace('urn:leasehold:problem:', '');

/** Serves until the test ends. */
export async function serveGuarded(
  framework: Framework,
  handle: Handle = () => ({ body: { id: 'T1' } }),
  options: Partial<Options> = {},
  wrap: (store: MemoryGuard) => GuardStore = (store) => store,
): Promise<Served> {
  const clock = virtualClock();
  const store = memoryGuard({ clock });
  const runs: Incoming[] = [];
  const full: Options = { mode: 'enforce', require: 'fence+key', retention: '30d', clock, ...options };
  const url = await framework.serve(wrap(store), full, (incoming) => (runs.push(incoming), handle(incoming)));
  return { url, clock, store, runs };
}

/** Sends a request and destroys its connection once `when` holds. */
export async function hangUpAfter(url: string, when: () => boolean): Promise<void> {
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': 'k',
    'x-execution-fence': '1',
    'x-execution-scope': 'task-1',
  };
  const sent = httpRequest(`${url}/tickets`, { method: 'POST', headers });
  sent.on('error', () => undefined);
  sent.end(JSON.stringify(TICKET));
  await until(when);
  const gone = new Promise((resolve) => sent.once('close', resolve));
  sent.destroy();
  await gone;
}

/** Lets the sockets work until `holds`. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2));
}
