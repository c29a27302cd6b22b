import { explore, runnerOf } from './explore.ts';
import type { Stretch, Tally } from './tally.ts';

/** What a job tells after each stretch. */
export interface Told {
  readonly tally: Tally;
  /** Processor time of this job so far, in milliseconds. */
  readonly cpuMs: number;
  /** Its memory now, in bytes. */
  readonly rss: number;
}

/** One of several processes that share the seeds: it runs the stretches that it is sent, until it is let go. */
async function work(): Promise<void> {
  const plant = process.argv[2] === undefined ? undefined : Number(process.argv[2]);
  const run = await runnerOf(plant);
  process.on('message', (stretch: Stretch) => {
    void explore(stretch, run).then((tally) => {
      const { user, system } = process.cpuUsage();
      process.send?.({ tally, cpuMs: (user + system) / 1_000, rss: process.memoryUsage.rss() } satisfies Told);
    });
  });
  process.on('disconnect', () => process.exit());
}

void work();
