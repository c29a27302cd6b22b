import type { StoreTime, TaskRecord, TaskState, Stage } from './record.ts';

/** What a backend's own error comes down to. */
export type BrokerErrorCode = 'throttled' | 'unavailable' | 'not-found' | 'denied' | 'invalid' | 'unknown';
/** What a store's own error comes down to. */
export type LedgerErrorCode = BrokerErrorCode;

/** What a broker can do, as data. Core reads it to clamp and batch; the contract cases read it to know what applies. */
export interface BrokerCapabilities {
  /** The most entries one call takes. */
  readonly maxBatch: { readonly send: number; readonly receive: number; readonly handles: number };
  /** The most bytes (bodies and attributes) one `send` takes in all; absent = only `maxBodyBytes` counts. */
  readonly maxBatchBytes?: number;
  readonly maxBodyBytes: number;
  /** The delivery leases the backend grants, in milliseconds. */
  readonly leaseMs: { readonly min: number; readonly max: number; readonly step: number };
  /** The longest a delivery can be held in all, from its first receive. */
  readonly totalLeaseMs?: number;
  /** Whether a handle that is no longer valid is told from a good one. */
  readonly staleHandle: 'detected' | 'silent';
  /** Deliveries after which the broker itself moves a message to its dead-letter queue. */
  readonly maxDeliveries?: number;
  /** The longest delay `release` keeps, in milliseconds; 0 = released messages come back at once. */
  readonly releaseDelayMs: number;
  /** The longest delay `send` keeps, in milliseconds; 0 = none. */
  readonly sendDelayMs: number;
  readonly deliveryCount: boolean;
  /** True when messages of a group are handed out one at a time and in order. */
  readonly ordering: boolean;
  /** `native`: one call; `copy`: send to another queue, then complete; `none`: there is no dead-letter queue, so nothing is ever deleted. */
  readonly deadLetter: 'native' | 'copy' | 'none';
  /** False where a delivery cannot be prolonged (push). */
  readonly extend: boolean;
}

/** One held message. `handle` is opaque to core. */
export interface Delivery<Handle = unknown> {
  readonly handle: Handle;
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  /** Absent where the backend does not count. */
  readonly deliveryCount?: number;
  /** FIFO group, ordering key or session. */
  readonly groupId?: string;
  /** What was granted: a duration from before the request left. */
  readonly leaseMs: number;
  /** The broker's own stamp, epoch milliseconds. */
  readonly sentAt?: number;
  /** Milliseconds since the first receive, where a total cap counts from it. */
  readonly ageMs?: number;
}

/** A message to send. */
export interface OutgoingMessage {
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  readonly delayMs?: number;
  readonly groupId?: string;
  /** Where the backend deduplicates, two messages with one id within its window are one. */
  readonly deduplicationId?: string;
}

/** What became of one message of a `send`, in the order asked. */
export type SendOutcome = { readonly messageId: string } | { readonly failed: BrokerErrorCode };

/** What became of one handle: done; gone (the backend says the handle is no longer valid); or not done. */
export type HandleOutcome = 'done' | 'gone' | { readonly failed: BrokerErrorCode };

/** Why a message goes to the dead-letter queue. */
export interface RejectReason {
  readonly reason: string;
  readonly description: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** A message in the dead-letter queue. */
export interface DeadLetter {
  readonly messageId: string;
  readonly body: Uint8Array;
  readonly attributes: Readonly<Record<string, string>>;
  readonly reason: string;
  readonly description: string;
}

/** Some dead letters; with a cursor when there are more. */
export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  readonly cursor?: string;
}

/**
 * Moves messages, and nothing else. A driver does not retry, log, start timers, read the environment or wrap errors (an embedded one may wait
 * for its own file's lock until the call's signal aborts):
 * core validates, clamps, batches, retries and bounds every call in time. Every method rejects with the backend's own error.
 */
