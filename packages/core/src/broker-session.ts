import { backoffDelay } from './backoff.ts';
import { batcher, type Batcher } from './batcher.ts';
import { boundedCall, closeDriver, openOnce } from './bounded-call.ts';
import { publish } from './channel.ts';
import { sleep, type Clock } from './clock.ts';
import type {
  BrokerCapabilities,
  BrokerDriver,
  BrokerErrorCode,
  Delivery,
  HandleOutcome,
  OutgoingMessage,
  RejectReason,
  SendOutcome,
} from './driver.ts';
import { isLeaseholdError } from './errors.ts';

/** A delivery in this process's hands. */
export interface HeldDelivery {
  readonly delivery: Delivery;
  /** The monotonic instant at which the broker may deliver the message again. */
  heldUntil: number;
  /** The monotonic instant of the broker's total cap. */
  readonly capAt: number;
}

/** What a session keeps of a delivery besides. */
interface Held extends HeldDelivery {
  /** The extension that was asked for last. */
  extending?: Promise<unknown> | undefined;
  /** It is being completed, released or rejected. */
  ending?: boolean;
}

/** A broker as core uses it: batched, clamped, retried and bounded in time. Handle operations never throw. */
export interface BrokerSession {
  readonly driver: BrokerDriver;
  readonly capabilities: BrokerCapabilities;
  /** The longest a renewal waits for others to share its call, in milliseconds. */
  readonly lingerMs: number;
  /** Asks the driver's backend what has to be asked once, again where that may help. Rejects with the driver's error. */
  open(): Promise<void>;
  /** Rejects with the driver's error. */
  receive(
    ask: { readonly max: number; readonly leaseMs: number; readonly waitMs: number },
    signal?: AbortSignal,
  ): Promise<readonly HeldDelivery[]>;
  /** Takes a delivery in; its lease counts from `sentAt` (monotonic). */
  hold(delivery: Delivery, sentAt: number): HeldDelivery;
  /** Sends in as few calls as fit; an entry that was not confirmed is `failed`. */
  send(messages: readonly OutgoingMessage[]): Promise<readonly SendOutcome[]>;
  /** Prolongs the delivery, within the backend's cap. */
  extend(held: HeldDelivery, leaseMs: number): Promise<HandleOutcome>;
  /** Acknowledges. */
  complete(held: HeldDelivery): Promise<HandleOutcome>;
  /** Hands back; a delay beyond the backend's longest is cut. */
  release(held: HeldDelivery, delayMs: number): Promise<HandleOutcome>;
  /** Moves to the dead-letter queue. */
  reject(held: HeldDelivery, why: RejectReason): Promise<HandleOutcome>;
  /** Resolves when everything asked for so far has been sent and answered. */
  drain(): Promise<void>;
  /** Drains, then closes the driver. */
  close(): Promise<void>;
}

const CALL_TIMEOUT_MS = 10_000;
const POLL_GRACE_MS = 5_000;
const RETRY = { firstMs: 100, maxMs: 2_000 };
const MOST_TRIES = 5;
const LINGER_MS = 20;
/** Nothing waits for an acknowledgement; with ordering the next message of the group does. */
const COMPLETE_LINGER_MS = 50;

interface HandleCall {
  readonly held: Held;
  /** Nothing is retried beyond this monotonic instant. */
  readonly until: number;
}

