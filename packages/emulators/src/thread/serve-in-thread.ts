import { parentPort, workerData } from 'node:worker_threads';
import { ThreadClock } from './thread-clock.ts';
import type { ThreadAsk, ThreadSays, ThreadStart } from './thread-messages.ts';

/** Starts a server in this thread once the thread's time is ours, and answers the main thread. `start` imports the server itself. */
export async function serveInThread(start: (clock: ThreadClock) => Promise<number>): Promise<void> {
  const { parked, now } = workerData as ThreadStart;
  const clock = new ThreadClock(parked, now);
  const say = (what: ThreadSays): void => parentPort?.postMessage(what, []);
  const port = await start(clock);
  parentPort?.on('message', ({ id, now: told }: ThreadAsk) => {
    if (told === undefined) say({ id });
    else void clock.move(told).then(() => say({ id }));
  });
  say({ port });
}
