import { randomBytes } from 'node:crypto';
import { backoffDelay, type Backoff } from './backoff.ts';
import { isHeard, publish, type EventName, type LeaseholdEvent } from './channel.ts';
import { sleep, type Clock } from './clock.ts';
import { decide, isRefusal } from './decide.ts';
import type { Carried, EffectFinding, OwnersEvent, Refusal } from './events.ts';
import { setOwn } from './json.ts';
import type { LedgerSession, Unanswered } from './ledger-session.ts';
import type { LeaseTiming } from './lease-timing.ts';
import { isLoss, type Lost, type Ownership } from './ownership.ts';
import type { Stage, StoreTime, TaskRecord } from './record.ts';

/** What the owner asks for; token, owner and nonce are the lease's business. */
export type OwnersRequest = OwnersEvent extends infer Each
  ? Each extends OwnersEvent
    ? Omit<Each, 'opId' | 'owner' | 'token' | 'carry'>
    : never
  : never;

/** What became of an owner's write. `unknown`: no answer; the write may still be applied. `refused`: it does not apply, the lease stands. */
export type ApplyOutcome =
  | { readonly applied: TaskRecord }
  | { readonly unknown: Unanswered['unanswered'] }
  | { readonly refused: Refusal }
  | Lost;

/** When (monotonic) a write was sent first, and when the sending that was answered left; the wall's lead over monotonic time at that moment. */
interface Sending {
  readonly firstAt: number;
  readonly lastAt: number;
  readonly wallOffset: number;
}

const NONCE_BYTES = 9;
/** Random bytes are cheap by the page, dear by the handful. */
let page = Buffer.alloc(0);
let used = 0;

/** Who is told that something about a lease has changed. */
export interface LeaseWatcher {
  /** Called at once, before the call that changed it returns. */
  leaseChanged(): void;
}

/** A nonce for one write. */
export function newOpId(): string {
  if (used + NONCE_BYTES > page.byteLength) {
    page = randomBytes(NONCE_BYTES * 256);
    used = 0;
  }
  used += NONCE_BYTES;
  return page.toString('base64url', used - NONCE_BYTES, used);
}

/** Waits before an unanswered write is sent again. */
export const REPEAT: Backoff = { firstMs: 50, maxMs: 1_000 };
const NOBODY: readonly LeaseWatcher[] = [];
const NOTHING: Carried = {};
/** More rebases than an owner can have writes on the way, plus the outsiders' (cancel). */
const MOST_REBASES = 50;

/**
 * The right to work on one task, as the ledger grants it; no broker involved. Writes of one lease never overlap, a write that got no
 * answer is remembered (it may be applied later), and once lost the lease writes nothing more.
 */
export class TaskLease {
  readonly taskId: string;
  readonly owner: string;
  readonly timing: LeaseTiming;
  readonly #session: LedgerSession;
  readonly #clock: Clock;
  #unanswered: Set<string> | undefined;
  #watchers: readonly LeaseWatcher[] = NOBODY;
  #record: TaskRecord;
  #confirmedUntil: number;
  #confirmedAt: number;
  #wallOffset: number;
  #clockTooWide = false;
  #lost: Lost | undefined;
  #ended = false;
  #queue: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** Replaced, never changed in place: a write remembers the very facts it carried. */
  #carry: Carried = NOTHING;

  constructor(parts: {
    session: LedgerSession;
    clock: Clock;
    timing: LeaseTiming;
    record: TaskRecord;
    now: StoreTime;
    sending: Sending;
  }) {
    this.taskId = parts.record.taskId;
    this.owner = parts.record.leaseOwner ?? '';
    this.timing = parts.timing;
    this.#session = parts.session;
    this.#clock = parts.clock;
    this.#record = parts.record;
    this.#confirmedUntil = parts.sending.firstAt;
    this.#confirmedAt = parts.clock.wall();
    this.#wallOffset = parts.sending.wallOffset;
    this.#confirm(parts.record, parts.now, parts.sending, parts.timing.leaseMs);
  }

  /** The record as the ledger last confirmed it. */
  get record(): TaskRecord {
    return this.#record;
  }

  get token(): number {
    return this.#record.fencingToken;
  }

  /** The monotonic instant up to which the ledger has confirmed this lease, whatever happens. */
  get confirmedUntil(): number {
    return this.#confirmedUntil;
  }

  /** Wall-clock time of the last confirmation, for people. */
  get lastConfirmedAt(): number {
    return this.#confirmedAt;
  }

  get lost(): Lost | undefined {
    if (!this.#lost && !this.#ended && !(this.#clock.monotonic() < this.#confirmedUntil)) {
      this.#lose({ lost: 'deadline', message: 'no write was confirmed before the lease ended' });
    }
    return this.#lost;
  }

