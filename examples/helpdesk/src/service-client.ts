import type { Json } from '@leasehold/core';
import { guarded, type CommitContext, type GuardedEffect, type TaskContext } from '@leasehold/worker';

/** The ticket service as the tasks use it. */
export interface ServiceClient {
  /** Reads something; changes nothing. */
  read(path: string, ctx: Pick<TaskContext, 'taskId'>, signal: AbortSignal): Promise<Json>;
  /** The options of an effect that posts `body`: once, however often the task is tried. */
  posting(path: string, body: Json): GuardedEffect<void>;
}

/** Longer than any pause of the demo: a call that left is not given up before its answer. */
const CALL_TIMEOUT_MS = 60_000;

/** A client of the service at `url`. `worker` goes into a header, so that the service can say who called. */
export function serviceClient(url: string, worker: string): ServiceClient {
  const ask = async (path: string, init: RequestInit): Promise<Json> => {
    const response = await fetch(new URL(path, url), init);
    if (response.ok) return (await response.json()) as Json;
    await response.body?.cancel();
    throw new Error(`${init.method ?? 'GET'} ${path} was answered with ${response.status}`);
  };
  const post = async (path: string, body: Json, call: CommitContext): Promise<void> => {
    // Not the attempt's signal: what may have reached the service is not cut short, and what comes too late is the guard's to refuse.
    const headers = { ...call.headers, 'x-worker': worker };
    const pass = await ask('/access', { headers, signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    await ask(path, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', authorization: `Bearer ${textOf(pass, 'pass')}` },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
  };
  return {
    read: (path, ctx, signal) =>
      ask(path, { headers: { 'x-worker': worker, 'x-execution-scope': ctx.taskId }, signal }),
    posting: (path, body) => ({
      system: 'helpdesk',
      commit: (call) => post(path, body, call),
      readBack: guarded(url),
      receipt(found) {
        const answer = found.json();
        return { externalId: textOf(answer, 'id'), status: textOf(answer, 'status') };
      },
    }),
  };
}

function textOf(value: Json, field: string): string {
  const found =
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, Json>)[field]
      : undefined;
  if (typeof found === 'string') return found;
  throw new Error(`The service answered without ${field}.`);
}
