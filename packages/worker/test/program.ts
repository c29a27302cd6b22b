import { createLeaseBroker, sleep, systemClock } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { createWorker, defineTask } from '@leasehold/worker';

/** A program of its own for `process.test.ts`: one worker, one task that ends soon after it is asked to stop, or never. */
async function main(manner: string | undefined): Promise<void> {
  const clock = systemClock();
  const broker = createLeaseBroker({ driver: memoryBroker(), ledger: memoryLedger(), clock });
  const task = defineTask({
    type: 'task',
    async run() {
      process.stdout.write('running\n');
      if (manner === 'deaf') await new Promise(() => undefined);
      await sleep(clock, 300);
      process.stdout.write('handled\n');
    },
  });
  const worker = createWorker({
    broker,
    tasks: [task],
    drain: manner === 'deaf' ? '200ms' : '10s',
    abortGrace: '100ms',
  });
  await broker.enqueue([{ type: 'task', input: {} }]);
  const report = await worker.run();
  process.stdout.write(`${JSON.stringify({ ...report, listeners: process.listenerCount('SIGTERM') })}\n`);
}

void main(process.argv[2]);
