import type { VirtualClock } from '../src/clock.ts';
import type { LeaseStamp, LedgerDriver, LedgerErrorCode, PutExpectation, PutOutcome } from '../src/driver.ts';
import { isLapsed, isLive, type StoreTime, type TaskRecord } from '../src/record.ts';

/** How long a call is on its way, and its answer on the way back. What does not come is `never`. */
export interface Travel {
  readonly upMs: number | 'never';
  readonly downMs: number | 'never';
}

/** At once, both ways. */
const PROMPT: Travel = { upMs: 0, downMs: 0 };
/** Applied at once, and the answer lost. */
export const ANSWER_LOST: Travel = { upMs: 0, downMs: 'never' };
/** Lost on the way. */
export const LOST: Travel = { upMs: 'never', downMs: 'never' };

/** A conditional write that reached the store. */
interface Landing {
  readonly opId: string;
  readonly before: TaskRecord | undefined;
  /** The record it made; absent when it was refused. */
  readonly after?: TaskRecord;
  /** The store's true time. */
  readonly at: number;
}

/** A write as its sender sent it. */
interface Sent {
  readonly next: TaskRecord;
  readonly lease: LeaseStamp | undefined;
  readonly expect: PutExpectation;
  /** Monotonic time of the sender, and the store's true time then. */
  readonly at: number;
  readonly storeAt: number;
}

/** A store over a slow and lossy network: what was sent lands when its time has come, whether anyone still waits for it or not. */
export interface SlowLedger extends LedgerDriver {
  /** How the next calls travel; what is not listed travels at once. */
  readonly travels: { readonly put: Travel[]; readonly get: Travel[] };
  readonly sent: readonly Sent[];
  readonly landings: readonly Landing[];
  /** Every read that was asked for. */
  readonly reads: number;
  /** Writes on their way whose senders still wait. */
  readonly waiting: number;
  /** The most that were so at once. */
  readonly mostWaiting: number;
  record(taskId: string): TaskRecord | undefined;
  /** The true time of the store now, or when the caller's monotonic clock shows `monotonic`. */
  time(monotonic?: number): number;
  /** The caller's machine sleeps: the store's time and the wall go on, its monotonic clock does not. */
  sleepMachine(ms: number): void;
  /** How far `earliest` and `latest` are from the true time. */
  error: { beforeMs: number; afterMs: number };
}

export function slowLedger(clock: VirtualClock, options: { readonly rate?: number } = {}): SlowLedger {
  const rate = options.rate ?? 1;
  const start = clock.monotonic();
  const records = new Map<string, TaskRecord>();
  const landings: Landing[] = [];
  const sent: Sent[] = [];
  const travels = { put: [] as Travel[], get: [] as Travel[] };
  let slept = 0;
  let waiting = 0;

  const time = (monotonic = clock.monotonic()): number => 1_700_000_000_000 + slept + (monotonic - start) * rate;
  const now = (): StoreTime => ({ earliest: time() - ledger.error.beforeMs, latest: time() + ledger.error.afterMs });
  const travel = <Answer>({ upMs, downMs }: Travel, signal: AbortSignal, act: () => Answer): Promise<Answer> => {
    waiting++;
    ledger.mostWaiting = Math.max(ledger.mostWaiting, waiting);
    return new Promise<Answer>((resolve, reject) => {
      const end = (finish: () => void): void => {
        signal.removeEventListener('abort', stop);
        waiting--;
        finish();
      };
      const stop = (): void => end(() => reject(signal.reason as Error));
      signal.addEventListener('abort', stop, { once: true });
      const land = (): void => {
        const answer = act();
        const back = (): void => void (signal.aborted || end(() => resolve(answer)));
        if (downMs === 0) back();
        else if (downMs !== 'never') clock.timer(downMs, back);
      };
      if (upMs === 0) land();
      else if (upMs !== 'never') clock.timer(upMs, land);
    });
  };
  const put = (next: TaskRecord, lease: LeaseStamp | undefined, expect: PutExpectation): PutOutcome => {
    const before = records.get(next.taskId);
    const at = time();
    const when = now();
    if (!holds(before, expect, when)) {
      landings.push({ opId: next.opId, before, at });
      return { ok: false, current: before, now: when };
    }
    const expiry = lease && Math.floor(Math.min(when.latest + lease.ms, lease.notBeyond ?? Number.POSITIVE_INFINITY));
    const after = expiry === undefined ? next : { ...next, leaseExpiresAt: expiry };
    records.set(next.taskId, after);
    landings.push({ opId: next.opId, before, after, at });
    return { ok: true, record: after, now: when };
  };

  const ledger = {
    specVersion: 1 as const,
    name: 'slow',
    capabilities: { clockErrorMs: 0, minLeaseMs: 1, maxRecordBytes: 400_000, list: 'scan' as const },
    travels,
    sent,
    landings,
    reads: 0,
    error: { beforeMs: 0, afterMs: 0 },
    get waiting() {
      return waiting;
    },
    mostWaiting: 0,
    record: (taskId: string) => records.get(taskId),
    time,
    sleepMachine(ms: number) {
      slept += ms;
      clock.stepWall(ms);
    },
    async put(next: TaskRecord, lease: LeaseStamp | undefined, expect: PutExpectation, signal: AbortSignal) {
      sent.push({ next, lease, expect, at: clock.monotonic(), storeAt: time() });
      return travel(travels.put.shift() ?? PROMPT, signal, () => put(next, lease, expect));
    },
    async get(taskId: string, signal: AbortSignal) {
      ledger.reads++;
      return travel(travels.get.shift() ?? PROMPT, signal, () => ({ record: records.get(taskId), now: now() }));
    },
    list: async () => ({ records: [...records.values()], now: now() }),
    classify: (): LedgerErrorCode => 'unavailable',
    close: async () => undefined,
  };
  return ledger;
}

function holds(current: TaskRecord | undefined, expect: PutExpectation, now: StoreTime): boolean {
  if (!current || !('lease' in expect)) return !current && expect.version === 0;
  if (current.version !== expect.version) return false;
  if (expect.lease === 'live') return isLive(current, now);
  return expect.lease === 'any' || isLapsed(current, now);
}
