import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, isMet, type Figure, type Goal } from './figures.ts';
import type { Measured, Side, SideOptions } from './side.ts';
import { openSide } from './side-process.ts';
import type { ServerProcess } from './servers.ts';

/** What a row is given. */
export interface RowContext {
  readonly rounds: number;
  /** Says what is under way. */
  progress(text: string): void;
  /** The AWS servers, started when they are first asked for. */
  servers(): Promise<ServerProcess>;
}

/** A comparison, or a measurement against a bound. */
export interface Row {
  readonly id: string;
  run(context: RowContext): Promise<readonly Figure[]>;
}

/** Two sides, and how they are measured. */
export interface Race {
  readonly id: string;
  readonly title: string;
  readonly goal: Goal;
  readonly ours: string;
  readonly peer: string;
  readonly concurrency: number;
  /** Tasks a side works off in a round. */
  readonly tasks: number;
  /** Queue and table of a side; none for embedded stores. */
  readonly place?: (side: string) => Promise<Pick<SideOptions, 'servers' | 'queueUrl' | 'table'>>;
  readonly note?: string;
}

/** Rounds' worth of tasks before the first that counts: a worker lives for days, and what it is like in its first seconds says little. */
const WARM_UP = 4;

/** Runs both sides in turn, the order changing from round to round, each in a process of its own. */
export async function race(context: RowContext, { id, title, goal, tasks, ...parts }: Race): Promise<Figure> {
  const directories: string[] = [];
  const open = async (name: string): Promise<Side> => {
    const directory = mkdtempSync(join(tmpdir(), 'leasehold-bench-'));
    directories.push(directory);
    return openSide(name, { directory, concurrency: parts.concurrency, ...(await parts.place?.(name)) });
  };
  const sides = { ours: await open(parts.ours), peer: await open(parts.peer) };
  const results: Record<'ours' | 'peer', Measured[]> = { ours: [], peer: [] };
  try {
    for (let round = 0; round <= context.rounds; round++) {
      const count = round === 0 ? WARM_UP * tasks : tasks;
      for (const which of round % 2 === 0 ? (['ours', 'peer'] as const) : (['peer', 'ours'] as const)) {
        context.progress(
          round === 0
            ? `${id}: warming up ${parts[which]}`
            : `${id}: round ${round} of ${context.rounds}, ${parts[which]}`,
        );
        await sides[which].fill(count);
        const result = await sides[which].run(count);
        if (round > 0) results[which].push(result);
      }
    }
  } finally {
    await Promise.allSettled([sides.ours.close(), sides.peer.close()]);
    for (const directory of directories) rmSync(directory, { recursive: true });
  }
  const rates = (which: 'ours' | 'peer'): number[] =>
    results[which].map(({ tasks: done, wallMs }) => (done / wallMs) * 1_000);
  const cpu = (which: 'ours' | 'peer'): number[] =>
    results[which].map(({ tasks: done, cpuMs }) => (cpuMs / done) * 1_000);
  const compared = compare(rates('ours'), rates('peer'));
  const micros = compare(cpu('ours'), cpu('peer'));
  return {
    id,
    title,
    unit: 'tasks/s',
    ...compared,
    goal,
    met: isMet(compared.ratio, goal),
    cpuMicros: { ours: micros.ours, peer: micros.peer },
    ...(parts.note !== undefined && { note: parts.note }),
  };
}