export interface BrokerDriver<Handle = unknown> {
  readonly specVersion: 1;
  readonly name: string;
  /** Final once `open` has resolved. */
  readonly capabilities: BrokerCapabilities;
  /** Called once before the first other call, where a driver has to ask its backend something first. */
  open?(signal: AbortSignal): Promise<void>;
  /**
   * At most `maxBatch.send` messages. One outcome per message, in order; an entry that the backend does not confirm is `failed`. With `ordering`, a
   * message is not sent once an earlier one of its group has failed: it fails too, and core sends both again.
   */
  send(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly SendOutcome[]>;
  /**
   * Up to `max` deliveries (within `maxBatch.receive`), waiting at most `waitMs` for the first one. An empty queue is an empty array.
   * On abort a driver either rejects with no message taken, or resolves with what it took: never takes and drops.
   */
  receive(
    ask: { readonly max: number; readonly leaseMs: number; readonly waitMs: number },
    signal: AbortSignal,
  ): Promise<readonly Delivery<Handle>[]>;
  /** Sets the lease of each to `leaseMs` from now. */
  extend(handles: readonly Handle[], leaseMs: number, signal: AbortSignal): Promise<readonly HandleOutcome[]>;
  /** Removes each message. After a power failure it may come back (an embedded store need not sync this): the ledger answers it as a replay. */
  complete(handles: readonly Handle[], signal: AbortSignal): Promise<readonly HandleOutcome[]>;
  /** Hands each back, to be delivered again after `delayMs` (within `releaseDelayMs`). */
  release(handles: readonly Handle[], delayMs: number, signal: AbortSignal): Promise<readonly HandleOutcome[]>;
  /** Moves the message to the dead-letter queue with its reason. Never called when `deadLetter` is `none`. */
  reject(handle: Handle, why: RejectReason, signal: AbortSignal): Promise<HandleOutcome>;
  /** Pure. */
  classify(error: unknown): BrokerErrorCode;
  /** For operators: one page of the dead-letter queue, oldest first; nothing is moved. Absent where it cannot be read. */
  deadLetters?(ask: { readonly limit: number; readonly cursor?: string }, signal: AbortSignal): Promise<DeadLetterPage>;
  /** For operators: moves dead letters back to the queue, attributes kept. Answers how many were there. Absent where only the provider can. */
  redrive?(messageIds: readonly string[], signal: AbortSignal): Promise<number>;
  /** Frees sockets and files. Held messages come back when their lease ends. */
  close(): Promise<void>;
}

/** What a ledger can do, as data. */
export interface LedgerCapabilities {
  /** The widest `latest - earliest` this store's time normally has. */
  readonly clockErrorMs: number;
  /** The shortest lease the store can keep apart. */
  readonly minLeaseMs: number;
  readonly maxRecordBytes: number;
  /** Whether `list` is answered from an index or by reading everything. */
  readonly list: 'index' | 'scan';
}

/** Which records to list. Fields combine with *and*; values within one with *or*. */
export interface LedgerQuery {
  readonly states?: readonly TaskState[];
  readonly stages?: readonly Stage[];
  readonly taskTypes?: readonly string[];
  readonly agentRunId?: string;
  readonly errorClass?: string;
  /** Only `running` records whose lease is certainly over. */
  readonly lapsed?: boolean;
  readonly limit: number;
  readonly cursor?: string;
}

/** One page of records, newest update first where the store can order them. */
export interface LedgerPage {
  readonly records: readonly TaskRecord[];
  readonly now: StoreTime;
  readonly cursor?: string;
}

/** What a write was conditional on. `live`: the stored expiry is after the latest possible now; `lapsed`: it is at or before the earliest. */
export type PutExpectation =
  | { readonly version: 0 }
  | { readonly version: number; readonly lease: 'live' | 'lapsed' | 'any' };

/** How the driver stamps the expiry: its own now (latest) + `ms`, but never beyond `notBeyond` (store time of the first sending + the lease). */
export interface LeaseStamp {
  readonly ms: number;
  readonly notBeyond?: number;
}

/** What a conditional write came to. A refusal carries the record as it stands now. */
export type PutOutcome =
  | { readonly ok: true; readonly record: TaskRecord; readonly now: StoreTime }
  | { readonly ok: false; readonly current: TaskRecord | undefined; readonly now: StoreTime };

/**
 * A compare-and-set register per task, with the store's clock. Linearizable and durable. Same duties as a broker driver:
 * no retries, no timers, no logging, raw errors. A `put` whose signal is aborted before it reached the store is never applied later by the driver itself.
 */
export interface LedgerDriver {
  readonly specVersion: 1;
  readonly name: string;
  readonly capabilities: LedgerCapabilities;
  /** Called once before the first other call, where a driver has to ask its store something first. */
  open?(signal: AbortSignal): Promise<void>;
  /**
   * Writes `next` if the expectation holds, judged by the store inside the request. With `lease` the driver stamps `leaseExpiresAt`;
   * without it the expiry in `next` (what was stored, or none) is kept. The record comes back as stored; fields in `extra` are kept.
   * Version 0 expects that there is no record.
   */
  put(
    next: TaskRecord,
    lease: LeaseStamp | undefined,
    expect: PutExpectation,
    signal: AbortSignal,
  ): Promise<PutOutcome>;
  /** Strongly consistent. */
  get(
    taskId: string,
    signal: AbortSignal,
  ): Promise<{ readonly record: TaskRecord | undefined; readonly now: StoreTime }>;
  /** For people and sweeps; may lag behind `get` only where the store says so. One unreadable record does not hide the others. */
  list(query: LedgerQuery, signal: AbortSignal): Promise<LedgerPage>;
  /** Pure. */
  classify(error: unknown): LedgerErrorCode;
  /** Frees sockets and files. */
  close(): Promise<void>;
}

/** The name of one hold: a nonce that its caller chose, never used for another. */
export type HoldId = string;

/** One hold on one key. Only its bearer may extend or finish it; once it is in doubt, whoever knows what happened may resolve it. */
export interface GuardHold {
  /** Already contains the caller's namespace. */
  readonly scope: string;
  readonly key: string;
  readonly hold: HoldId;
}

/** A response kept by a guard. Content: it is capped in size and expires. */
export interface StoredResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** What a request to a guarded receiver bears, and the name of the hold it is to run under. */
export interface GuardAsk extends GuardHold {
  /** Absent where the receiver does not require a fence. */
  readonly token?: number;
  readonly requestHash: string;
  readonly holdMs: number;
  readonly retentionMs: number;
}

/** What a guard says to a request: run it under this hold (the one asked for), or do not. `inDoubt` names the hold that ran out. */
export type GuardVerdict =
  | { readonly new: HoldId }
  | 'in-progress'
  | { readonly inDoubt: HoldId }
  | 'key-reused'
  | { readonly stale: number }
  | { readonly previous: StoredResponse };

/** What a guard knows of a key. `stale` carries the highest token seen, `inDoubt` the hold that ran out. */
export type LookVerdict =
  | 'absent'
  | 'in-progress'
  | { readonly inDoubt: HoldId }
  | { readonly stale: number }
  | { readonly previous: StoredResponse };

/**
 * The receiver's memory. The fence check (a token below the highest seen in the scope is refused, a higher one raises it) and the key
 * check are one conditional write. A hold that expired unfinished is in doubt, never new. Same duties as the other drivers.
 *
 * Every call may be repeated after a lost answer, in the same words, and comes to the same: `begin` recognises its own hold, `finish` its
 * own response or freeing.
 */
export interface GuardStore {
  readonly specVersion: 1;
  readonly name: string;
  /**
   * Asks to run a request under its key; the verdict says whether. Fence first, then the request's hash, then the key. While the hold it
   * names stands, it answers `new` again and changes nothing: that was this asking, whose answer was lost.
   * A hold that was freed is never given: a `begin` that arrives after the `finish` that gave it up is answered `in-progress`.
   */
  begin(ask: GuardAsk, signal: AbortSignal): Promise<GuardVerdict>;
  /** False when the hold is over or was finished. */
  extend(hold: GuardHold, holdMs: number, signal: AbortSignal): Promise<boolean>;
  /**
   * Ends a hold, also one that is in doubt: its bearer knows best. A response: true when that response is stored for it, now or by an
   * earlier call; false when the hold was freed, or ended with another response.
   * `free` (only when nothing happened, and nothing can any more): true when the hold is not on the key, whether it was until now, was
   * freed before, or never came to be; false when a response is stored under it. The store remembers the hold it freed last on
   * each key, for minutes at least, so that its own late `begin` cannot revive it.
   */
  finish(hold: GuardHold, response: StoredResponse | 'free', signal: AbortSignal): Promise<boolean>;
  /** A fenced read-back: raises the highest token, answers what is known of the key. Also how a scope is sealed. */
  look(
    ask: { readonly scope: string; readonly token: number; readonly key: string },
    signal: AbortSignal,
  ): Promise<LookVerdict>;
  /**
   * Settles one doubt with what the receiver's own state says: its response, or `free` = it never happened. False when that hold is not
   * in doubt (any more): a later doubt of the same key is another hold, of which the answer says nothing.
   */
  resolve(hold: GuardHold, response: StoredResponse | 'free', signal: AbortSignal): Promise<boolean>;
  /** Frees sockets and files. */
  close(): Promise<void>;
}
