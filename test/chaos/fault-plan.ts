import { Seeded } from '../simulation/seeded.ts';

export const FAULT_KINDS = ['kill', 'stop', 'clock', 'restart', 'cut', 'delay'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

/** What a fault waits for: a worker about to send an effect's request; the receiver having committed it and not yet answered. */
export type Aim = 'any' | 'calling' | 'stored';

/** One fault of the plan. `at` counts from the beginning of the run; a place has one fault at a time, so a fault may come later. */
export type PlannedFault = { readonly at: number; readonly place: string } & (
  | { readonly kind: 'kill'; readonly aim: Aim; readonly downMs: number }
  | { readonly kind: 'stop'; readonly aim: Aim; readonly ms: number }
  | { readonly kind: 'clock'; readonly shiftMs: number }
  | { readonly kind: 'restart' }
  | { readonly kind: 'cut'; readonly link: string; readonly ms: number }
  | { readonly kind: 'delay'; readonly link: string; readonly ms: number; readonly byMs: number }
);

export interface FaultPlanOptions {
  readonly seed: number;
  readonly windowMs: number;
  readonly leaseMs: number;
  readonly workers: readonly string[];
  /** What lies behind a network, seen from a worker. */
  readonly links: readonly string[];
  /** Servers that keep their data, and so may be killed. */
  readonly servers: readonly string[];
  readonly kinds: readonly FaultKind[];
}

const SHIFT_MS = 600_000;
const DEPLOY_EVERY_MS = 800;
const KILL_AIMS: readonly Aim[] = ['any', 'any', 'calling', 'calling', 'stored'];
const STOP_AIMS: readonly Aim[] = ['any', 'calling', 'calling'];

/** Plans the faults of a run: the same seed and numbers give the same plan. */
export function planFaults(options: FaultPlanOptions): readonly PlannedFault[] {
  // Another sequence than the tasks have of the same seed.
  const chance = new Seeded(options.seed ^ 0x5eed);
  const { windowMs, workers, kinds } = options;
  const planned: PlannedFault[] = [];
  const wanted = (weighted: readonly FaultKind[]): readonly FaultKind[] =>
    weighted.filter((kind) => kinds.includes(kind));
  const fill = (
    place: string,
    lots: readonly FaultKind[],
    first: readonly FaultKind[],
    gap: readonly [number, number],
  ): void => {
    if (lots.length === 0) return;
    const next = [...first];
    for (let at = chance.between(800, 2_500); at < windowMs;) {
      const fault = faultOf(next.shift() ?? chance.pick(lots), place, at, options, chance);
      planned.push(fault);
      at += heldMs(fault) + chance.between(...gap);
    }
  };
  const all = wanted(FAULT_KINDS);
  for (const [index, place] of workers.entries()) {
    // Between them the workers begin with every kind.
    const first = [all[index % all.length], all[(index + workers.length) % all.length]].filter(
      (kind) => kind !== undefined,
    );
    fill(
      place,
      wanted(['kill', 'kill', 'kill', 'stop', 'stop', 'stop', 'clock', 'clock', 'restart', 'cut', 'cut', 'delay']),
      first,
      [2_500, 8_000],
    );
  }
  fill('receiver', wanted(['kill', 'kill', 'stop', 'clock', 'restart']), wanted(['kill']), [5_000, 14_000]);
  fill('producer', wanted(['kill', 'clock']), wanted(['clock', 'kill']), [6_000, 18_000]);
  for (const server of options.servers) fill(server, wanted(['kill', 'restart']), [], [20_000, 40_000]);
  if (kinds.includes('restart')) {
    // A rolling deploy: every worker is replaced, one after the other.
    const start = Math.round(windowMs * 0.45);
    for (const [index, place] of workers.entries())
      planned.push({ at: start + index * DEPLOY_EVERY_MS, place, kind: 'restart' });
  }
  return planned.toSorted((one, other) => one.at - other.at);
}

function faultOf(kind: FaultKind, place: string, at: number, options: FaultPlanOptions, chance: Seeded): PlannedFault {
  const { leaseMs, links } = options;
  const isWorker = options.workers.includes(place);
  const aim = (aims: readonly Aim[]): Aim => (isWorker ? chance.pick(aims) : 'any');
  switch (kind) {
    case 'kill':
      return { at, place, kind, aim: aim(KILL_AIMS), downMs: chance.between(100, isWorker ? 2_500 : 1_500) };
    case 'stop':
      // Mostly beyond the lease; sometimes a pause that the lease survives.
      return {
        at,
        place,
        kind,
        aim: aim(STOP_AIMS),
        ms: chance.chance(0.75) ? leaseMs + chance.between(500, leaseMs) : chance.between(200, leaseMs),
      };
    case 'clock':
      return { at, place, kind, shiftMs: chance.pick([-SHIFT_MS, SHIFT_MS]) };
    case 'restart':
      return { at, place, kind };
    case 'cut':
      return { at, place, kind, link: chance.pick(links), ms: chance.between(500, Math.round(leaseMs * 1.6)) };
    case 'delay':
      return {
        at,
        place,
        kind,
        link: chance.pick(links),
        ms: chance.between(1_000, leaseMs),
        byMs: chance.between(50, Math.round(leaseMs / 3)),
      };
  }
}

function heldMs(fault: PlannedFault): number {
  if ('ms' in fault) return fault.ms;
  return fault.kind === 'kill' ? fault.downMs : 0;
}