/** Wraps a broker driver. */
export function brokerSession(driver: BrokerDriver, clock: Clock): BrokerSession {
  let closed = false;
  const batchers = new Map<string, Batcher<HandleCall, HandleOutcome>>();
  const inFlight = new Set<Promise<unknown>>();

  const open = openOnce(clock, driver);
  const codeOf = (error: unknown): BrokerErrorCode =>
    isLeaseholdError(error) && error.code === 'timeout' ? 'unknown' : driver.classify(error);
  /** For who can do nothing before: a refusal that passes is no reason to give up. One that was not answered has taken its time already. */
  const openAtLast = async (): Promise<void> => {
    for (let tries = 1; ; tries++) {
      try {
        return await open();
      } catch (error) {
        const code = codeOf(error);
        if (closed || tries >= MOST_TRIES || !(code === 'throttled' || code === 'unavailable')) throw error;
      }
      await sleep(clock, backoffDelay(RETRY, tries));
    }
  };

  /** Calls for all entries, then again for those alone that failed and may succeed. */
  const persist = async <Entry, Outcome>(
    what: string,
    entries: readonly Entry[],
    untilOf: (entry: Entry) => number,
    call: (
      entries: readonly Entry[],
      signal: AbortSignal,
    ) => Promise<readonly (Outcome | { readonly failed: BrokerErrorCode })[]>,
  ): Promise<readonly (Outcome | { readonly failed: BrokerErrorCode })[]> => {
    type Answer = Outcome | { readonly failed: BrokerErrorCode };
    const answers: Answer[] = entries.map(() => ({ failed: 'unknown' as const }));
    let left = entries.map((_, index) => index);
    for (let tries = 1; left.length > 0; tries++) {
      const asked = left;
      try {
        await open();
        const outcomes = await boundedCall(clock, `${driver.name}: ${what}`, CALL_TIMEOUT_MS, (signal) =>
          call(
            asked.map((index) => entries[index] as Entry),
            signal,
          ),
        );
        // An entry the backend says nothing about is unconfirmed.
        asked.forEach((index, position) => (answers[index] = outcomes[position] ?? { failed: 'unknown' }));
      } catch (error) {
        const failed = codeOf(error);
        publish({
          name: 'broker_call_failed',
          at: clock.wall(),
          cause: `${driver.name}: ${what}`,
          errorCode: failed,
          count: asked.length,
        });
        asked.forEach((index) => (answers[index] = { failed }));
      }
      const wait = backoffDelay(RETRY, tries);
      const next = clock.monotonic() + wait;
      left = asked.filter((index) => isRetryable(answers[index]) && next < untilOf(entries[index] as Entry));
      if (tries >= MOST_TRIES || left.length === 0) break;
      await sleep(clock, wait);
    }
    return answers;
  };

  const handles = (
    key: string,
    lingerMs: number,
    call: (entries: readonly HandleCall[], signal: AbortSignal) => Promise<readonly HandleOutcome[]>,
  ): Batcher<HandleCall, HandleOutcome> => {
    let found = batchers.get(key);
    if (!found) {
      found = batcher<HandleCall, HandleOutcome>({
        clock,
        maxItems: driver.capabilities.maxBatch.handles,
        lingerMs,
        flush: (items) => persist<HandleCall, HandleOutcome>(key, items, (item) => item.until, call),
      });
      // Delays and capped leases come in many lengths; what is idle is not kept.
      if (batchers.size > 64) for (const [name, batch] of batchers) if (batch.idle) batchers.delete(name);
      batchers.set(key, found);
    }
    return found;
  };
  const run = async (held: Held, batch: Batcher<HandleCall, HandleOutcome>): Promise<HandleOutcome> => {
    try {
      return await batch.add({ held, until: held.heldUntil });
    } catch {
      // Closed in between: the message comes back when its lease ends.
      return { failed: 'unavailable' };
    }
  };
  const clamp = (ms: number): number => {
    const { min, max, step } = driver.capabilities.leaseMs;
    return Math.min(max, Math.max(min, Math.ceil(ms / step) * step));
  };
  const track = <Result>(work: Promise<Result>): Promise<Result> => {
    inFlight.add(work);
    const gone = (): void => void inFlight.delete(work);
    work.then(gone, gone);
    return work;
  };
  /** An extension that has not left yet is called off, one on its way waited for: after the end it could hide the message again. */
  const end = async (held: Held, act: () => Promise<HandleOutcome>): Promise<HandleOutcome> => {
    if (closed) return { failed: 'unavailable' };
    held.ending = true;
    if (!held.extending) return track(act());
    const acting = async (): Promise<HandleOutcome> => {
      await held.extending;
      return act();
    };
    return track(acting());
  };
  const extendAll = async (
    entries: readonly HandleCall[],
    ms: number,
    signal: AbortSignal,
  ): Promise<readonly HandleOutcome[]> => {
    const going = entries.filter(({ held }) => !held.ending);
    const outcomes = going.length === 0 ? [] : await driver.extend(handlesOf(going), ms, signal);
    // Those called off never left; a retry would find them called off again.
    return entries.map((entry) =>
      going.includes(entry) ? (outcomes[going.indexOf(entry)] ?? { failed: 'unknown' }) : { failed: 'invalid' },
    );
  };
  const hold = (delivery: Delivery, sentAt: number): Held => {
    const total = driver.capabilities.totalLeaseMs;
    return {
      delivery,
      heldUntil: sentAt + delivery.leaseMs,
      capAt: total === undefined ? Number.POSITIVE_INFINITY : sentAt + total - (delivery.ageMs ?? 0),
      extending: undefined,
      ending: false,
    };
  };
  const sendBatch = (batch: readonly OutgoingMessage[]): Promise<readonly SendOutcome[]> =>
    persist<OutgoingMessage, SendOutcome>(
      'send',
      batch,
      () => Number.POSITIVE_INFINITY,
      (entries, signal) => driver.send(entries, signal),
    );
  /** One call after the other; what comes after a failed message of its group is not sent, so that it does not overtake it. */
  const sendInOrder = async (
    batches: readonly (readonly OutgoingMessage[])[],
  ): Promise<readonly (readonly SendOutcome[])[]> => {
    const failed = new Map<string | undefined, SendOutcome>();
    const answers: (readonly SendOutcome[])[] = [];
    for (const batch of batches) {
      const held = batch.map(({ groupId }) => failed.get(groupId));
      const outcomes = await sendBatch(batch.filter((_, index) => !held[index]));
      let next = 0;
      answers.push(
        batch.map(({ groupId }, index) => {
          const outcome = held[index] ?? outcomes[next++] ?? { failed: 'unknown' };
          if ('failed' in outcome && groupId !== undefined) failed.set(groupId, outcome);
          return outcome;
        }),
      );
    }
    return answers;
  };
  const session: BrokerSession = {
    driver,
    get capabilities() {
      return driver.capabilities;
    },
    lingerMs: LINGER_MS,
    open: openAtLast,
    hold,
    async receive(ask, signal) {
      await open(signal);
      const { maxBatch } = driver.capabilities;
      const sentAt = clock.monotonic();
      const leaseMs = clamp(ask.leaseMs);
      // A lease counts from before the request left: after a long wait a short one would be over on arrival.
      const waitMs = Math.min(ask.waitMs, Math.floor(leaseMs / 2));
      const request = { max: Math.min(ask.max, maxBatch.receive), leaseMs, waitMs };
      // Not among what a drain waits for: a poll may last as long as it likes.
      const deliveries = await boundedCall(
        clock,
        `${driver.name}: receive`,
        waitMs + POLL_GRACE_MS,
        (inner) => driver.receive(request, inner),
        {
          ...(signal && { outer: signal }),
          // A poll that answers after it was given up must not keep what it brought.
          onLate: (late) => late.forEach((delivery) => void session.release(hold(delivery, sentAt), 0)),
        },
      );
      return deliveries.map((delivery) => hold(delivery, sentAt));
    },
    async send(messages) {
      const batches = splitMessages(messages, driver.capabilities);
      const answers = await track(
        driver.capabilities.ordering ? sendInOrder(batches) : Promise.all(batches.map(sendBatch)),
      );
      return answers.flat();
    },
    async extend(held: Held, leaseMs) {
      const left = held.capAt - clock.monotonic();
      const { min, step } = driver.capabilities.leaseMs;
      if (!driver.capabilities.extend || closed || held.ending || Math.min(leaseMs, left) < min)
        return { failed: 'invalid' };
      const ms = Math.min(clamp(leaseMs), Math.floor(left / step) * step);
      const sentAt = clock.monotonic();
      const work = run(
        held,
        handles(`extend ${ms}`, LINGER_MS, (batch, signal) => extendAll(batch, ms, signal)),
      );
      held.extending = work;
      const outcome = await work;
      if (held.extending === work) held.extending = undefined;
      if (outcome === 'done') held.heldUntil = Math.max(held.heldUntil, sentAt + ms);
      return outcome;
    },
    complete: (held) =>
      end(held, () =>
        run(
          held,
          handles('complete', driver.capabilities.ordering ? LINGER_MS / 2 : COMPLETE_LINGER_MS, (batch, signal) =>
            driver.complete(handlesOf(batch), signal),
          ),
        ),
      ),
    release(held, delayMs) {
      const delay = Math.min(Math.max(0, Math.ceil(delayMs)), driver.capabilities.releaseDelayMs);
      return end(held, () =>
        run(
          held,
          handles(`release ${delay}`, 0, (batch, signal) => driver.release(handlesOf(batch), delay, signal)),
        ),
      );
    },
    reject: (held, why) =>
      end(held, async () => {
        const call = async (_: readonly HeldDelivery[], signal: AbortSignal): Promise<readonly HandleOutcome[]> => [
          await driver.reject(held.delivery.handle, why, signal),
        ];
        const [outcome] = await persist<HeldDelivery, HandleOutcome>(
          'reject',
          [held],
          (entry) => entry.heldUntil,
          call,
        );
        return outcome as HandleOutcome;
      }),
    async drain() {
      while (inFlight.size > 0) await Promise.allSettled(inFlight);
      await Promise.all([...batchers.values()].map((batch) => batch.drain()));
    },
    async close() {
      if (closed) return;
      closed = true;
      await session.drain();
      await Promise.all([...batchers.values()].map((batch) => batch.close()));
      await closeDriver(clock, driver);
    },
  };
  return session;
}

