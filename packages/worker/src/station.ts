import { backoffDelay, errorLabel, isLeaseholdError, publish, sleep } from '@leasehold/core';
import type { Acquired, Busy, HeldDelivery, LeaseBroker } from '@leasehold/core';
import { createClaimGate } from './claim-gate.ts';
import { createParking, type Parking } from './parking.ts';
import type { Shares, Slots } from './slots.ts';
import { warnOfDeliveries, type WorkerSettings } from './worker-options.ts';

/** One broker of a worker: its polls, and the duplicates it keeps. */
export interface Station {
  readonly broker: LeaseBroker;
  readonly parking: Parking;
  /** Polls until stopped. Never rejects. */
  intake(): Promise<void>;
  /** Told of what became of each delivery; undefined when dealing with it failed. */
  learn(acquired: Acquired | undefined): void;
  /** Whether the last poll ended well, the one under way is not overdue, and the ledger answers claims. */
  readonly ready: boolean;
}

const RECEIVE_BACKOFF = { firstMs: 500, maxMs: 30_000 };
/** Several brokers share the places; none keeps its share through a long empty poll. */
const SHARED_POLL_MS = 1_000;
const OVERDUE_MS = 6_000;
/** How long places that came free wait for others, so that one call fills them all. */
const GATHER_MS = 10;
/** Why a claim has no answer that says nothing of the next one: the caller's own rule failed, or this one record cannot be written. */
const OF_ONE_TASK: readonly (string | undefined)[] = ['policy', 'invalid'];
/** How long a ledger may take to answer whether it answers. */
const READ_MS = 5_000;
/** Polls beside the one that waits. */
const MOST_HELPERS = 16;

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
  const alone = settings.brokers.length === 1;
  const waitMs = alone ? settings.pollMs : Math.min(settings.pollMs, SHARED_POLL_MS);
  let failures = 0;
  /** A driver that has to ask its backend knows only once it has been opened, at the latest by the first poll. */
  let maxDeliveries = broker.capabilities.maxDeliveries;
  /** The last poll brought all it asked for: there is more. */
  let plenty = false;
  const gate = createClaimGate({
    clock,
    stopping,
    answers: async (taskId) => !('unanswered' in (await broker.ledger.get(taskId, READ_MS))),
    onChange: () => slots.wake(),
  });
  const underWay = new Set<{ readonly endsAt: number }>();
  const helpers = new Set<Promise<void>>();
  /** What one call brings at most. */
  const full = (): number => Math.min(broker.capabilities.maxBatch.receive, slots.size);

  const poll = async (max: number, wait: number): Promise<void> => {
    const ask = Math.min(max, broker.capabilities.maxBatch.receive);
    const call = { endsAt: clock.monotonic() + wait + OVERDUE_MS };
    const giveUp = slots.keep(ask);
    underWay.add(call);
    let received: readonly HeldDelivery[] = [];
    try {
      received = await broker.receive({ max: ask, leaseMs: settings.longestLeaseMs, waitMs: wait, signal: stopping });
      failures = 0;
      if (maxDeliveries !== broker.capabilities.maxDeliveries) {
        maxDeliveries = broker.capabilities.maxDeliveries;
        warnOfDeliveries(broker, [...settings.tasks.values()], settings.logger);
      }
    } finally {
      underWay.delete(call);
      giveUp();
      plenty = received.length === ask;
      shares.answered(index, received.length);
      gate.took(received.length);
      for (const held of received) parts.begin(station, held);
      if (received.length === full()) help();
      slots.wake();
    }
  };
  /**
   * Where there is more than a full call brings, others help, each with a full call and without waiting for what may come. Where a call brings one
   * message alone, as many calls would come back empty in the end as there are places.
   */
  const help = (): void => {
    const most = alone && full() > 1 && gate.open ? MOST_HELPERS : 0;
    while (helpers.size < most && !stopping.aborted && slots.open >= 2 * full()) {
      const helper = poll(full(), 0).catch((error: unknown) => (stopping.aborted ? undefined : failed(error)));
      helpers.add(helper);
      void helper.finally(() => helpers.delete(helper));
    }
  };
  /** A call costs the same for one message as for ten: where there is more, places that come free together are asked for together. */
  const gather = async (): Promise<void> => {
    const wait = { over: false };
    const timer = clock.timer(GATHER_MS, () => {
      wait.over = true;
      slots.wake();
    });
    while (!wait.over && !stopping.aborted && slots.open < full()) await slots.change();
    timer.cancel();
  };
  const failed = async (error: unknown): Promise<void> => {
    const delayMs = backoffDelay(RECEIVE_BACKOFF, ++failures);
    const code = errorLabel(error);
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
    learn(acquired) {
      if (acquired?.kind === 'lease' || acquired?.kind === 'replay') gate.answered();
      else if (acquired?.kind === 'handled' && acquired.why === 'unanswered' && !OF_ONE_TASK.includes(acquired.cause))
        gate.unanswered(acquired.taskId);
      else gate.saidNothing();
    },
    get ready() {
      return gate.open && failures === 0 && [...underWay].every(({ endsAt }) => clock.monotonic() < endsAt);
    },
    async intake() {
      while (!stopping.aborted) {
        if (plenty && slots.open > 0 && slots.open < full()) await gather();
        const free = alone ? slots.open : slots.size - slots.taken;
        const allowed = gate.allows(free);
        // Asks for no more than can start now.
        const max = allowed > 0 ? Math.min(allowed, shares.ask(index, free)) : 0;
        if (max <= 0) {
          await slots.change();
          continue;
        }
        try {
          await poll(max, waitMs);
        } catch (error) {
          if (!stopping.aborted) await failed(error);
        }
      }
      await Promise.all(helpers);
    },
  };
  return station;
}
