import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { sleep, virtualClock, type VirtualClock } from '../src/clock.ts';
import type { BrokerDriver, LedgerDriver, PutOutcome } from '../src/driver.ts';
import type { Acquired, ClaimPolicy, Lease } from '../src/lease.ts';
import { createLeaseBroker, type LeaseBroker } from '../src/lease-broker.ts';
import { memoryBroker, memoryLedger, memoryQueue, memoryTable } from '../src/memory/index.ts';
import { isTerminal, type TaskRecord } from '../src/record.ts';
import { createTaskClient } from '../src/task-client.ts';
import {
  applyLater,
  delayAnswer,
  delayCall,
  dropAnswer,
  duplicateDelivery,
  failBefore,
  faultPlan,
  faultyBroker,
  faultyLedger,
  hang,
  pretend,
  type Fault,
  type FaultPlan,
} from '../src/testing/index.ts';
import { settlement } from './broker-bench.ts';
import { RETENTION_MS } from './task-events.ts';

/** A short lease, so that much happens in little time. */
const POLICY: ClaimPolicy = {
  timing: { leaseMs: 9_000, heartbeatMs: 3_000, marginMs: 2_000, tolerate: 1 },
  attempts: 4,
  retentionMs: RETENTION_MS,
};
const TASKS = 6;
const FAULTS: Readonly<Record<string, readonly Fault[]>> = {
  put: [
    failBefore('throttled'),
    dropAnswer(),
    dropAnswer(500),
    applyLater(4_000),
    applyLater(12_000, 'on-abort'),
    delayCall(800),
    delayAnswer(1_500),
    hang(),
  ],
  get: [failBefore('throttled'), hang(), delayAnswer(900)],
  receive: [failBefore('throttled'), dropAnswer(), delayAnswer(2_000), duplicateDelivery(), hang()],
  send: [failBefore('denied'), dropAnswer(0, 'denied'), dropAnswer(), applyLater(3_000), hang()],
  extend: [failBefore('throttled'), dropAnswer(), delayCall(1_500), applyLater(2_000), pretend('gone'), hang()],
  complete: [failBefore('denied'), dropAnswer(), delayCall(1_500), applyLater(2_000), hang()],
  release: [failBefore('denied'), dropAnswer(), applyLater(2_000), hang()],
  reject: [failBefore('denied'), dropAnswer(), hang()],
};
const world = fc.record({
  seed: fc.integer(),
  rate: fc.constantFrom(0.02, 0.1, 0.25),
  releaseDelayMs: fc.constantFrom(0, 2_000, 600_000),
  staleHandle: fc.constantFrom('silent', 'detected'),
  clockErrorMs: fc.constantFrom(0, 150),
});

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** One process: takes what comes, works on it for a while, ends it in one way or another, or dies. */
async function work(
  name: string,
  broker: LeaseBroker,
  clock: VirtualClock,
  chance: () => number,
  calm: () => boolean,
): Promise<void> {
  const owner = `svc/${name}`;
  const end = async (lease: Lease): Promise<void> => {
    for (let beat = Math.floor(chance() * 4); beat > 0; beat--) {
      await sleep(clock, 2_000 + chance() * 2_000);
      await broker.renew(lease, { stage: 'external_call', reason: `beat ${beat}` });
    }
    const choice = calm() ? 0 : chance();
    const error = { errorClass: 'retryable', code: 'E', message: 'no' };
    const next = [{ taskId: `${lease.taskId}:next:0`, type: 'mail', idempotencyKey: lease.taskId, input: 1 }];
    if (choice < 0.45) await broker.settle(lease, settlement(lease, lease.message.taskType === 'mail' ? {} : { next }));
    else if (choice < 0.65)
      await broker.release(lease, { error, failure: chance() < 0.5, delayMs: Math.floor(chance() * 6_000) });
    else if (choice < 0.75) await broker.handOff(lease, { reason: 'the function ends', progressed: chance() < 0.5 });
    else if (choice < 0.85) await broker.deadLetter(lease, { ...error, errorClass: 'permanent' });
    // Else it dies, and says nothing to anybody.
  };
  const handle = async (acquired: Acquired): Promise<void> => {
    if (acquired.kind === 'busy') await broker.handBack(acquired.held, Math.max(1_000, acquired.waitMs));
    if (acquired.kind === 'lease') await end(acquired);
  };
  const held = await broker.receive({ max: 3, leaseMs: POLICY.timing.leaseMs, waitMs: 500 }).catch(() => []);
  await Promise.all(held.map(async (one) => handle(await broker.adopt(one, { owner, policy: () => POLICY }))));
}

/** What is wrong with the history of one task. */
function* wrong(history: readonly TaskRecord[]): Iterable<string> {
  let before: TaskRecord | undefined;
  const grants = new Set<number>();
  for (const record of history) {
    if (record.version !== (before?.version ?? 0) + 1) yield `version ${before?.version} -> ${record.version}`;
    if (record.fencingToken < (before?.fencingToken ?? 0)) yield 'a token went back';
    if (record.attempt > (before?.attempt ?? 0)) {
      if (grants.has(record.fencingToken)) yield 'two grants with one token';
      grants.add(record.fencingToken);
      if (before?.state === 'settled' || before?.state === 'cancelled' || before?.state === 'dead_lettered')
        yield `run again after ${before.state}`;
    }
    if (before?.state === 'settled' && record.state !== 'settled') yield 'a settled task was changed';
    before = record;
  }
}

