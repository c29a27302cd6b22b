import { backoffDelay, isLeaseholdError, publish, sleep } from '@leasehold/core';
import type { Busy, HeldDelivery, LeaseBroker } from '@leasehold/core';
import { createParking, type Parking } from './parking.ts';
import type { Shares, Slots } from './slots.ts';
import { warnOfDeliveries, type WorkerSettings } from './worker-options.ts';

/** One broker of a worker: its polls, and the duplicates it keeps. */
export interface Station {
  readonly broker: LeaseBroker;
  readonly parking: Parking;
  /** Polls until stopped. Never rejects. */
  intake(): Promise<void>;
  /** Whether the last poll ended well and the one under way is not overdue. */
  readonly ready: boolean;
}

const RECEIVE_BACKOFF = { firstMs: 500, maxMs: 30_000 };
/** Several brokers share the places; none keeps its share through a long empty poll. */
const SHARED_POLL_MS = 1_000;
const OVERDUE_MS = 6_000;

/** `begin` starts a delivery in a slot it takes. */
export function createStation(parts: {
  readonly index: number;
  readonly broker: LeaseBroker;
  readonly settings: WorkerSettings;
  readonly slots: Slots;
  readonly shares: Shares;
  readonly stopping: AbortSignal;
  readonly begin: (station: Station, held: HeldDelivery) => void;
}): Station {
  const { broker, settings, slots, shares, stopping, index } = parts;
  const { clock } = settings;
  const waitMs = settings.brokers.length === 1 ? settings.pollMs : Math.min(settings.pollMs, SHARED_POLL_MS);
  let failures = 0;
  let pollSince: number | undefined;
  /** A driver that has to ask its backend knows only once it has been opened, at the latest by the first poll. */
  let maxDeliveries = broker.capabilities.maxDeliveries;

  const poll = async (max: number): Promise<void> => {
    pollSince = clock.monotonic();
    let received: readonly HeldDelivery[] = [];
    try {
      received = await broker.receive({ max, leaseMs: settings.longestLeaseMs, waitMs, signal: stopping });
      failures = 0;
      if (maxDeliveries !== broker.capabilities.maxDeliveries) {
        maxDeliveries = broker.capabilities.maxDeliveries;
        warnOfDeliveries(broker, [...settings.tasks.values()], settings.logger);
      }
    } finally {
      pollSince = undefined;
      shares.answered(index, received.length);
      for (const held of received) parts.begin(station, held);
      slots.wake();
    }
  };
  const failed = async (error: unknown): Promise<void> => {
    const delayMs = backoffDelay(RECEIVE_BACKOFF, ++failures);
    const code = error instanceof Error ? error.name : 'unknown';
    // Our own words hold no content, and say what to do.
    const why = isLeaseholdError(error) ? error.message : `${code}; trying again.`;
    publish({
      name: 'broker_call_failed',
      at: clock.wall(),
      cause: `${broker.name}: receive`,
      errorCode: code,
      delayMs,
    });
    if (failures === 1 || failures % 10 === 0)
      settings.logger.warn({ code, failures }, `receiving from ${broker.name} failed: ${why}`);
    // A stop ends the wait, which is no failure.
    await sleep(clock, delayMs, stopping).catch(() => undefined);
  };
  const station: Station = {
    broker,
    parking: createParking({
      clock,
      leaseMs: settings.longestLeaseMs,
      canExtend: broker.capabilities.extend,
      extend: (busy: Busy, leaseMs) => broker.extend(busy, leaseMs),
      handBack: (busy, delayMs) => broker.handBack(busy.held, delayMs),
      retry(busy) {
        if (slots.taken >= slots.size || stopping.aborted) return false;
        parts.begin(station, busy.held);
        return true;
      },
    }),
    get ready() {
      return failures === 0 && (pollSince === undefined || clock.monotonic() - pollSince < waitMs + OVERDUE_MS);
    },
    async intake() {
      while (!stopping.aborted) {
        // Asks for no more than can start now.
        const max = shares.ask(index, slots.size - slots.taken);
        if (max <= 0) {
          await slots.change();
          continue;
        }
        try {
          await poll(max);
        } catch (error) {
          if (!stopping.aborted) await failed(error);
        }
      }
    },
  };
  return station;
}
