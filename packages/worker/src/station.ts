import { backoffDelay, errorLabel, isLeaseholdError, publish, sleep } from '@leasehold/core';
import type { Acquired, Busy, Handled, HeldDelivery, LeaseBroker } from '@leasehold/core';
import { createClaimGate, type ClaimNews } from './claim-gate.ts';
import { createParking, type Parking } from './parking.ts';
import type { Shares, Slots } from './slots.ts';
import { warnOfDeliveries, type WorkerSettings } from './worker-options.ts';

/** One broker of a worker: its polls, and the duplicates it keeps. */
export interface Station {
  readonly broker: LeaseBroker;
  readonly parking: Parking;
  /** Polls until stopped. Never rejects. */
  intake(): Promise<void>;
  /**
   * Told of what became of each delivery; undefined when dealing with it failed. Answers the id of a task that was only tried, to be kept without a
   * place until claims are answered again: the next try is to meet another message, and this one is to lose no further delivery.
   */
  learn(held: HeldDelivery, acquired: Acquired | undefined): string | undefined;
  /** False while messages are taken one at a time, or not at all, since a claim had no answer. */
  readonly trusting: boolean;
  /** Whether the last poll ended well, the one under way is not overdue, and the ledger answered when it was last asked. */
  readonly ready: boolean;
}

const RECEIVE_BACKOFF = { firstMs: 500, maxMs: 30_000 };
/** Several brokers share the places; none keeps its share through a long empty poll. */
const SHARED_POLL_MS = 1_000;
/** After a poll that brought nothing and did not wait for anything. */
const EMPTY_PAUSE_MS = 1_000;
const OVERDUE_MS = 6_000;
/** How long places that came free wait for others, so that one call fills them all. */
const GATHER_MS = 10;
/** A task that nobody has: what is asked for is whether there is an answer. */
const NO_TASK = 'leasehold:no-task';
/** How long a ledger may take to answer whether it answers. */
const READ_MS = 5_000;
/** Polls beside the one that waits. */
const MOST_HELPERS = 16;

/** What a message turned out to be without a word of the ledger. */
const WITHOUT_LEDGER: readonly Handled['why'][] = ['undecodable', 'refused-type', 'deferred', 'lapsed-delivery'];

function newsOf(acquired: Acquired | undefined): ClaimNews {
  if (!acquired || (acquired.kind === 'busy' && acquired.deferred)) return 'nothing';
  if (acquired.kind !== 'handled') return 'answered';
  if (acquired.why !== 'unanswered') return WITHOUT_LEDGER.includes(acquired.why) ? 'nothing' : 'answered';
  // The caller's own rule failed.
  if (acquired.cause === 'policy') return 'nothing';
  return acquired.cause === 'invalid' ? 'one-task' : 'unanswered';
}

/** Handed back, such a message would not come again: the broker gives it up. It is started at once, though places are short or a stop is under way. */
export function isLast({ capabilities }: LeaseBroker, { delivery: { deliveryCount } }: HeldDelivery): boolean {
  return deliveryCount !== undefined && deliveryCount >= (capabilities.maxDeliveries ?? Number.POSITIVE_INFINITY);
}

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
    answers: async () => !('unanswered' in (await broker.ledger.get(NO_TASK, READ_MS))),
    onChange: () => slots.wake(),
  });
  const underWay = new Set<{ readonly endsAt: number }>();
  const helpers = new Set<Promise<void>>();
  /** What one call brings at most. */
  const full = (): number => Math.min(broker.capabilities.maxBatch.receive, slots.size);

  /** Starts what there are places for. A parked delivery may have taken one that was kept for the poll; a stop hands back by starting. */
  const start = (received: readonly HeldDelivery[]): void => {
    const room = stopping.aborted ? received.length : Math.max(0, slots.size - slots.taken);
    const begun = received.filter((held, at) => at < room || isLast(broker, held));
    gate.took(begun);
    for (const held of begun) parts.begin(station, held);
    for (const held of received)
      if (!begun.includes(held)) station.parking.park({ kind: 'busy', taskId: '', waitMs: 0, held });
  };
  /** Answers how many messages it brought. */
  const poll = async (max: number, wait: number): Promise<number> => {
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
      start(received);
      if (received.length === full()) help();
      slots.wake();
    }
    return received.length;
  };
  /**
   * Where there is more than a full call brings, others help, each with a full call and without waiting for what may come. Where a call brings one
   * message alone, as many calls would come back empty in the end as there are places.
   */
  const help = (): void => {
    const most = alone && full() > 1 && gate.state === 'open' ? MOST_HELPERS : 0;
    while (helpers.size < most && !stopping.aborted && slots.open >= 2 * full()) {
      const helper = poll(full(), 0).then(
        () => undefined,
        (error: unknown) => (stopping.aborted ? undefined : failed(error)),
      );
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
  /** A stop ends the wait, which is no failure. */
  const pause = (ms: number): Promise<void> => sleep(clock, ms, stopping).catch(() => undefined);
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
    await pause(delayMs);
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
        if (slots.taken >= slots.size || stopping.aborted || gate.allows(1) === 0) return false;
        gate.took([busy.held]);
        parts.begin(station, busy.held);
        return true;
      },
    }),
    learn(held, acquired) {
      const tried = gate.learn(held, acquired?.taskId, newsOf(acquired));
      return tried && broker.capabilities.extend ? acquired?.taskId : undefined;
    },
    get trusting() {
      return gate.state === 'open';
    },
    get ready() {
      return gate.answered && failures === 0 && [...underWay].every(({ endsAt }) => clock.monotonic() < endsAt);
    },
    async intake() {
      while (!stopping.aborted) {
        if (plenty && gate.state === 'open' && slots.open > 0 && slots.open < full()) await gather();
        const free = alone ? slots.open : slots.size - slots.taken;
        const allowed = gate.allows(free);
        // Asks for no more than can start now.
        if (gate.state !== 'open' && allowed === 0) {
          // When it opens again, who has been idle is not to wait for more places: others would take them.
          plenty = false;
          if (shares.rest(index)) slots.wake();
        }
        const max = allowed > 0 ? shares.ask(index, free, allowed) : 0;
        if (max <= 0) {
          await slots.change();
          continue;
        }
        try {
          const wait = shares.mayWait(index, free) ? waitMs : 0;
          const brought = await poll(max, wait);
          // Without a place, and never without leaving a turn to others.
          if (brought === 0 && wait === 0) await pause(EMPTY_PAUSE_MS);
        } catch (error) {
          if (!stopping.aborted) await failed(error);
        }
      }
      await Promise.all([...helpers, gate.looking]);
    },
  };
  return station;
}
