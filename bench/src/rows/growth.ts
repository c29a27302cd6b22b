import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, isMet, type Figure } from '../figures.ts';
import type { Row, RowContext } from '../row.ts';
import type { Measured, Side } from '../side.ts';
import { openSide } from '../side-process.ts';

interface Growth {
  readonly id: string;
  readonly title: string;
  readonly side: string;
  readonly small: number;
  readonly large: number;
  readonly tasks: number;
  readonly of: (measured: Measured) => number;
}

/** Cost with little and with much of something, in rounds that alternate; `ours` is with much, `peer` with little. */
async function grow(context: RowContext, growth: Growth): Promise<Figure> {
  const directories: string[] = [];
  const open = (concurrency: number): Promise<Side> => {
    const directory = mkdtempSync(join(tmpdir(), 'leasehold-bench-'));
    directories.push(directory);
    return openSide(growth.side, { directory, concurrency });
  };
  context.progress(`${growth.id}: filling`);
  const sides = { small: await open(growth.small), large: await open(growth.large) };
  const costs: Record<'small' | 'large', number[]> = { small: [], large: [] };
  try {
    for (let round = 0; round <= context.rounds; round++) {
      for (const which of round % 2 === 0 ? (['small', 'large'] as const) : (['large', 'small'] as const)) {
        context.progress(`${growth.id}: round ${round} of ${context.rounds}, ${growth[which]}`);
        const result = await sides[which].run(growth.tasks);
        if (round > 0) costs[which].push((growth.of(result) / result.tasks) * 1_000);
      }
    }
  } finally {
    await Promise.allSettled([sides.small.close(), sides.large.close()]);
    for (const directory of directories) rmSync(directory, { recursive: true });
  }
  const goal = { atMost: 1.1 };
  const compared = compare(costs.large, costs.small);
  return { id: growth.id, title: growth.title, unit: 'µs', ...compared, goal, met: isMet(compared.ratio, goal) };
}

/** What more leases, and more stored records, add to the cost of a task. */
export const growth: Row = {
  id: 'growth',
  async run(context) {
    return [
      await grow(context, {
        id: 'growth-leases',
        title: 'CPU of a task with 10,000 leases held / with 10',
        side: 'held-leases',
        small: 10,
        large: 10_000,
        tasks: 40_000,
        of: ({ cpuMs }) => cpuMs,
      }),
      await grow(context, {
        id: 'growth-records',
        title: 'a claim on SQLite beside 1,000,000 records / beside 1,000',
        side: 'sqlite-claims',
        small: 1_000,
        large: 1_000_000,
        tasks: 4_000,
        of: ({ wallMs }) => wallMs,
      }),
    ];
  },
};
