import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLeaseBroker } from '@leasehold/core';
import { memoryLedger } from '@leasehold/core/memory';
import { createWorker, defineTask } from '@leasehold/worker';
import { machine, type Machine, type MachineQueue } from './machine.ts';

let one: Machine;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());

/** Calls per task of each kind, from an enqueued queue to an empty one. */
async function callsPerTask(count: number, options: MachineQueue): Promise<Readonly<Record<string, number>>> {
  const queue = await one.queue(options);
  const broker = createLeaseBroker({
    driver: queue.driver(),
    ledger: memoryLedger({ clock: one.clock }),
    clock: one.clock,
  });
  const until = async <T>(work: Promise<T>): Promise<T> => {
    let over = false;
    const done = (): void => void (over = true);
    work.then(done, done);
    expect(await one.time.until(() => over, 120_000)).toBe(true);
    return work;
  };
  one.server.faults.reset();
  const tasks = Array.from({ length: count }, (_, index) => ({ type: 'quick', input: {}, taskId: `task ${index}` }));
  await until(broker.enqueue(tasks));
  const quick = defineTask({ type: 'quick', lease: '30s', run: () => 'done' });
  const worker = createWorker({ broker, tasks: [quick], concurrency: 20, signals: false, poll: '10s' });
  const running = worker.run();
  expect(await one.time.until(() => worker.stats.outcomes.settled === count, 120_000)).toBe(true);
  const empty = one.server.faults.calls('ReceiveMessage');
  await until(worker.stop());
  await running;
  const found: Record<string, number> = {};
  for (const { operation } of one.server.faults.log) found[operation] = (found[operation] ?? 0) + 1 / count;
  // The polls of the queue once it is empty are no task's.
  found['ReceiveMessage'] = empty / count;
  await queue.dispose();
  return found;
}

describe('calls per task, of a worker with room for 20', () => {
  test('a standard queue: a tenth of a send, of a receive and of a delete; not one more', async () => {
    const calls = await callsPerTask(200, {});
    expect(calls['SendMessageBatch']).toBeCloseTo(0.1, 5);
    expect(calls['ReceiveMessage']).toBeLessThan(0.11);
    expect(calls['DeleteMessageBatch']).toBeLessThan(0.11);
    expect(calls['ChangeMessageVisibilityBatch'] ?? 0).toBe(0);
    expect(Object.keys(calls).sort()).toEqual([
      'DeleteMessageBatch',
      'GetQueueAttributes',
      'ReceiveMessage',
      'SendMessageBatch',
    ]);
  });

  test('a FIFO queue: a receive each, since messages of a group come one at a time', async () => {
    const calls = await callsPerTask(50, { fifo: true });
    expect(calls['SendMessageBatch']).toBeCloseTo(0.1, 5);
    expect(calls['ReceiveMessage']).toBeLessThan(1.05);
  });
});