test('I1, I2, I5: under any faults of broker and ledger, and with workers that die, every task ends, once, and nothing is lost', async () => {
  const ends = { settled: 0, dead_lettered: 0, cancelled: 0 };
  await fc.assert(
    fc.asyncProperty(world, async ({ seed, rate, releaseDelayMs, staleHandle, clockErrorMs }) => {
      const chance = random(seed);
      vi.spyOn(Math, 'random').mockImplementation(chance);
      const clock = virtualClock();
      const queue = memoryQueue();
      const table = memoryTable();
      let faulty = true;
      const histories = new Map<string, TaskRecord[]>();
      const brokers = ['a#1', 'b#2', 'c#3'].map((name) => {
        const calls: FaultPlan<BrokerDriver> = faultPlan<BrokerDriver>();
        const puts: FaultPlan<LedgerDriver> = faultPlan<LedgerDriver>();
        for (const [method, faults] of Object.entries(FAULTS)) {
          for (const fault of faults) {
            const when = { times: Infinity, when: () => faulty && chance() < rate / faults.length };
            if (method === 'put' || method === 'get') puts.on(method, fault, when);
            else calls.on(method as 'send', fault, when);
          }
        }
        const memory = memoryLedger({ table, clock, clockErrorMs });
        const remembering: LedgerDriver = {
          ...memory,
          async put(...args): Promise<PutOutcome> {
            const outcome = await memory.put(...args);
            if (outcome.ok)
              histories.set(outcome.record.taskId, [...(histories.get(outcome.record.taskId) ?? []), outcome.record]);
            return outcome;
          },
        };
        const driver = faultyBroker(memoryBroker({ queue, clock, releaseDelayMs, staleHandle }), calls, clock);
        return { name, broker: createLeaseBroker({ driver, ledger: faultyLedger(remembering, puts, clock), clock }) };
      });
      const plain = createLeaseBroker({
        driver: memoryBroker({ queue, clock, releaseDelayMs }),
        ledger: memoryLedger({ table, clock, clockErrorMs }),
        clock,
      });
      const tasks = Array.from({ length: TASKS }, (_, index) => ({
        type: 'charge',
        input: index,
        taskId: `t-${index}`,
      }));
      const sent = await plain.enqueue(tasks);
      expect(sent.every(({ ok }) => ok)).toBe(true);
      const stop = new AbortController();
      const loops = brokers.map(async ({ name, broker }) => {
        while (!stop.signal.aborted) {
          await work(name, broker, clock, chance, () => !faulty);
          await sleep(clock, 300 + chance() * 700);
        }
      });
      await clock.advance(20_000);
      if (chance() < 0.5) {
        const cancelling = createTaskClient({ ledger: plain.ledger.driver, clock }).cancel('t-0');
        await clock.advance(1_000);
        await cancelling;
      }
      await clock.advance(40_000);
      faulty = false;
      // Until what was still on its way has landed.
      await clock.advance(15_000);
      const unfinished = (): readonly string[] => {
        const records = new Map(table.records.map((record) => [record.taskId, record]));
        const settled = tasks.filter(({ taskId }) => records.get(taskId)?.state === 'settled');
        const expected = [...tasks.map(({ taskId }) => taskId), ...settled.map(({ taskId }) => `${taskId}:next:0`)];
        return expected.filter((taskId) => !isTerminal(records.get(taskId)?.state ?? 'queued'));
      };
      // What is left is claimable within the longest delay + L, again and again until its attempts are used up.
      await clock.runUntil(() => unfinished().length === 0 && queue.messages.length === 0, 240_000);
      stop.abort();
      await clock.advance(30_000);
      await Promise.all(loops);
      expect({ unfinished: unfinished(), left: queue.messages.length }).toEqual({ unfinished: [], left: 0 });
      for (const [taskId, history] of histories) expect([taskId, ...wrong(history)]).toEqual([taskId]);
      for (const { taskId, state, deadLetterSent } of table.records) {
        ends[state as 'settled']++;
        const letters = queue.deadLetters.filter(({ attributes }) => attributes['leaseholdtaskid'] === taskId);
        // Whatever was dead-lettered lies there with its reason, and the record says so.
        const buried = state !== 'dead_lettered' || (letters.length > 0 && deadLetterSent !== undefined);
        expect({ taskId, buried }).toEqual({ taskId, buried: true });
      }
      await Promise.all([...brokers, { broker: plain }].map(({ broker }) => broker.drain()));
      vi.restoreAllMocks();
    }),
    { numRuns: 40 },
  );
  for (const [end, times] of Object.entries(ends)) expect({ end, seen: times > 0 }).toEqual({ end, seen: true });
});
