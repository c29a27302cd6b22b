import { createLeaseBroker, subscribe } from '@leasehold/core';
import { createWorker, defineTask } from '@leasehold/worker';
import { answerParent } from './child-answers.ts';
import { echoLedger, syntheticQueue } from './synthetic-drivers.ts';

/** What holding many leases for some beats came to. */
export interface LeasesResult {
  readonly leases: number;
  readonly heapBytesPerLease: number;
  readonly extendCalls: number;
  readonly extended: number;
  /** Beats that were not confirmed before the margin: `heartbeat_unknown` and `heartbeat_lost`. */
  readonly notHeld: number;
  readonly beats: number;
  /** How late the latest beat went out. */
  readonly lateMs: number;
  /** The least time that was left to any lease at any look. */
  readonly leastLeftMs: number;
  readonly marginMs: number;
  readonly cpuShare: number;
}

const LATENCY_MS = 5;

/** Holds `count` leases of `leaseMs` for as many of their own lengths as `lengths` says. */
async function hold(count: number, leaseMs: number, lengths: number): Promise<LeasesResult> {
  const { gc } = globalThis;
  if (!gc) throw new Error('the heap is measured after a collection: start with --expose-gc');
  const queue = syntheticQueue(LATENCY_MS);
  const broker = createLeaseBroker({ driver: queue.driver, ledger: echoLedger(LATENCY_MS) });
  let held = 0;
  let letGo: () => void;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const task = defineTask({
    type: 'long',
    lease: leaseMs,
    limits: { stage: '1h' },
    async run(_input, ctx) {
      // As a handler does that passes it on to a call.
      ctx.signal.throwIfAborted();
      held++;
      await gate;
    },
  });
  const counted = { beats: 0, notHeld: 0 };
  const unsubscribe = subscribe(({ name }) => {
    if (name === 'heartbeat_ok') counted.beats++;
    if (name === 'heartbeat_unknown' || name === 'heartbeat_lost') counted.notHeld++;
  });
  const worker = createWorker({ broker, tasks: [task], concurrency: count, signals: false, poll: '1s' });
  const heap = async (): Promise<number> => {
    gc();
    await new Promise<void>((resolve) => setImmediate(resolve));
    gc();
    return process.memoryUsage().heapUsed;
  };
  const before = await heap();
  queue.waiting['long'] = count;
  const running = worker.run();
  while (held < count) await new Promise<void>((resolve) => setTimeout(resolve, 5));
  const cpu = process.cpuUsage();
  const from = performance.now();
  const calls = { ...queue.calls };
  let leastLeftMs = Number.POSITIVE_INFINITY;
  while (performance.now() - from < lengths * leaseMs) {
    await new Promise<void>((resolve) => setTimeout(resolve, leaseMs / 9));
    for (const { remainingMs } of worker.current) leastLeftMs = Math.min(leastLeftMs, remainingMs);
  }
  const spent = process.cpuUsage(cpu);
  const wallMs = performance.now() - from;
  const after = await heap();
  const result: LeasesResult = {
    leases: worker.stats.running,
    heapBytesPerLease: (after - before) / count,
    extendCalls: queue.calls.extend - calls.extend,
    extended: queue.calls.extended - calls.extended,
    ...counted,
    lateMs: worker.health().lateMs,
    leastLeftMs,
    marginMs: task.timing.marginMs,
    cpuShare: (spent.user + spent.system) / 1_000 / wallMs,
  };
  unsubscribe();
  letGo!();
  await worker.stop();
  await running;
  await broker.close();
  return result;
}

answerParent({ hold });
