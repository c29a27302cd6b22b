import type { BrokerCapabilities, Delivery, HandleOutcome, OutgoingMessage, RejectReason } from '../driver.ts';
import type { Clock, Timer } from '../clock.ts';
import { memoryClock, type MemoryClock } from './memory-clock.ts';

/** Why a message lies in a dead-letter queue in memory, among its attributes. */
const DEAD_LETTER_REASON = 'deadletterreason';
/** The longer text beside {@link DEAD_LETTER_REASON}. */
const DEAD_LETTER_DESCRIPTION = 'deadletterdescription';

/** A message as a test sees it. */
export interface MemoryMessage {
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  readonly groupId?: string;
  readonly deliveries: number;
  readonly sentAt: number;
  /** Set while a delivery is in flight: store time when its lease ends. */
  readonly heldUntil?: number;
}

/** A dead letter as a test sees it. */
export interface MemoryDeadLetter extends MemoryMessage {
  readonly reason: string;
  readonly description: string;
}

/** The state of a queue in memory: several drivers on one state are several processes on one queue. */
export interface MemoryQueue {
  /** Every message that is neither completed nor dead-lettered, oldest first. */
  readonly messages: readonly MemoryMessage[];
  /** Those of them that somebody holds now. */
  readonly inFlight: readonly MemoryMessage[];
  /** What lies in the dead-letter queue, oldest first. */
  readonly deadLetters: readonly MemoryDeadLetter[];
  /** The dead-letter queue as a queue of its own, so that a driver can read it. */
  readonly deadLetterQueue: MemoryQueue;
  /** Moves dead letters back, as a provider's redrive button does: counted from zero again, other attributes kept. Gives how many. */
  redrive(which?: (letter: MemoryDeadLetter) => boolean): number;
}

/** How a driver on a queue in memory behaves: its capabilities, and what they leave open. */
export interface QueueRules extends BrokerCapabilities {
  readonly groupBatch: boolean;
}

interface Stored {
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  readonly groupId?: string;
  readonly sentAt: number;
  visibleAt: number;
  deliveries: number;
  /** The delivery that counts now; an older handle is stale. */
  held?: { readonly handle: string; readonly since: number; until: number };
}

/** The queue itself. Every method takes effect at once and as a whole, as one request at a broker. */
export class QueueState implements MemoryQueue {
  readonly #messages = new Map<string, Stored>();
  /** Messages in flight, by the handle that counts. */
  readonly #held = new Map<string, Stored>();
  /** Receives that wait, longest first; each tries again and says whether it is done. */
  readonly #waiters = new Set<() => boolean>();
  readonly #clockOf: (clock: Clock | undefined) => MemoryClock;
  readonly #name: string;
  #deadLetterQueue: QueueState | undefined;
  #maxDeliveries = Infinity;
  #sequence = 0;

  constructor(name = 'm', clockOf: (clock: Clock | undefined) => MemoryClock = memoryClock()) {
    this.#name = name;
    this.#clockOf = clockOf;
  }

  clock(preferred?: Clock): MemoryClock {
    return this.#clockOf(preferred);
  }

