import { Seeded } from '../simulation/seeded.ts';

export const FAULT_KINDS = ['kill', 'stop', 'clock', 'restart', 'cut', 'delay'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

/** What a fault waits for: a worker about to send an effect's request; the receiver having committed it and not yet answered. */
type Aim = 'any' | 'calling' | 'stored';

/** One fault of the plan. `at` counts from the beginning of the run; a place has one fault at a time, so a fault may come later. */
export type PlannedFault = { readonly at: number; readonly place: string } & (
  | { readonly kind: 'kill'; readonly aim: Aim; readonly downMs: number }
  | { readonly kind: 'stop'; readonly aim: Aim; readonly ms: number }
  | { readonly kind: 'clock'; readonly shiftMs: number }
  | { readonly kind: 'restart' }
  /** `reset`: connections end and none is accepted; `silent`: nothing passes and nobody is told. */
  | { readonly kind: 'cut'; readonly link: string; readonly how: 'reset' | 'silent'; readonly ms: number }
  | { readonly kind: 'delay'; readonly link: string; readonly ms: number; readonly byMs: number }
);

export interface FaultPlanOptions {
  readonly seed: number;
  readonly windowMs: number;
  readonly leaseMs: number;
  readonly workers: readonly string[];
  /** What lies behind a network, by the place that looks at it; every worker sees the same. */
  readonly links: Readonly<Record<'worker' | 'receiver' | 'producer', readonly string[]>>;
  /** Whether broker and ledger are servers in a process of their own. They keep everything in memory, so they are only ever stopped. */
  readonly servers: boolean;
  readonly kinds: readonly FaultKind[];
}

const SHIFT_MS = 600_000;
const DEPLOY_EVERY_MS = 800;
const KILL_AIMS: readonly Aim[] = ['any', 'any', 'calling', 'calling', 'stored'];
const STOP_AIMS: readonly Aim[] = ['any', 'calling', 'calling'];

/** What may befall the processes of a kind of place, as often as it stands here, and how long such a place is left alone in between. */
interface Lots {
  readonly of: 'worker' | 'receiver' | 'producer' | 'servers';
  readonly kinds: readonly FaultKind[];
  /** What comes first. */
  readonly first: readonly FaultKind[];
  readonly gapMs: readonly [number, number];
}

const WORKER: Lots = {
  of: 'worker',
  kinds: ['kill', 'kill', 'kill', 'stop', 'stop', 'stop', 'clock', 'clock', 'restart', 'cut', 'cut', 'delay'],
  first: [],
  gapMs: [2_500, 8_000],
};
const OTHERS: readonly Lots[] = [
  {
    of: 'receiver',
    kinds: ['kill', 'kill', 'stop', 'clock', 'restart', 'cut', 'delay'],
    first: ['kill'],
    gapMs: [7_000, 18_000],
  },
  { of: 'producer', kinds: ['kill', 'clock', 'cut'], first: ['clock', 'kill'], gapMs: [6_000, 18_000] },
  { of: 'servers', kinds: ['stop'], first: [], gapMs: [15_000, 40_000] },
];

/** Plans the faults of a run: the same seed and numbers give the same plan. */
export function planFaults(options: FaultPlanOptions): readonly PlannedFault[] {
  // Another sequence than the tasks have of the same seed.
  const chance = new Seeded(options.seed ^ 0x5eed);
  const { windowMs, workers, kinds } = options;
  const planned: PlannedFault[] = [];
  const fill = (place: string, lots: Lots): void => {
    const has = (kind: FaultKind): boolean =>
      kinds.includes(kind) && ((kind !== 'cut' && kind !== 'delay') || linksOf(lots.of, options).length > 0);
    const weighted = lots.kinds.filter(has);
    const next = lots.first.filter(has);
    if (weighted.length === 0) return;
    for (let at = chance.between(800, 2_500); at < windowMs;) {
      const fault = faultOf(next.shift() ?? chance.pick(weighted), place, at, lots.of, options, chance);
      planned.push(fault);
      at += heldMs(fault) + chance.between(...lots.gapMs);
    }
  };
  const all = FAULT_KINDS.filter((kind) => kinds.includes(kind));
  for (const [index, place] of workers.entries()) {
    // Between them the workers begin with every kind.
    const first = [index, index + workers.length].flatMap((at) => all[at % all.length] ?? []);
    fill(place, { ...WORKER, first });
  }
  for (const lots of OTHERS) if (lots.of !== 'servers' || options.servers) fill(lots.of, lots);
  if (kinds.includes('restart')) {
    // A rolling deploy: every worker is replaced, one after the other.
    const start = Math.round(windowMs * 0.45);
    for (const [index, place] of workers.entries())
      planned.push({ at: start + index * DEPLOY_EVERY_MS, place, kind: 'restart' });
  }
  return planned.toSorted((one, other) => one.at - other.at);
}

function linksOf(of: Lots['of'], { links }: FaultPlanOptions): readonly string[] {
  return of === 'servers' ? [] : links[of];
}

function faultOf(
  kind: FaultKind,
  place: string,
  at: number,
  of: Lots['of'],
  options: FaultPlanOptions,
  chance: Seeded,
): PlannedFault {
  const { leaseMs } = options;
  const isWorker = of === 'worker';
  const aim = (aims: readonly Aim[]): Aim => (isWorker ? chance.pick(aims) : 'any');
  const link = (): string => chance.pick(linksOf(of, options));
  switch (kind) {
    case 'kill':
      return { at, place, kind, aim: aim(KILL_AIMS), downMs: chance.between(100, isWorker ? 2_500 : 1_500) };
    case 'stop': {
      // Mostly beyond the lease; sometimes a pause that the lease survives. Servers that stand still end everybody's.
      const stopAim = aim(STOP_AIMS);
      const isBeyond = stopAim !== 'any' || chance.chance(of === 'servers' ? 0.3 : 0.75);
      const ms = isBeyond ? leaseMs + chance.between(1_000, leaseMs) : chance.between(200, leaseMs);
      return { at, place, kind, aim: stopAim, ms };
    }
    case 'clock':
      return { at, place, kind, shiftMs: chance.pick([-SHIFT_MS, SHIFT_MS]) };
    case 'restart':
      return { at, place, kind };
    case 'cut': {
      const how = chance.pick(['silent', 'silent', 'reset'] as const);
      return { at, place, kind, link: link(), how, ms: chance.between(500, Math.round(leaseMs * 1.6)) };
    }
    case 'delay': {
      const byMs = chance.between(50, Math.round(leaseMs / 3));
      return { at, place, kind, link: link(), ms: chance.between(1_000, leaseMs), byMs };
    }
  }
}

function heldMs(fault: PlannedFault): number {
  if ('ms' in fault) return fault.ms;
  return fault.kind === 'kill' ? fault.downMs : 0;
}
