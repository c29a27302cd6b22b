import type { LeaseholdEvent, TaskRecord } from '@leasehold/core';
import type { GuardEvent } from '@leasehold/guard';
import type { Answered, Caught, FaultName } from './child-messages.ts';
import type { EffectRow } from './effects.ts';
import type { QueueSight } from './place.ts';

/** An event of a worker, with the process it came from. */
export interface WorkerEvent {
  readonly pid: number;
  readonly event: LeaseholdEvent;
}

/** What the service said, in its order. */
export type ServiceEvent = { readonly kind: 'guard'; readonly event: GuardEvent } | Answered;

/** Everything that the demo's numbers and verdicts are made of: nothing here is the demo's own opinion. */
export interface Evidence {
  /** The tasks that were enqueued, by id. */
  readonly enqueued: readonly string[];
  /** The messages that nobody could read. */
  readonly poison: number;
  /** The ledger at the end. */
  readonly records: readonly TaskRecord[];
  /** Tokens as the ledger showed them while the tasks ran, by task. */
  readonly tokenHistory: ReadonlyMap<string, readonly number[]>;
  readonly queue: QueueSight;
  readonly workers: readonly WorkerEvent[];
  readonly service: readonly ServiceEvent[];
  readonly effects: readonly EffectRow[];
  readonly caught: readonly Caught[];
  /** The task that was sent once more after it had settled. */
  readonly resent: string;
}

/** Gathers evidence while the tasks run, and lets the scenario wait for it. */
export class Gathering {
  readonly workers: WorkerEvent[] = [];
  readonly service: ServiceEvent[] = [];
  readonly caught: Caught[] = [];
  readonly tokenHistory: Map<string, number[]> = new Map();
  records: ReadonlyMap<string, TaskRecord> = new Map();
  queue: QueueSight | undefined;
  readonly #watchers = new Map<() => void, string>();
  readonly #signal: AbortSignal;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** What is waited for just now. */
  get awaited(): readonly string[] {
    return [...this.#watchers.values()];
  }

  /** Something was added: whoever waits looks again. */
  changed(): void {
    for (const watcher of [...this.#watchers.keys()]) watcher();
  }

  /** The ledger and the queue as they are now. */
  polled(records: readonly TaskRecord[], queue: QueueSight): void {
    const latest = new Map<string, TaskRecord>();
    for (const record of records) {
      // A list is no snapshot: a task that changes its state meanwhile may be in it twice.
      if (record.version >= (latest.get(record.taskId)?.version ?? 0)) latest.set(record.taskId, record);
    }
    for (const { taskId, fencingToken, version } of latest.values()) {
      const seen = this.tokenHistory.get(taskId) ?? [];
      const isNews = version > (this.records.get(taskId)?.version ?? 0);
      if (isNews && seen.at(-1) !== fencingToken) this.tokenHistory.set(taskId, [...seen, fencingToken]);
    }
    this.records = latest;
    this.queue = queue;
    this.changed();
  }

  /** Resolves once `look` finds something. Rejects when the demo is stopped; `what` then says what it waited for. */
  until<Found>(what: string, look: () => Found | undefined | false): Promise<Found> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#watchers.delete(turn);
        this.#signal.removeEventListener('abort', stop);
      };
      const turn = (): void => {
        const found = look();
        if (found === undefined || found === false) return;
        end();
        resolve(found);
      };
      const stop = (): void => {
        end();
        reject(new Error(`stopped while waiting for ${what}`, { cause: this.#signal.reason }));
      };
      this.#watchers.set(turn, what);
      this.#signal.addEventListener('abort', stop, { once: true });
      if (this.#signal.aborted) stop();
      else turn();
    });
  }

  /** Resolves when the moment of a fault has come. */
  moment(fault: FaultName): Promise<Caught> {
    return this.until(`the moment to ${fault}`, () => this.caught.find((caught) => caught.fault === fault));
  }
}
