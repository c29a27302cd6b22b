import {
  badOption,
  parseDuration,
  type BrokerCapabilities,
  type BrokerDriver,
  type Delivery,
  type Duration,
  type HandleOutcome,
  type OptionNames,
} from '@leasehold/core';
import {
  countMessages,
  listDeadLetters,
  redriveMessages,
  type DeadLetterPage,
  type QueueDepth,
} from './dead-letters.ts';
import { FILE_OPTIONS, fileSettings, queueName, type SqliteFileOptions } from './file-options.ts';
import {
  claimMessages,
  completeMessage,
  extendMessage,
  MAX_BODY_BYTES,
  NEXT_DUE,
  rejectMessage,
  releaseMessage,
  sendMessages,
  type QueueSettings,
} from './message-queue.ts';
import type { Session } from './commit-queue.ts';
import { classifySqliteError } from './sqlite-errors.ts';
import { FileShare } from './sqlite-file.ts';

/** What {@link sqliteBroker} takes. */
export interface SqliteBrokerOptions extends SqliteFileOptions {
  /** Name of the queue in the file. Default `default`. `<queue>.dead` is its dead-letter queue, and can be read like any other. */
  readonly queue?: string;
  /** Deliveries after which a message is dead-lettered unseen. Default: no limit; the ledger counts attempts. */
  readonly maxDeliveries?: number;
  /** How long a deduplication id is remembered; `false` = not at all. Default `'5m'`. */
  readonly deduplication?: Duration | false;
}

/** A broker driver on SQLite, with what operators need beside it. */
export interface SqliteBroker extends BrokerDriver<string> {
  /** Opens the file, or makes it, and reports what is wrong with it. Every other call does so too. */
  open(signal: AbortSignal): Promise<void>;
  /** Dead letters, oldest first, at most `limit` (default 100) at a time. */
  deadLetters(
    ask?: { readonly limit?: number; readonly cursor?: string },
    signal?: AbortSignal,
  ): Promise<DeadLetterPage>;
  /** Moves dead letters back to the end of their queue, deliveries counted anew. Gives how many were moved. */
  redrive(messageIds: readonly string[], signal?: AbortSignal): Promise<number>;
  /** How many messages there are, by what keeps them. */
  depth(signal?: AbortSignal): Promise<QueueDepth>;
}

const OPTIONS: OptionNames<SqliteBrokerOptions> = {
  ...FILE_OPTIONS,
  queue: true,
  maxDeliveries: true,
  deduplication: true,
};
const BATCH = 100;
const DAY_MS = 86_400_000;
const LONGEST_DELAY_MS = 3_650 * DAY_MS;
const DEAD_SUFFIX = '.dead';

// Forgetting these in a power failure means one more delivery, which the ledger answers; so they wait for no disk.
const FORGETTABLE = { durable: false };
const DURABLE = { durable: true };

/**
 * A queue in an SQLite file: safe for several processes of one machine, killed at any moment.
 *
 * Messages of one group are handed out one at a time and in order. A sent or rejected message survives a power failure; a receive,
 * extend, complete or release may be forgotten by one, which only means another delivery.
 *
 * @throws LeaseholdError `bad-option` at once. Calls reject with errors of `node:sqlite`, or `unavailable` when the file cannot be
 * opened; a locked file is waited for until the call's signal aborts.
 *
 * @example
 * ```ts
 * import { sqliteBroker } from '@leasehold/sqlite';
 *
 * const broker = sqliteBroker({ file: './leasehold.db', queue: 'tickets' });
 * ```
 */
