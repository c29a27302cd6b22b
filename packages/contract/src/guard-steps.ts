import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { GuardAsk, GuardHold, GuardStore, StoredResponse } from '@leasehold/core';
import type { GuardHarness } from './conformance-case.ts';
import { never, outlast } from './waiting.ts';

/** A response with this text. */
export function response(text: string, status = 201): StoredResponse {
  return {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', location: '/cases/7' },
    body: new TextEncoder().encode(text),
  };
}

/** A request of task `caller/task-1` with token 1 and key `k` under a hold of its own, unless said otherwise. `token: undefined` bears no fence. */
export function ask(
  harness: GuardHarness,
  more: Partial<Omit<GuardAsk, 'token'>> & { token?: number | undefined } = {},
): GuardAsk {
  const { token, ...rest } = { token: 1, ...more };
  const made = {
    scope: 'caller/task-1',
    key: 'k',
    hold: randomUUID(),
    requestHash: 'h1',
    holdMs: hold(harness),
    retentionMs: 1_000_000,
    ...rest,
  };
  return token === undefined ? made : { ...made, token };
}

/** A hold that can be waited out. */
export function hold(harness: GuardHarness): number {
  return harness.advance ? 10_000 : (harness.shortestHoldMs ?? 1_000);
}

/** Lets a hold that was just taken, or extended, run out. */
export function runOut(harness: GuardHarness, holdMs: number = hold(harness)): Promise<void> {
  return outlast(harness, holdMs, harness.clockErrorMs ?? 0);
}

/** Begins; the verdict has to be `new`, for the hold that was asked for. */
export async function begun(store: GuardStore, request: GuardAsk): Promise<GuardHold> {
  assert.deepEqual(await store.begin(request, never()), { new: request.hold });
  return { scope: request.scope, key: request.key, hold: request.hold };
}

/** The verdict is that this hold ran out. */
export function doubts(verdict: unknown, held: GuardHold, message?: string): void {
  assert.deepEqual(verdict, { inDoubt: held.hold }, message);
}

/** The verdict is the stored response, byte for byte. */
export function replays(verdict: unknown, stored: StoredResponse): void {
  assert.ok(
    typeof verdict === 'object' && verdict !== null && 'previous' in verdict,
    `not the stored response but ${show(verdict)}`,
  );
  const found = verdict.previous as StoredResponse;
  assert.equal(found.status, stored.status);
  assert.deepEqual({ ...found.headers }, { ...stored.headers });
  assert.deepEqual([...found.body], [...stored.body]);
}

function show(verdict: unknown): string {
  return JSON.stringify(verdict);
}
