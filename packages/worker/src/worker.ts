import { LeaseholdError, publish } from '@leasehold/core';
import type { Acquired, AdoptOptions, ClaimPolicy, HeldDelivery, Lease, PolicyAnswer, Timer } from '@leasehold/core';
import { Attempt } from './attempt.ts';
import type { AttemptOutcome, AttemptServices } from './attempt-services.ts';
import { BrokerPort } from './attempt-port.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createLimitTable } from './limits.ts';
import { processOwner } from './process-owner.ts';
import { createSerialKeys, type KeyHold } from './serial-keys.ts';
import { createShares, createSlots } from './slots.ts';
import { createStation, isLast, type Station } from './station.ts';
import { workerSettings, type AnyTask, type WorkerOptions } from './worker-options.ts';

/** What a worker has done and is doing. */
export interface WorkerStats {
  readonly running: number;
  /** Duplicates of live tasks that are waiting for their owner. */
  readonly parked: number;
  /** Handlers that ignored an abort and have not ended. */
  readonly leaked: number;
  readonly claimed: number;
  readonly replayed: number;
  readonly outcomes: Readonly<Record<AttemptOutcome, number>>;
}

/** How a stop went. `forced`: something did not end in time and was left behind; its lease lapses. */
export interface StopReport {
  readonly outcome: 'drained' | 'forced';
  readonly leaked: number;
}

/** Whether to keep the process and whether to send it work. */
export interface WorkerHealth {
  /** The loop turns and beats go out. Says nothing of the broker: restarting a worker does not mend one. */
  readonly live: boolean;
  /** Polls end well and no stop was asked for. */
  readonly ready: boolean;
  /** How late the latest beat went out, in milliseconds. */
  readonly lateMs: number;
  readonly brokers: readonly { readonly name: string; readonly ready: boolean }[];
  readonly running: number;
  readonly leaked: number;
}

/** Runs tasks. Made by {@link createWorker}. */
export interface Worker {
  readonly owner: string;
  readonly stats: WorkerStats;
  /** The attempts under way, for health endpoints and displays. */
  readonly current: readonly {
    readonly taskId: string;
    readonly taskType: string;
    readonly stage: string;
    readonly reason: string;
    readonly remainingMs: number;
  }[];
  /** For a health endpoint. */
  health(): WorkerHealth;
  /** Runs until stopped, by `stop()` or a signal; resolves when everything has ended. The process then exits by itself. */
  run(): Promise<StopReport>;
  /** Stops receiving, lets handlers end within the drain time, then aborts and releases. */
  stop(): Promise<StopReport>;
}

/** Set while a rehearsal imports the handlers of somebody: nothing real may start then. */
const REHEARSAL = Symbol.for('leasehold.rehearsal');

function refuseInRehearsal(): void {
  if ((globalThis as Record<symbol, unknown>)[REHEARSAL] !== true) return;
  throw new LeaseholdError(
    'refused',
    'This module starts a worker when it is imported. A rehearsal needs a module that only exports tasks: move them into one of their own.',
  );
}

/** A beat that late means that the event loop is blocked. */
const LATE_MS = 5_000;
/** How long the broker gets to confirm what it was told last, before a stop is forced. */
const FLUSH_MS = 5_000;
const DEFER_MS = 1_000;

/**
 * A worker over one lease broker.
 *
 * @throws LeaseholdError naming the option, before anything is received.
 * @example
 * ```ts
 * import type { LeaseBroker } from '@leasehold/core';
 * import { createWorker, defineTask } from '@leasehold/worker';
 *
 * declare const broker: LeaseBroker;
 * const greet = defineTask({ type: 'greet', run: (input: { name: string }) => `Hello ${input.name}` });
 * await createWorker({ broker, tasks: [greet], concurrency: 20, drain: '25s' }).run();
 * ```
 */
