import { isMet, type Figure, type Goal } from '../figures.ts';
import type { LeasesResult } from '../leases-main.ts';
import type { Row } from '../row.ts';
import { startChild } from '../side-process.ts';

const LEASES = 10_000;
/** A tenth of the default lease: ten times the beats, and a tenth of the time for each. */
const LEASE_MS = 9_000;
const LENGTHS = 3;

/** Ten thousand leases in one process. */
export const leases: Row = {
  id: 'leases-10k',
  async run(context) {
    context.progress(
      `leases-10k: holding ${LEASES} leases of ${LEASE_MS / 1_000} s for ${(LENGTHS * LEASE_MS) / 1_000} s`,
    );
    const child = startChild('./leases-main.ts', ['--expose-gc']);
    const held = (await child.ask('hold', LEASES, LEASE_MS, LENGTHS)) as LeasesResult;
    await child.close();
    context.progress(`leases-10k: heap of ${LEASES} leases`);
    const other = startChild('./leases-main.ts', ['--expose-gc']);
    const heapBytes = (await other.ask('heap', LEASES, 2)) as number;
    await other.close();
    const figure = (id: string, title: string, unit: string, value: number, goal: Goal, note: string): Figure => ({
      id,
      title,
      unit,
      ours: value,
      ratio: value,
      goal,
      met: isMet(value, goal),
      note,
    });
    const late = held.notHeld + (held.leases === LEASES ? 0 : LEASES - held.leases);
    return [
      figure(
        'leases-10k-late',
        'beats not confirmed before the margin, of all beats of 10,000 leases (L 9 s, H 3 s)',
        'beats',
        late,
        { atMost: 0 },
        `${held.beats} beats; the latest went out ${held.lateMs.toFixed(0)} ms late; never less than ${held.leastLeftMs.toFixed(0)} ms left of 9,000, margin ${held.marginMs}; ${(held.cpuShare * 100).toFixed(0)} % of a core`,
      ),
      figure(
        'leases-10k-calls',
        'broker calls per beat of all leases, over leases / 10',
        'x',
        (held.extendCalls * 10) / held.extended,
        { atMost: 1.05 },
        `${held.extendCalls} calls for ${held.extended} renewals`,
      ),
      figure(
        'leases-10k-heap',
        'heap of a held lease',
        'bytes',
        heapBytes,
        { atMost: 4_096 },
        'record, delivery, abort controller, timers and the waiting handler, between beats; clock moved by hand',
      ),
    ];
  },
};