  get messages(): readonly MemoryMessage[] {
    const now = this.#settle();
    return [...this.#messages.values()].map((stored) => seen(stored, now));
  }

  get inFlight(): readonly MemoryMessage[] {
    return this.messages.filter((message) => message.heldUntil !== undefined);
  }

  get deadLetters(): readonly MemoryDeadLetter[] {
    this.#settle();
    return this.deadLetterQueue.messages.map((message) => {
      const {
        [DEAD_LETTER_REASON]: reason = '',
        [DEAD_LETTER_DESCRIPTION]: description = '',
        ...attributes
      } = message.attributes;
      return { ...message, attributes, reason, description };
    });
  }

  get deadLetterQueue(): QueueState {
    this.#deadLetterQueue ??= new QueueState(`${this.#name}-dead`, this.#clockOf);
    return this.#deadLetterQueue;
  }

  redrive(which: (letter: MemoryDeadLetter) => boolean = () => true): number {
    const chosen = this.deadLetters.filter(which);
    for (const letter of chosen) {
      this.deadLetterQueue.#remove(letter.messageId);
      this.#add(letter.body, letter.attributes, letter.groupId, 0);
    }
    if (chosen.length > 0) this.wake();
    return chosen.length;
  }

  /** Deliveries after which a message is moved; the driver that is opened with such a limit sets it for the queue. */
  limitDeliveries(most: number): void {
    this.#maxDeliveries = most;
  }

  send(message: OutgoingMessage): string {
    return this.#add(message.body, message.attributes, message.groupId, message.delayMs ?? 0).messageId;
  }

  /** What can be handed out now, in order of sending. */
  take(max: number, leaseMs: number, rules: QueueRules): Delivery<string>[] {
    const now = this.#settle();
    const taken: Delivery<string>[] = [];
    const blocked = new Set<string>();
    for (const stored of this.#messages.values()) {
      if (taken.length >= max) break;
      const group = rules.ordering ? stored.groupId : undefined;
      if (group !== undefined && blocked.has(group)) continue;
      if (stored.held || stored.visibleAt > now) {
        if (group !== undefined) blocked.add(group);
        continue;
      }
      if (group !== undefined && !rules.groupBatch) blocked.add(group);
      taken.push(this.#handOut(stored, now, leaseMs, rules));
    }
    return taken;
  }

  #handOut(stored: Stored, now: number, leaseMs: number, rules: QueueRules): Delivery<string> {
    const handle = `${stored.messageId}#${++this.#sequence}`;
    stored.deliveries++;
    stored.held = { handle, since: now, until: now + leaseMs };
    this.#held.set(handle, stored);
    return {
      handle,
      messageId: stored.messageId,
      body: stored.body.slice(),
      attributes: { ...stored.attributes },
      leaseMs,
      sentAt: stored.sentAt,
      ...(rules.deliveryCount ? { deliveryCount: stored.deliveries } : {}),
      ...(stored.groupId === undefined ? {} : { groupId: stored.groupId }),
    };
  }

  extend(handle: string, leaseMs: number, rules: QueueRules): HandleOutcome {
    return this.#withHeld(handle, rules, (_stored, held, now) => {
      if (!rules.extend || now - held.since + leaseMs > (rules.totalLeaseMs ?? Infinity)) return { failed: 'invalid' };
      held.until = now + leaseMs;
      return 'done';
    });
  }

  complete(handle: string, rules: QueueRules): HandleOutcome {
    return this.#withHeld(handle, rules, (stored) => {
      this.#remove(stored.messageId);
      return 'done';
    });
  }

  release(handle: string, delayMs: number, rules: QueueRules): HandleOutcome {
    return this.#withHeld(handle, rules, (stored, _held, now) => {
      stored.visibleAt = now + Math.min(delayMs, rules.releaseDelayMs);
      this.#handBack(stored);
      return 'done';
    });
  }

  reject(handle: string, why: RejectReason, rules: QueueRules): HandleOutcome {
    if (rules.deadLetter === 'none') return { failed: 'invalid' };
    return this.#withHeld(handle, rules, (stored) => {
      this.#bury(stored, why);
      return 'done';
    });
  }

  #withHeld(
    handle: string,
    rules: QueueRules,
    act: (stored: Stored, held: NonNullable<Stored['held']>, now: number) => HandleOutcome,
  ): HandleOutcome {
    const now = this.#settle();
    const stored = this.#held.get(handle);
    if (!stored?.held) return rules.staleHandle === 'silent' ? 'done' : 'gone';
    return act(stored, stored.held, now);
  }

  /** Calls `attempt` at once, and again whenever something may have become available, until it says that it is done. Gives the way to call it off. */
  wait(attempt: () => boolean): () => void {
    let timer: Timer | undefined;
    const stop = (): void => {
      timer?.cancel();
      this.#waiters.delete(again);
    };
    const again = (): boolean => {
      timer?.cancel();
      if (attempt()) {
        stop();
        return true;
      }
      const { clock, now } = this.clock();
      const next = this.#nextChange(now());
      if (next !== undefined) timer = clock.timer(next - now(), () => void again());
      return false;
    };
    if (!again()) this.#waiters.add(again);
    return stop;
  }

  /** Lets those that wait try again. */
  wake(): void {
    for (const again of [...this.#waiters]) again();
  }

  /** When, of itself, a lease ends or a delay is over next. */
  #nextChange(now: number): number | undefined {
    let next = Infinity;
    for (const { held, visibleAt } of this.#messages.values()) {
      const at = held ? held.until : visibleAt;
      if (at > now && at < next) next = at;
    }
    return next === Infinity ? undefined : next;
  }

  /** Ends the leases that are over, and gives the time. */
  #settle(): number {
    const now = this.clock().now();
    for (const stored of this.#held.values()) if (stored.held && stored.held.until <= now) this.#handBack(stored);
    return now;
  }

  /** Back into the queue, or out of it when that was its last delivery. */
  #handBack(stored: Stored): void {
    this.#letGo(stored);
    if (stored.deliveries < this.#maxDeliveries) return;
    this.#bury(stored, {
      reason: 'max-deliveries',
      description: `Delivered ${stored.deliveries} times.`,
      attributes: {},
    });
  }

  #letGo(stored: Stored): void {
    if (stored.held) this.#held.delete(stored.held.handle);
    delete stored.held;
  }

  #bury(stored: Stored, why: RejectReason): void {
    const attributes = {
      ...stored.attributes,
      ...why.attributes,
      [DEAD_LETTER_REASON]: why.reason,
      [DEAD_LETTER_DESCRIPTION]: why.description,
    };
    this.#remove(stored.messageId);
    this.deadLetterQueue.#add(stored.body, attributes, stored.groupId, 0);
    this.deadLetterQueue.wake();
  }

  #remove(messageId: string): void {
    const stored = this.#messages.get(messageId);
    if (stored) this.#letGo(stored);
    this.#messages.delete(messageId);
  }

  #add(
    body: Uint8Array,
    attributes: Readonly<Record<string, string>>,
    groupId: string | undefined,
    delayMs: number,
  ): Stored {
    const now = this.clock().now();
    const stored: Stored = {
      messageId: `${this.#name}-${++this.#sequence}`,
      body: body.slice(),
      attributes: { ...attributes },
      sentAt: now,
      visibleAt: now + delayMs,
      deliveries: 0,
      ...(groupId === undefined ? {} : { groupId }),
    };
    this.#messages.set(stored.messageId, stored);
    return stored;
  }
}

function seen(stored: Stored, now: number): MemoryMessage {
  const { held, visibleAt: _, ...rest } = stored;
  const message = { ...rest, body: stored.body.slice(), attributes: { ...stored.attributes } };
  return held && held.until > now ? { ...message, heldUntil: held.until } : message;
}

/** A queue in memory, empty. Pass it to several `memoryBroker` to let them share it. */
export function memoryQueue(): MemoryQueue {
  return new QueueState();
}
