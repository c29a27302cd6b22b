import { boundedCall, closeDriver, openOnce } from './bounded-call.ts';
import { publish } from './channel.ts';
import type { Clock } from './clock.ts';
import type {
  LeaseStamp,
  LedgerCapabilities,
  LedgerDriver,
  LedgerErrorCode,
  LedgerPage,
  LedgerQuery,
  PutExpectation,
  PutOutcome,
} from './driver.ts';
import { errorLabel, isLeaseholdError } from './errors.ts';
import type { StoreTime, TaskRecord } from './record.ts';
import { storeClock } from './store-clock.ts';

/** A call that came to nothing that can be relied on: it may have been applied, or may be later. */
export interface Unanswered {
  readonly unanswered: LedgerErrorCode | 'timeout';
  readonly error: unknown;
}

/** A ledger as core uses it: every call bounded in time, nothing thrown, the store's clock remembered. */
export interface LedgerSession {
  readonly driver: LedgerDriver;
  readonly capabilities: LedgerCapabilities;
  /** Asks the driver's store what has to be asked once. Rejects with the driver's error, or when the signal aborts. */
  open(signal?: AbortSignal): Promise<void>;
  /** One sending of a conditional write. */
  put(
    next: TaskRecord,
    lease: LeaseStamp | undefined,
    expect: PutExpectation,
    timeoutMs: number,
  ): Promise<PutOutcome | Unanswered>;
  /** One strongly consistent read. */
  get(
    taskId: string,
    timeoutMs: number,
  ): Promise<{ readonly record: TaskRecord | undefined; readonly now: StoreTime } | Unanswered>;
  /** Rejects with the driver's error. */
  list(query: LedgerQuery, timeoutMs: number): Promise<LedgerPage>;
  /** The store's time now: carried forward from its last answer, or, when there is none to rely on, from a read of `taskId`. */
  time(taskId: string, timeoutMs: number): Promise<StoreTime | Unanswered>;
  /** Closes the driver. */
  close(): Promise<void>;
}

/** How much wider than an answer a carried time may have grown, after minutes of silence; after a night it would be off by minutes. */
const WIDENED_MS = 1_000;

/** Wraps a ledger driver. One session per driver and process is enough; sessions share nothing. */
export function ledgerSession(driver: LedgerDriver, clock: Clock): LedgerSession {
  const time = storeClock(clock);

  const open = openOnce(clock, driver);
  const attempt = async <Result extends { readonly now: StoreTime }>(
    what: string,
    timeoutMs: number,
    call: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result | Unanswered> => {
    try {
      await open();
      const sent = time.sending();
      const answer = await boundedCall(clock, `${driver.name}: ${what}`, timeoutMs, call);
      time.observe(answer.now, sent);
      return answer;
    } catch (error) {
      const unanswered = isLeaseholdError(error) && error.code === 'timeout' ? 'timeout' : driver.classify(error);
      const cause = `${driver.name}: ${what}`;
      publish({
        name: 'ledger_call_failed',
        at: clock.wall(),
        cause,
        errorCode: unanswered,
        reason: errorLabel(error),
      });
      return { unanswered, error };
    }
  };
  /** The read of the time that is under way: a worker that starts asks for all of its tasks at once. */
  let reading: { readonly timeoutMs: number; readonly answer: ReturnType<LedgerSession['get']> } | undefined;
  const readTime = (taskId: string, timeoutMs: number): ReturnType<LedgerSession['get']> => {
    // Who joins one waits for no longer than for its own.
    if (reading && reading.timeoutMs <= timeoutMs) return reading.answer;
    const answer = session.get(taskId, timeoutMs);
    const mine = { timeoutMs, answer };
    reading = mine;
    void answer.then(() => {
      if (reading === mine) reading = undefined;
    });
    return answer;
  };
  const session: LedgerSession = {
    driver,
    get capabilities() {
      return driver.capabilities;
    },
    open,
    put: (next, lease, expect, timeoutMs) =>
      attempt('put', timeoutMs, (signal) => driver.put(next, lease, expect, signal)),
    get: (taskId, timeoutMs) => attempt('get', timeoutMs, (signal) => driver.get(taskId, signal)),
    async list(query, timeoutMs) {
      await open();
      return boundedCall(clock, `${driver.name}: list`, timeoutMs, (signal) => driver.list(query, signal));
    },
    async time(taskId, timeoutMs) {
      const known = time.estimate(clock.monotonic());
      if (known && known.latest - known.earliest <= driver.capabilities.clockErrorMs + WIDENED_MS) return known;
      const read = await readTime(taskId, timeoutMs);
      return 'unanswered' in read ? read : (time.estimate(clock.monotonic()) ?? read.now);
    },
    close: () => closeDriver(clock, driver),
  };
  return session;
}
