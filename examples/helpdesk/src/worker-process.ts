// A worker in a process of its own. Started, killed, stopped and continued by the demo.
import { createLeaseBroker, subscribe } from '@leasehold/core';
import { createWorker } from '@leasehold/worker';
import { startOptions, tellParent, type WorkerOptions } from './child-messages.ts';
import { openStores, PROFILES } from './profiles.ts';
import { serviceClient } from './service-client.ts';
import { helpdeskTasks } from './tasks.ts';

async function main(): Promise<void> {
  const { place, url, name } = startOptions() as WorkerOptions;
  subscribe((event) => void tellParent({ kind: 'event', event }));
  const broker = createLeaseBroker(await openStores(place));
  const worker = createWorker({
    broker,
    tasks: helpdeskTasks(serviceClient(url, String(process.pid)), PROFILES[place.profile].lease),
    concurrency: 4,
    poll: '2s',
    drain: '5s',
    service: name,
    // Its warnings are the demo's to show: a worker that was stopped has some when it goes on.
    logger: { warn: (_fields, text) => void tellParent({ kind: 'warning', text }) },
  });
  // Without the demo there is nobody to work for; what is held lapses.
  process.on('disconnect', () => process.exit(0));
  await tellParent({ kind: 'ready' });
  await worker.run();
  await broker.close();
  await tellParent({ kind: 'bye' });
  process.exit(0);
}

void main();