  /** True once the lease was given up by its owner's own confirmed write (settled, released, handed off, dead-lettered). */
  get ended(): boolean {
    return this.#ended;
  }

  /** Judged anew at every call from the monotonic clock, never from a timer that may be late. */
  ownership(): Ownership {
    if (this.lost || this.#ended) return 'lost';
    if (this.#unanswered || this.#clockTooWide || this.slept()) return 'unknown';
    return this.#clock.monotonic() < this.#confirmedUntil - this.timing.marginMs ? 'held' : 'unknown';
  }

  /** True when wall time ran ahead of monotonic time since the last confirmation: the machine slept (or a clock answers NaN). */
  slept(): boolean {
    const ahead = this.#clock.wall() - this.#clock.monotonic() - this.#wallOffset;
    return !(Math.abs(ahead) <= this.timing.marginMs / 2);
  }

  /** A claim of progress that rides on the next write. */
  carryProgress(stage: Stage, reason: string): void {
    this.#carry = { ...this.#carry, progress: { stage, reason } };
  }

  /** A read-back's finding that rides on the next write. */
  carryFinding(effect: string, finding: EffectFinding): void {
    const effects: Record<string, EffectFinding> = { ...this.#carry.effects };
    setOwn(effects, effect, finding);
    this.#carry = { ...this.#carry, effects };
  }

  /** What was found of an effect and is not written yet. */
  carriedFinding(effect: string): EffectFinding | undefined {
    const effects = this.#carry.effects;
    return effects && Object.hasOwn(effects, effect) ? effects[effect] : undefined;
  }

  /** Tells `watcher` after every confirmation and when the lease is lost, until it is unwatched. */
  watch(watcher: LeaseWatcher): void {
    this.#watchers = this.#watchers.concat(watcher);
  }

  /** Tells `watcher` no more. */
  unwatch(watcher: LeaseWatcher): void {
    this.#watchers = this.#watchers.filter((each) => each !== watcher);
  }

  /** The store's time now, read if it has to be; nothing when the store does not answer. */
  async storeTime(timeoutMs: number): Promise<StoreTime | undefined> {
    const now = await this.#session.time(this.taskId, timeoutMs);
    return 'unanswered' in now ? undefined : now;
  }

  /** Whether a write is on its way or waits for one. */
  get writing(): boolean {
    return this.#waiting > 0;
  }

  /**
   * Writes. With `repeat`, an unanswered write is sent again (the same one) until it is answered or the confirmed time is over;
   * without it one sending has to do.
   */
  apply(request: OwnersRequest, options: { readonly repeat: boolean }): Promise<ApplyOutcome> {
    this.#waiting++;
    const run = this.#queue.then(() => this.#write(request, options.repeat));
    const next = (): void => void this.#waiting--;
    this.#queue = run.then(next, next);
    return run;
  }

  async #write(request: OwnersRequest, repeat: boolean): Promise<ApplyOutcome> {
    const timeoutMs = this.#timeoutMs();
    let base = this.#record;
    let write:
      | { readonly opId: string; readonly carry: Carried; readonly firstAt: number; readonly bound: number }
      | undefined;
    for (let rebases = 0, tries = 1; ;) {
      if (this.lost) return this.#lost as Lost;
      if (this.#ended) return { lost: 'released', message: 'the lease was given up before this write' };
      const now = await this.#session.time(this.taskId, timeoutMs);
      if ('unanswered' in now) {
        if (!repeat || !(await this.#pause(tries++))) return { unknown: now.unanswered };
        continue;
      }
      // Reading the time may have taken what was left.
      if (this.lost) return this.#lost as Lost;
      const lastAt = this.#clock.monotonic();
      const wallOffset = this.#clock.wall() - lastAt;
      write ??= { opId: newOpId(), carry: this.#carry, firstAt: lastAt, bound: now.latest };
      const { opId, carry, firstAt } = write;
      const event = { ...request, opId, owner: this.owner, token: base.fencingToken, carry } as OwnersEvent;
      const outcome = decide(base, event, now);
      if (isRefusal(outcome)) {
        if (!isLoss(outcome.refused)) return { refused: outcome };
        return this.#lose({ lost: outcome.refused, message: outcome.message });
      }
      // A sending that arrives late must not stretch the lease beyond what this owner may count on.
      const stamp =
        outcome.leaseMs === undefined ? undefined : { ms: outcome.leaseMs, notBeyond: write.bound + outcome.leaseMs };
      const answer = await this.#session.put(outcome.next, stamp, outcome.expect, timeoutMs);
      if ('unanswered' in answer) {
        // What is confirmed is not known any more, until some write is answered.
        (this.#unanswered ??= new Set()).add(opId);
        this.#changed();
        if (!repeat || !(await this.#pause(tries++))) return { unknown: answer.unanswered };
        continue;
      }
      const sending = { firstAt, lastAt, wallOffset };
      if (answer.ok) return this.#accept(answer.record, answer.now, sending, outcome.leaseMs, carry);
      const current = answer.current;
      // Applied by an earlier sending whose answer was lost.
      if (current?.opId === opId) return this.#accept(current, answer.now, sending, outcome.leaseMs, carry);
      if (request.type === 'settle' && current?.state === 'settled' && current.fencingToken === base.fencingToken) {
        return this.#accept(current, answer.now, sending, undefined, carry);
      }
      if (!current || !this.#isOwn(current, base) || current.version === base.version || ++rebases > MOST_REBASES) {
        return this.#refusedBy(current, event, answer.now);
      }
      // Our own late write, or an outsider's wish that left the lease alone: go on from what stands there now. The old sending expects a
      // version that is gone, so it can never be applied; the new one needs a name of its own.
      base = current;
      this.#record = current;
      write = undefined;
    }
  }

  #timeoutMs(): number {
    return Math.max(1, Math.floor(this.timing.marginMs / 2));
  }

  /** Waits before the same write is sent again; false when the confirmed time would be over by then. */
  async #pause(tries: number): Promise<boolean> {
    const wait = backoffDelay(REPEAT, tries);
    if (this.lost || this.#clock.monotonic() + wait >= this.#confirmedUntil) return false;
    await sleep(this.#clock, wait);
    return true;
  }

  #isOwn(current: TaskRecord, base: TaskRecord): boolean {
    if (current.state !== 'running' || current.leaseOwner !== this.owner) return false;
    return current.fencingToken === base.fencingToken || (this.#unanswered?.has(current.opId) ?? false);
  }

  #refusedBy(current: TaskRecord | undefined, event: OwnersEvent, now: StoreTime): ApplyOutcome {
    const reason = decide(current, event, now);
    if (isRefusal(reason) && isLoss(reason.refused))
      return this.#lose({ lost: reason.refused, message: reason.message });
    return this.#lose({ lost: 'expired', message: 'the store found the lease ended' });
  }

  #accept(
    record: TaskRecord,
    now: StoreTime,
    sending: Sending,
    leaseMs: number | undefined,
    carried: Carried,
  ): ApplyOutcome {
    this.#carry = stillCarried(this.#carry, carried);
    this.#confirm(record, now, sending, leaseMs);
    return { applied: record };
  }

  #confirm(record: TaskRecord, now: StoreTime, sending: Sending, leaseMs: number | undefined): void {
    this.#record = record;
    // Every older sending expects a version that is gone now.
    this.#unanswered = undefined;
    this.#confirmedAt = this.#clock.wall();
    // From before the answer: a machine that slept while it was on its way counts the lease from too late.
    this.#wallOffset = sending.wallOffset;
    this.#clockTooWide = !(now.latest - now.earliest <= this.timing.marginMs);
    if (record.state !== 'running') this.#ended = true;
    else if (leaseMs !== undefined) {
      // From the first sending of this write, whatever answer confirms it; less where the store shows that it granted less.
      const shown = sending.lastAt + (record.leaseExpiresAt ?? 0) - now.latest;
      this.#confirmedUntil = Math.min(sending.firstAt + leaseMs, shown);
    }
    this.#changed();
  }

  #lose(lost: Lost): Lost {
    if (!this.#lost) {
      this.#lost = lost;
      this.#changed();
    }
    return this.#lost;
  }

  #changed(): void {
    for (const watcher of this.#watchers) watcher.leaseChanged();
  }

  /** Publishes an event about this task. */
  announce(name: EventName, fields: Omit<LeaseholdEvent, 'name' | 'at'> = {}): void {
    if (!isHeard()) return;
    publish({
      name,
      at: this.#clock.wall(),
      taskId: this.taskId,
      taskType: this.#record.taskType,
      token: this.token,
      stage: this.#carry.progress?.stage ?? this.#record.stage,
      owner: this.owner,
      attempt: this.#record.attempt,
      ...(this.#record.payloadHash !== undefined && { payloadHash: this.#record.payloadHash }),
      ...fields,
    });
  }
}

/** What came up while a write that carried `written` was on its way. */
function stillCarried({ progress, effects }: Carried, written: Carried): Carried {
  const left = Object.entries(effects ?? {}).filter(([name, finding]) => written.effects?.[name] !== finding);
  const newer = progress !== written.progress;
  if (left.length === 0 && !newer) return NOTHING;
  return {
    ...(progress && newer && { progress }),
    ...(left.length > 0 && { effects: Object.fromEntries(left) }),
  };
}
