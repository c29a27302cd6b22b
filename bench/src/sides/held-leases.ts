import { createLeaseBroker } from '@leasehold/core';
import { createWorker, defineTask } from '@leasehold/worker';
import { measured, until, type Side, type SideOptions } from '../side.ts';
import { echoLedger, syntheticQueue } from '../synthetic-drivers.ts';

/** Short tasks run ten at a time, beside as many held leases as fill `concurrency`. Queue and ledger answer at once and keep nothing. */
export async function openHeldLeases({ concurrency }: SideOptions): Promise<Side> {
  const SHORT = 10;
  const queue = syntheticQueue(0);
  const broker = createLeaseBroker({ driver: queue.driver, ledger: echoLedger(0) });
  let letGo: () => void;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  let held = 0;
  let left = 0;
  let finished = (): void => undefined;
  const long = defineTask({
    type: 'long',
    async run() {
      held++;
      await gate;
    },
  });
  const short = defineTask({
    type: 'short',
    async run() {
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (--left === 0) finished();
    },
  });
  const worker = createWorker({ broker, tasks: [long, short], concurrency, signals: false, poll: '1s' });
  queue.waiting['long'] = concurrency - SHORT;
  const running = worker.run();
  await until(() => held >= concurrency - SHORT);
  return {
    fill: async () => undefined,
    run: (count) =>
      measured(count, async () => {
        left = count;
        const all = new Promise<void>((resolve) => (finished = resolve));
        queue.waiting['short'] = count;
        await all;
        await broker.drain();
      }),
    async close() {
      letGo();
      await worker.stop();
      await running;
      await broker.close();
    },
  };
}
