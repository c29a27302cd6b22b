import { backoffDelay, publish, sleep } from '@leasehold/core';
import type { Acquired, AdoptOptions, Busy, HeldDelivery, Lease, Timer } from '@leasehold/core';
import { Attempt, type AttemptOutcome, type AttemptServices } from './attempt.ts';
import { brokerPort } from './attempt-port.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createParking } from './parking.ts';
import { processOwner } from './process-owner.ts';
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

/** Runs tasks. Made by {@link createWorker}. */
export interface Worker {
  readonly owner: string;
  readonly stats: WorkerStats;
  /** The attempts under way, for health endpoints and displays. */
  readonly current: readonly { readonly taskId: string; readonly taskType: string; readonly stage: string; readonly reason: string; readonly remainingMs: number }[];
  /** Runs until stopped, by `stop()` or a signal; resolves when everything has ended. The process then exits by itself. */
  run(): Promise<StopReport>;
  /** Stops receiving, lets handlers end within the drain time, then aborts and releases. */
  stop(): Promise<StopReport>;
}

const RECEIVE_BACKOFF = { firstMs: 500, maxMs: 30_000 };
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
  const { broker, clock, tasks } = settings;
  const owner = processOwner(settings.service);
  const heartbeat = createHeartbeat(clock);
  const attempts = new Map<Attempt, Lease>();
  const byType = new Map<string, number>();
  const outcomes: Record<AttemptOutcome, number> = {
    settled: 0, released: 0, 'handed-off': 0, 'dead-lettered': 0, cancelled: 0, 'waiting-human': 0, lost: 0, unknown: 0, leaked: 0,
  };
  let taken = 0;
  let claimed = 0;
  let replayed = 0;
  let leaked = 0;
  let wake: () => void = () => undefined;
  let running: Promise<StopReport> | undefined;
  const stopping = new AbortController();
  const starts = new Set<Promise<void>>();

  const services: AttemptServices = {
    clock,
    heartbeat,
    graceMs: settings.graceMs,
    onLeakEnded: () => void leaked--,
    ...(options.contentStore && { contentStore: options.contentStore }),
    ...(options.onRejected && { onRejected: options.onRejected }),
  };
  const freeSlot = (): void => {
    taken--;
    wake();
  };
  const countType = (type: string, by: number): void => void byType.set(type, (byType.get(type) ?? 0) + by);

  const policyFor = (counted: { type?: string }): AdoptOptions['policy'] => (message) => {
    const task = tasks.get(message.taskType);
    if (!task) return 'refuse';
    if ((byType.get(task.type) ?? 0) >= (task.concurrency ?? settings.concurrency)) {
      return { deferMs: Math.round(DEFER_MS * (0.5 + Math.random())) };
    }
    counted.type = task.type;
    countType(task.type, 1);
    return {
      timing: task.timing,
      attempts: task.attempts,
      retentionMs: options.broker.retentionMs,
      ...(task.deadlineMs !== undefined && { deadlineMs: task.deadlineMs }),
    };
  };

  /** One delivery in its slot: claim, run, free the slot. Never rejects. */
  const start = async (held: HeldDelivery): Promise<void> => {
    const counted: { type?: string } = {};
    try {
      if (stopping.signal.aborted) {
        await broker.handBack(held, 0);
        return;
      }
      const acquired = await broker.adopt(held, { owner, policy: policyFor(counted) });
      await handle(acquired);
    } catch (error) {
      // The lease, if there is one, lapses; redelivery reconciles.
      publish({ name: 'warning', at: clock.wall(), reason: 'a delivery could not be handled', errorCode: error instanceof Error ? error.name : 'unknown' });
    } finally {
      if (counted.type !== undefined) countType(counted.type, -1);
      freeSlot();
    }
  };
  const handle = async (acquired: Acquired): Promise<void> => {
    if (acquired.kind === 'replay') replayed++;
    else if (acquired.kind === 'busy') await keepBusy(acquired);
    else if (acquired.kind === 'lease') await work(acquired, tasks.get(acquired.message.taskType) as AnyTask);
  };
  const keepBusy = async (busy: Busy): Promise<void> => {
    if (stopping.signal.aborted) await broker.handBack(busy.held, Math.max(1_000, busy.waitMs));
    else parking.park(busy);
  };
  const work = async (lease: Lease, definition: AnyTask): Promise<void> => {
    claimed++;
    const attempt = new Attempt({ port: brokerPort(broker, lease), definition, message: lease.message, services });
    attempts.set(attempt, lease);
    if (draining.aborted) attempt.abort('draining', 'the worker is shutting down');
    const outcome = await attempt.run();
    attempts.delete(attempt);
    outcomes[outcome]++;
    if (outcome === 'leaked') leaked++;
    parking.recall(lease.taskId);
  };
  const begin = (held: HeldDelivery): void => {
    taken++;
    const started = start(held);
    starts.add(started);
    void started.finally(() => starts.delete(started));
  };
  const parking = createParking({
    clock,
    leaseMs: settings.longestLeaseMs,
    canExtend: broker.capabilities.extend,
    extend: (busy, leaseMs) => broker.extend(busy, leaseMs),
    handBack: (busy, delayMs) => broker.handBack(busy.held, delayMs),
    retry(busy) {
      if (taken >= settings.concurrency || stopping.signal.aborted) return false;
      begin(busy.held);
      return true;
    },
  });
  const draining = { aborted: false };

  /** Asks for no more than can start now. */
  const intake = async (): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      const free = settings.concurrency - taken;
      if (free <= 0) {
        await new Promise<void>((resolve) => (wake = resolve));
        continue;
      }
      try {
        const received = await broker.receive({ max: free, leaseMs: settings.longestLeaseMs, waitMs: settings.pollMs, signal: stopping.signal });
        failures = 0;
        for (const held of received) begin(held);
      } catch (error) {
        if (stopping.signal.aborted) return;
        const delay = backoffDelay(RECEIVE_BACKOFF, ++failures);
        const code = error instanceof Error ? error.name : 'unknown';
        publish({ name: 'broker_call_failed', at: clock.wall(), cause: `${broker.name}: receive`, errorCode: code, delayMs: delay });
        if (failures === 1 || failures % 10 === 0) settings.logger.warn({ code, failures }, `receiving from ${broker.name} failed (${code}); trying again.`);
        // A stop ends the wait, which is no failure.
        await sleep(clock, delay, stopping.signal).catch(() => undefined);
      }
    }
  };
  /** True when `work` ended within `ms`. */
  const within = async (ms: number, what: Promise<unknown>): Promise<boolean> => {
    let timer: Timer | undefined;
    const limit = new Promise<boolean>((resolve) => (timer = clock.timer(ms, () => resolve(false))));
    const done = await Promise.race([what.then(() => true, () => true), limit]);
    timer?.cancel();
    return done;
  };
  const idle = async (): Promise<void> => {
    while (starts.size > 0) await Promise.all(starts);
  };
  const drain = async (intakeEnded: Promise<void>): Promise<StopReport> => {
    publish({ name: 'drain_started', at: clock.wall(), owner, count: attempts.size });
    await parking.empty();
    let ended = await within(settings.drainMs, Promise.all([intakeEnded, idle()]));
    if (!ended) {
      draining.aborted = true;
      for (const attempt of attempts.keys()) attempt.abort('draining', 'the worker is shutting down');
      ended = await within(settings.graceMs + FLUSH_MS, Promise.all([intakeEnded, idle()]));
    }
    const flushed = await within(FLUSH_MS, broker.drain());
    const outcome = ended && flushed && leaked === 0 ? 'drained' : 'forced';
    publish({ name: 'drain_finished', at: clock.wall(), owner, cause: outcome, count: leaked });
    return { outcome, leaked };
  };
  const run = async (): Promise<StopReport> => {
    const onSignal = (): void => void worker.stop();
    if (settings.signals) for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal);
    // Timers of leases do not keep a process alive; a running worker does.
    const alive = clock.timer(2 ** 45, () => undefined);
    const intakeEnded = intake();
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
      return { running: attempts.size, parked: parking.size, leaked, claimed, replayed, outcomes: { ...outcomes } };
    },
    get current() {
      const now = clock.monotonic();
      return [...attempts.keys()].map((attempt) => ({
        taskId: attempt.port.task.taskId,
        taskType: attempt.definition.type,
        stage: attempt.stage,
        reason: attempt.reason,
        remainingMs: Math.max(0, attempt.port.task.confirmedUntil - now),
      }));
    },
    run: () => (running ??= run()),
    stop() {
      stopping.abort();
      wake();
      return worker.run();
    },
  };
  return worker;
}
