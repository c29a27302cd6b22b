import { createLeaseBroker, subscribe, systemClock, virtualClock, type Clock, type LeaseBroker } from '@leasehold/core';
import { createWorker, defineTask, type Worker } from '@leasehold/worker';
import { answerParent } from './child-answers.ts';
import { until } from './side.ts';
import { echoLedger, syntheticQueue, type SyntheticQueue } from './synthetic-drivers.ts';

/** What holding many leases for some beats came to. */
export interface LeasesResult {
  readonly leases: number;
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

interface Holding {
  readonly queue: SyntheticQueue;
  readonly broker: LeaseBroker;
  readonly worker: Worker;
  readonly marginMs: number;
  readonly held: () => number;
  end(): Promise<void>;
}

/** A worker whose handlers wait, each with its signal in hand, as one that passes it on to a call. */
function holding(count: number, lease: number, latencyMs: number, clock: Clock): Holding {
  const queue = syntheticQueue(latencyMs);
  const broker = createLeaseBroker({ driver: queue.driver, ledger: echoLedger(latencyMs, clock), clock });
  let held = 0;
  let letGo = (): void => undefined;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const task = defineTask({
    type: 'long',
    lease,
    limits: { stage: '1h' },
    async run(_input, ctx) {
      ctx.signal.throwIfAborted();
      held++;
      await gate;
    },
  });
  const worker = createWorker({ broker, tasks: [task], concurrency: count, signals: false, poll: '1s' });
  return {
    queue,
    broker,
    worker,
    marginMs: task.timing.marginMs,
    held: () => held,
    async end() {
      letGo();
      await worker.stop();
      await broker.close();
    },
  };
}

async function heapUsed(): Promise<number> {
  const { gc } = globalThis;
  if (!gc) throw new Error('the heap is measured after a collection: start with --expose-gc');
  gc();
  await new Promise<void>((resolve) => setImmediate(resolve));
  gc();
  return process.memoryUsage().heapUsed;
}

/**
 * Bytes on the heap per held lease, between two beats, after `beats` of them. Under a clock that is moved by hand: what is held is the same, and no
 * beat is on its way.
 */
async function heap(count: number, beats: number): Promise<number> {
  const LEASE_MS = 90_000;
  const clock = virtualClock(Date.now());
  // What the first tasks of a process bring along is not theirs.
  const first = holding(100, LEASE_MS, 0, clock);
  const all = [first, holding(count, LEASE_MS, 0, clock)];
  const grown: number[] = [];
  for (const each of all) {
    const wanted = each === first ? 100 : count;
    const before = await heapUsed();
    each.queue.waiting['long'] = wanted;
    void each.worker.run();
    await until(() => each.held() >= wanted);
    for (let beat = 0; beat < beats; beat++) await clock.advance(LEASE_MS / 3);
    // Until the beats of the last step are over.
    await clock.advance(1_000);
    grown.push((await heapUsed()) - before);
    if (each.worker.stats.running !== wanted) throw new Error(`${each.worker.stats.running} of ${wanted} are held`);
  }
  return (grown[1] ?? Number.NaN) / count;
}

/** Holds `count` leases of `leaseMs` for as many of their own lengths as `lengths` says, in real time. */
async function hold(count: number, leaseMs: number, lengths: number): Promise<LeasesResult> {
  const { queue, worker, marginMs, held, end } = holding(count, leaseMs, LATENCY_MS, systemClock());
  const counted = { beats: 0, notHeld: 0 };
  const unsubscribe = subscribe(({ name }) => {
    if (name === 'heartbeat_ok') counted.beats++;
    if (name === 'heartbeat_unknown' || name === 'heartbeat_lost') counted.notHeld++;
  });
  queue.waiting['long'] = count;
  void worker.run();
  await until(() => held() >= count, 5);
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
  const result: LeasesResult = {
    leases: worker.stats.running,
    extendCalls: queue.calls.extend - calls.extend,
    extended: queue.calls.extended - calls.extended,
    ...counted,
    lateMs: worker.health().lateMs,
    leastLeftMs,
    marginMs,
    cpuShare: (spent.user + spent.system) / 1_000 / wallMs,
  };
  unsubscribe();
  await end();
  return result;
}

answerParent({ hold, heap });
