import { setTimeout as pause } from 'node:timers/promises';
import type { BrokerDriver, Clock, Delivery, LedgerDriver, StoreTime } from '@leasehold/core';

/** A queue without a server: messages are made when they are asked for, so that nothing but what core and worker hold is on the heap. */
export interface SyntheticQueue {
  readonly driver: BrokerDriver<number>;
  /** Messages that `receive` may still hand out, by task type. */
  readonly waiting: Record<string, number>;
  readonly calls: { receive: number; extend: number; extended: number; complete: number; completed: number };
}

/** Batches of ten, an answer after `latencyMs`. */
export function syntheticQueue(latencyMs: number): SyntheticQueue {
  const waiting: Record<string, number> = {};
  const calls = { receive: 0, extend: 0, extended: 0, complete: 0, completed: 0 };
  let made = 0;
  const encoder = new TextEncoder();
  const answer = async (): Promise<void> => {
    if (latencyMs > 0) await pause(latencyMs);
  };
  const deliveryOf = (type: string, leaseMs: number): Delivery<number> => {
    const number = made++;
    const id = `task-${number}`;
    const event = { specversion: '1.0', id, type, source: 'leasehold', data: { n: number }, idempotencykey: id };
    return {
      handle: number,
      messageId: String(number),
      body: encoder.encode(JSON.stringify(event)),
      attributes: {},
      deliveryCount: 1,
      leaseMs,
    };
  };
  return {
    waiting,
    calls,
    driver: {
      specVersion: 1,
      name: 'synthetic',
      capabilities: {
        maxBatch: { send: 10, receive: 10, handles: 10 },
        maxBodyBytes: 2 ** 18,
        leaseMs: { min: 1_000, max: 43_200_000, step: 1_000 },
        totalLeaseMs: 43_200_000,
        staleHandle: 'silent',
        releaseDelayMs: 43_200_000,
        sendDelayMs: 900_000,
        deliveryCount: true,
        ordering: false,
        deadLetter: 'copy',
        extend: true,
      },
      send: async (messages) => messages.map((_, index) => ({ messageId: String(index) })),
      async receive({ max, leaseMs, waitMs }, signal) {
        calls.receive++;
        await answer();
        const taken: Delivery<number>[] = [];
        for (const type of Object.keys(waiting)) {
          while (taken.length < max && (waiting[type] ?? 0) > 0) {
            waiting[type] = (waiting[type] ?? 0) - 1;
            taken.push(deliveryOf(type, leaseMs));
          }
        }
        // Looks again when the worker asks again.
        if (taken.length === 0 && waitMs > 0) await pause(5, undefined, { signal }).catch(() => undefined);
        return taken;
      },
      async extend(handles) {
        calls.extend++;
        calls.extended += handles.length;
        await answer();
        return handles.map(() => 'done' as const);
      },
      async complete(handles) {
        calls.complete++;
        calls.completed += handles.length;
        await answer();
        return handles.map(() => 'done' as const);
      },
      release: async (handles) => handles.map(() => 'done' as const),
      reject: async () => 'done',
      classify: () => 'unknown',
      close: async () => undefined,
    },
  };
}

/** A ledger that keeps nothing: every write holds, as it does for the only owner. The record comes back as the drivers of SQLite and DynamoDB give it. */
export function echoLedger(latencyMs: number, clock: Pick<Clock, 'wall'> = { wall: Date.now }): LedgerDriver {
  const now = (): StoreTime => {
    const at = clock.wall();
    return { earliest: at, latest: at };
  };
  return {
    specVersion: 1,
    name: 'echo',
    capabilities: { clockErrorMs: 0, minLeaseMs: 1, maxRecordBytes: 400 * 1024, list: 'scan' },
    async put(next, lease) {
      const sent = now();
      if (latencyMs > 0) await pause(latencyMs);
      return { ok: true, record: lease ? { ...next, leaseExpiresAt: sent.latest + lease.ms } : next, now: now() };
    },
    get: async () => ({ record: undefined, now: now() }),
    list: async () => ({ records: [], now: now() }),
    classify: () => 'unknown',
    close: async () => undefined,
  };
}
