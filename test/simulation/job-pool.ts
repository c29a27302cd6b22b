import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Told } from './job.ts';
import { both, MOST_FAILURES, NOTHING, type Stretch, type Tally } from './tally.ts';

const JOB = fileURLToPath(new URL('./job.ts', import.meta.url));
/** Room for many schedules between two collections; and a collector without threads of its own, since the other cores have their own job. */
const MEMORY = ['--max-semi-space-size=16', '--min-semi-space-size=16', '--single-threaded-gc'];
const STRETCH = 200;

/** How far the jobs have come. */
export interface Progress {
  readonly tally: Tally;
  /** Processor time of all jobs, in milliseconds. */
  readonly cpuMs: number;
  /** The memory of the largest, in bytes. */
  readonly mostRss: number;
}

/**
 * Runs schedules in several processes, each of which takes the next stretch of seeds when it is done with one.
 *
 * @throws Error when a process ends by itself, naming the command that runs its stretch alone.
 */
export async function exploreInJobs(
  all: Stretch & { readonly jobs: number; readonly plant?: number },
  told: (progress: Progress) => void,
): Promise<Progress> {
  const end = all.from + all.schedules;
  // The last stretches are short, so that all jobs end at about the same time.
  const size = (left: number): number => Math.max(1, Math.min(STRETCH, Math.ceil(left / (2 * all.jobs))));
  const cpu = Array.from({ length: all.jobs }, () => 0);
  let next = all.from;
  let broken = false;
  let progress: Progress = { tally: NOTHING, cpuMs: 0, mostRss: 0 };
  const take = (): Stretch | undefined => {
    if (broken || next >= end || progress.tally.failed.length >= MOST_FAILURES) return undefined;
    const stretch = { from: next, schedules: Math.min(size(end - next), end - next) };
    next += stretch.schedules;
    return stretch;
  };
  const runJob = (index: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const job = fork(JOB, all.plant === undefined ? [] : [String(all.plant)], {
        execArgv: [...process.execArgv, ...MEMORY],
      });
      let at: Stretch | undefined;
      const goOn = (): void => {
        at = take();
        if (at) job.send(at);
        else job.disconnect();
      };
      job.on('message', ({ tally, cpuMs, rss }: Told) => {
        cpu[index] = cpuMs;
        progress = {
          tally: both(progress.tally, tally),
          cpuMs: cpu.reduce((sum, one) => sum + one, 0),
          mostRss: Math.max(progress.mostRss, rss),
        };
        told(progress);
        goOn();
      });
      job.on('exit', (code, signal) => {
        if (at === undefined) return resolve();
        broken = true;
        const range = `--from ${at.from} --schedules ${at.schedules}`;
        reject(
          new Error(`A job ended (${signal ?? code}) within its seeds. Alone: npm run simulate -- ${range} --jobs 1`),
        );
      });
      goOn();
    });
  await Promise.all(cpu.map((_, index) => runJob(index)));
  return progress;
}