export function createWorker(options: WorkerOptions): Worker {
  const settings = workerSettings(options);
  const { clock, tasks } = settings;
  const owner = processOwner(settings.service);
  const heartbeat = createHeartbeat(clock);
  const keys = createSerialKeys({ clock, heartbeat, owner });
  const slots = createSlots(settings.concurrency);
  const shares = createShares(settings.brokers.map((entry) => entry.weight));
  const attempts = new Set<Attempt>();
  const byType = new Map<string, number>();
  const outcomes: Record<AttemptOutcome, number> = {
    settled: 0,
    released: 0,
    'handed-off': 0,
    'dead-lettered': 0,
    cancelled: 0,
    'waiting-human': 0,
    lost: 0,
    unknown: 0,
    leaked: 0,
  };
  let claimed = 0;
  let replayed = 0;
  let leaked = 0;
  let draining = false;
  let running: Promise<StopReport> | undefined;
  const stopping = new AbortController();
  /** Deliveries being dealt with, and who waits for there to be none. */
  const starts = { count: 0, waiting: [] as (() => void)[] };

  const services: AttemptServices = {
    clock,
    heartbeat,
    limits: createLimitTable(clock),
    graceMs: settings.graceMs,
    onLeakEnded: () => void leaked--,
    ...(options.contentStore && { contentStore: options.contentStore }),
    ...(options.onRejected && { onRejected: options.onRejected }),
  };

  const foreign = new Set<string>();
  const warnOfType = (type: string): void => {
    // Once a type, and not for ever more of them: a queue may hold anything.
    if (foreign.has(type) || foreign.size >= 100) return;
    foreign.add(type);
    settings.logger.warn(
      { type },
      `this worker knows no task of type ${JSON.stringify(type.slice(0, 60))}; such messages are handed back, for another worker of the queue.`,
    );
  };
  let unclaimed = 0;
  const warnOfClaim = ({ broker: { ledger }, trusting }: Station, cause: string): void => {
    if (unclaimed++ % 10 !== 0) return;
    const rest = trusting ? '' : '; none is taken until the ledger answers, and then one to try';
    const remedy = cause === 'denied' ? ' Check what this role may do with it.' : '';
    settings.logger.warn(
      { cause, unclaimed },
      `a task could not be claimed: ${cause} (ledger ${ledger.driver.name}).${remedy} Its message comes back when its lease ends, and that counts as a delivery${rest}.`,
    );
  };
  /** What a delivery has taken besides its slot. */
  interface Taken {
    type?: string;
    key?: KeyHold;
  }
  const policyFor =
    (station: Station, has: Taken): AdoptOptions['policy'] =>
    (message) => {
      const task = tasks.get(message.taskType);
      if (!task) {
        warnOfType(message.taskType);
        return 'refuse';
      }
      const count = byType.get(task.type) ?? 0;
      if (count >= (task.concurrency ?? settings.concurrency))
        return { deferMs: Math.round(DEFER_MS * (0.5 + Math.random())) };
      has.type = task.type;
      byType.set(task.type, count + 1);
      const policy = {
        timing: task.timing,
        attempts: task.attempts,
        retentionMs: station.broker.retentionMs,
        ...(task.deadlineMs !== undefined && { deadlineMs: task.deadlineMs }),
      };
      const key = task.keyOf?.(message);
      return key === undefined ? policy : withKey(station, has, task, key, policy);
    };
  const withKey = async (
    station: Station,
    has: Taken,
    task: AnyTask,
    key: string,
    policy: ClaimPolicy,
  ): Promise<PolicyAnswer> => {
    const hold = await keys.take(station.broker.ledger, task.timing, task.type, key);
    if ('unanswered' in hold) return hold;
    if ('waitMs' in hold) return { deferMs: Math.max(50, Math.round(hold.waitMs * (0.5 + Math.random() / 2))) };
    has.key = hold;
    return policy;
  };

  /** One delivery in its slot: claim, run, free the slot. Never rejects. */
  const start = async (station: Station, held: HeldDelivery): Promise<void> => {
    const has: Taken = {};
    slots.take();
    starts.count++;
    try {
      if (stopping.signal.aborted && !isLast(station.broker, held)) await station.broker.handBack(held, 0);
      else {
        const acquired = await station.broker.adopt(held, { owner, policy: policyFor(station, has) });
        const keep = station.learn(held, acquired);
        if (keep && !stopping.signal.aborted) station.parking.park({ kind: 'busy', taskId: keep, waitMs: 0, held });
        if (acquired.kind !== 'lease') await handle(station, acquired);
        else {
          const attempt = beginAttempt(station, acquired, has);
          // No frame waits while the handler works.
          attempt.run((outcome) => {
            endAttempt(attempt, outcome, has);
            station.parking.recall(attempt.task.taskId);
            void free(has);
          });
          return;
        }
      }
    } catch (error) {
      station.learn(held, undefined);
      // The lease, if there is one, lapses; redelivery reconciles.
      publish({
        name: 'warning',
        at: clock.wall(),
        reason: 'a delivery could not be handled',
        errorCode: error instanceof Error ? error.name : 'unknown',
      });
    }
    await free(has);
  };
  const free = async (has: Taken): Promise<void> => {
    await has.key?.release();
    if (has.type !== undefined) byType.set(has.type, (byType.get(has.type) ?? 1) - 1);
    slots.free();
    for (const each of stations) each.parking.offer();
    starts.count--;
    if (starts.count === 0) for (const resolve of starts.waiting.splice(0)) resolve();
  };
  const handle = async (station: Station, acquired: Exclude<Acquired, Lease>): Promise<void> => {
    if (acquired.kind === 'handled') {
      if (acquired.why === 'unanswered') warnOfClaim(station, acquired.cause ?? 'unknown');
    } else if (acquired.kind === 'replay') replayed++;
    else if (acquired.kind === 'busy') {
      if (stopping.signal.aborted) await station.broker.handBack(acquired.held, Math.max(1_000, acquired.waitMs));
      else station.parking.park(acquired);
    }
  };
  const beginAttempt = (station: Station, lease: Lease, has: Taken): Attempt => {
    claimed++;
    const definition = tasks.get(lease.message.taskType) as AnyTask;
    const { message } = lease;
    const attempt = new Attempt({ port: new BrokerPort(station.broker, lease), definition, message, services });
    attempts.add(attempt);
    has.key?.onLost((lost) => attempt.abort('lost', `the key of this task was lost: ${lost.message}`));
    if (draining) attempt.abort('draining', 'the worker is shutting down');
    return attempt;
  };
  const endAttempt = (attempt: Attempt, outcome: AttemptOutcome, has: Taken): void => {
    attempts.delete(attempt);
    outcomes[outcome]++;
    if (outcome !== 'leaked') return;
    leaked++;
    has.key?.lapse();
    delete has.key;
  };
  const begin = (station: Station, held: HeldDelivery): void => void start(station, held);
  const stations = settings.brokers.map(({ broker }, index) =>
    createStation({ index, broker, settings, slots, shares, stopping: stopping.signal, begin }),
  );

  /** True when `what` ended within `ms`. */
  const within = async (ms: number, what: Promise<unknown>): Promise<boolean> => {
    let timer: Timer | undefined;
    const limit = new Promise<boolean>((resolve) => (timer = clock.timer(ms, () => resolve(false))));
    const done = await Promise.race([
      what.then(
        () => true,
        () => true,
      ),
      limit,
    ]);
    timer?.cancel();
    return done;
  };
  const idle = async (): Promise<void> => {
    while (starts.count > 0) await new Promise<void>((resolve) => starts.waiting.push(resolve));
  };
  const drain = async (intakeEnded: Promise<unknown>): Promise<StopReport> => {
    publish({ name: 'drain_started', at: clock.wall(), owner, count: attempts.size });
    await within(FLUSH_MS, Promise.all(stations.map((station) => station.parking.empty())));
    let ended = await within(settings.drainMs, Promise.all([intakeEnded, idle()]));
    if (!ended) {
      draining = true;
      for (const attempt of attempts) attempt.abort('draining', 'the worker is shutting down');
      ended = await within(settings.graceMs + FLUSH_MS, Promise.all([intakeEnded, idle()]));
    }
    const flushed = await within(FLUSH_MS, Promise.all(stations.map((station) => station.broker.drain())));
    const outcome = ended && flushed && leaked === 0 ? 'drained' : 'forced';
    publish({ name: 'drain_finished', at: clock.wall(), owner, cause: outcome, count: leaked });
    return { outcome, leaked };
  };
  const run = async (): Promise<StopReport> => {
    const onSignal = (): void => void worker.stop();
    if (settings.signals) for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal);
    // Timers of leases do not keep a process alive; a running worker does.
    const alive = clock.timer(2 ** 45, () => undefined);
    const intakeEnded = Promise.all(stations.map((station) => station.intake()));
    await new Promise<void>((resolve) => {
      if (stopping.signal.aborted) resolve();
      else stopping.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const report = await drain(intakeEnded);
    alive.cancel();
    if (settings.signals) for (const signal of ['SIGTERM', 'SIGINT'] as const) process.off(signal, onSignal);
    return report;
  };
  const worker: Worker = {
    owner,
    get stats() {
      const parked = stations.reduce((sum, station) => sum + station.parking.size, 0);
      return { running: attempts.size, parked, leaked, claimed, replayed, outcomes: { ...outcomes } };
    },
    get current() {
      const now = clock.monotonic();
      return [...attempts].map((attempt) => ({
        taskId: attempt.port.task.taskId,
        taskType: attempt.definition.type,
        stage: attempt.stage,
        reason: attempt.reason,
        remainingMs: Math.max(0, attempt.port.task.confirmedUntil - now),
      }));
    },
    health() {
      const brokers = stations.map((station) => ({ name: station.broker.name, ready: station.ready }));
      const { lateMs } = heartbeat;
      return {
        live: lateMs < LATE_MS,
        ready: running !== undefined && !stopping.signal.aborted && brokers.every((broker) => broker.ready),
        lateMs,
        brokers,
        running: attempts.size,
        leaked,
      };
    },
    run: () => {
      refuseInRehearsal();
      return (running ??= run());
    },
    stop() {
      stopping.abort();
      slots.wake();
      return worker.run();
    },
  };
  return worker;
}