export function sqliteBroker(options: SqliteBrokerOptions): SqliteBroker {
  const settings = queueSettings(options);
  const share = new FileShare('broker', fileSettings(options, OPTIONS));
  // After a full receive there is probably more: ask for the lock without looking first.
  let eager = true;

  const nextDue = (session: Session): number => {
    const row = session.statement(NEXT_DUE).get(settings.queue);
    return row ? Number(row['visible_at']) - session.now.earliest : Infinity;
  };
  const claim = async (max: number, leaseMs: number, signal: AbortSignal): Promise<readonly Delivery<string>[]> => {
    const taken = await share.write((session) => claimMessages(session, settings, max, leaseMs), signal, FORGETTABLE);
    eager = taken.length === max;
    return taken;
  };
  const each = (
    handles: readonly string[],
    signal: AbortSignal,
    one: (session: Session, settings: QueueSettings, handle: string) => HandleOutcome,
  ): Promise<readonly HandleOutcome[]> =>
    share.write((session) => handles.map((handle) => one(session, settings, handle)), signal, FORGETTABLE);

  return {
    specVersion: 1,
    name: 'sqlite',
    capabilities: capabilities(settings),
    open: (signal) => share.open(signal),
    send: (messages, signal) => share.write((session) => sendMessages(session, settings, messages), signal, DURABLE),
    async receive({ max, leaseMs, waitMs }, signal) {
      const end = share.clock.monotonic() + waitMs;
      if (eager) {
        const taken = await claim(max, leaseMs, signal);
        if (taken.length > 0 || waitMs <= 0) return taken;
      }
      const ear = waitMs > 0 ? share.listen() : undefined;
      try {
        for (;;) {
          const dueMs = await share.read(nextDue, signal);
          if (dueMs <= 0) {
            const taken = await claim(max, leaseMs, signal);
            if (taken.length > 0) return taken;
            continue;
          }
          const leftMs = end - share.clock.monotonic();
          if (!ear || leftMs <= 0) return [];
          await ear.wait(Math.min(dueMs, leftMs), signal);
        }
      } finally {
        ear?.leave();
      }
    },
    extend: (handles, leaseMs, signal) =>
      each(handles, signal, (session, queue, handle) => extendMessage(session, queue, handle, leaseMs)),
    complete: (handles, signal) => each(handles, signal, completeMessage),
    release: (handles, delayMs, signal) =>
      each(handles, signal, (session, queue, handle) => releaseMessage(session, queue, handle, delayMs)),
    reject: (handle, why, signal) =>
      share.write((session) => rejectMessage(session, settings, handle, why), signal, DURABLE),
    classify: classifySqliteError,
    close: () => share.close(),
    async deadLetters({ limit = BATCH, cursor } = {}, signal = never) {
      if (!Number.isInteger(limit) || limit < 1 || limit > 1_000)
        throw badOption('limit', limit, 'write a whole number from 1 to 1000.');
      return share.read((session) => listDeadLetters(session, settings, limit, cursor), signal);
    },
    redrive: (messageIds, signal = never) =>
      share.write((session) => redriveMessages(session, settings, messageIds), signal, DURABLE),
    depth: (signal = never) => share.read((session) => countMessages(session, settings), signal),
  };
}

const never = new AbortController().signal;

function queueSettings(options: SqliteBrokerOptions): QueueSettings {
  const queue = queueName(options.queue ?? 'default');
  const { maxDeliveries, deduplication = '5m' } = options;
  if (maxDeliveries !== undefined && !(Number.isSafeInteger(maxDeliveries) && maxDeliveries >= 1)) {
    throw badOption('maxDeliveries', maxDeliveries, 'write a whole number from 1, or leave it out.');
  }
  return {
    queue,
    deadQueue: queue + DEAD_SUFFIX,
    // What lies in a dead-letter queue stays there until somebody completes it.
    maxDeliveries: queue.endsWith(DEAD_SUFFIX) ? undefined : maxDeliveries,
    deduplicationMs: deduplication === false ? 0 : parseDuration(deduplication, 'deduplication'),
  };
}

function capabilities({ queue, maxDeliveries }: QueueSettings): BrokerCapabilities {
  return {
    maxBatch: { send: BATCH, receive: BATCH, handles: BATCH },
    maxBodyBytes: MAX_BODY_BYTES,
    leaseMs: { min: 100, max: 30 * DAY_MS, step: 1 },
    staleHandle: 'detected',
    ...(maxDeliveries !== undefined && { maxDeliveries }),
    releaseDelayMs: LONGEST_DELAY_MS,
    sendDelayMs: LONGEST_DELAY_MS,
    deliveryCount: true,
    ordering: true,
    deadLetter: queue.endsWith(DEAD_SUFFIX) ? 'none' : 'native',
    extend: true,
  };
}