function handlesOf(entries: readonly HandleCall[]): readonly unknown[] {
  return entries.map(({ held }) => held.delivery.handle);
}

function isRetryable(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null || !('failed' in answer)) return false;
  return answer.failed === 'throttled' || answer.failed === 'unavailable' || answer.failed === 'unknown';
}

/** The bytes of a message as brokers count them: body, attribute names and values. */
export function messageBytes(message: Pick<OutgoingMessage, 'body' | 'attributes'>): number {
  let bytes = message.body.byteLength;
  for (const [name, value] of Object.entries(message.attributes))
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
  return bytes;
}

/** Splits into calls the backend takes: by count and by bytes, in order. */
export function splitMessages(
  messages: readonly OutgoingMessage[],
  capabilities: Pick<BrokerCapabilities, 'maxBatch' | 'maxBatchBytes'>,
): readonly (readonly OutgoingMessage[])[] {
  const groups: OutgoingMessage[][] = [];
  let bytes = 0;
  for (const message of messages) {
    const size = messageBytes(message);
    const last = groups.at(-1);
    if (
      !last ||
      last.length >= capabilities.maxBatch.send ||
      bytes + size > (capabilities.maxBatchBytes ?? Number.POSITIVE_INFINITY)
    ) {
      groups.push([message]);
      bytes = size;
    } else {
      last.push(message);
      bytes += size;
    }
  }
  return groups;
}
