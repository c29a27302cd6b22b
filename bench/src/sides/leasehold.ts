import type { LeaseBroker } from '@leasehold/core';
import { createWorker, defineTask } from '@leasehold/worker';
import { measured, until, type Measured, type Side } from '../side.ts';

const TYPE = 'bench';
/** Enqueued by one call. */
const AT_ONCE = 100;

/** This project as a side: a worker with an empty handler over `broker`. */
export function leaseholdSide(broker: LeaseBroker, concurrency: number): Side {
  let filled = 0;
  return {
    async fill(count) {
      for (let sent = 0; sent < count; sent += AT_ONCE) {
        const tasks = Array.from({ length: Math.min(AT_ONCE, count - sent) }, () => ({
          type: TYPE,
          input: { n: filled++ },
        }));
        const outcomes = await broker.enqueue(tasks);
        if (!outcomes.every(({ ok }) => ok)) throw new Error('not all tasks were enqueued');
      }
    },
    async run(count): Promise<Measured> {
      let left = count;
      let lastStarted: () => void;
      const allStarted = new Promise<void>((resolve) => (lastStarted = resolve));
      const task = defineTask({
        type: TYPE,
        run() {
          if (--left === 0) lastStarted();
        },
      });
      const worker = createWorker({ broker, tasks: [task], concurrency, signals: false, poll: '1s' });
      let running: Promise<unknown> | undefined;
      const result = await measured(count, async () => {
        running = worker.run();
        await allStarted;
        // Settled is not done: the message has to be acknowledged too.
        await until(() => worker.stats.outcomes.settled >= count);
        await broker.drain();
      });
      await worker.stop();
      await running;
      const { settled } = worker.stats.outcomes;
      if (settled !== count || worker.stats.claimed !== count)
        throw new Error(`${settled} of ${count} settled, ${worker.stats.claimed} claimed`);
      return result;
    },
    close: () => broker.close(),
  };
}
