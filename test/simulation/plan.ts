import type { Fate } from '../../packages/worker/src/testing/process.ts';
import { Seeded } from './seeded.ts';

/** What a task does. */
export const KINDS = [
  'plain',
  'deaf',
  'effect',
  'effect by function',
  'two effects',
  'follow-up',
  'checkpoint',
  'hand-off',
  'retry',
  'exhausted',
  'permanent',
  'permanent after effect',
  'broken receipt',
  'commit fails',
  'human',
  'swallows',
  'poison',
] as const;
export type Kind = (typeof KINDS)[number];

interface PlannedTask {
  readonly id: string;
  readonly kind: Kind;
  readonly at: number;
  /** How long the handler works besides its calls, in milliseconds. */
  readonly workMs: number;
  readonly approve: boolean;
}

export type Link = 'ledger' | 'broker' | 'receiver';

/** Something that befalls a schedule. `slot`: the process, by number; whoever was started in its place is meant too. */
export type PlannedFault =
  | { readonly what: 'kill'; readonly at: number; readonly slot: number; readonly restartMs: number }
  | { readonly what: 'pause'; readonly at: number; readonly slot: number; readonly forMs: number }
  | { readonly what: 'drain'; readonly at: number; readonly slot: number }
  | { readonly what: 'step'; readonly at: number; readonly slot: number; readonly byMs: number }
  | {
      readonly what: 'partition';
      readonly at: number;
      readonly slot: number;
      readonly link: Link;
      readonly forMs: number;
      readonly way: 'requests' | 'answers' | 'both';
    }
  | {
      readonly what: 'throttle';
      readonly at: number;
      readonly slot: number;
      readonly link: Link;
      readonly forMs: number;
    }
  /** Befalls the nth call of the process over that link (of that method, if given). */
  | {
      readonly what: 'call';
      readonly slot: number;
      readonly link: Link;
      readonly method?: string;
      readonly nth: number;
      readonly fate: 'request lost' | 'answer lost' | 'late' | 'slow answer';
      readonly ms: number;
    }
  /** The process is killed or stands still at its nth call. */
  | {
      readonly what: 'strike';
      readonly slot: number;
      readonly link: Link;
      readonly nth: number;
      readonly fate: Fate;
      readonly forMs: number;
    }
  | { readonly what: 'duplicate'; readonly at: number; readonly task: number }
  | { readonly what: 'cancel'; readonly at: number; readonly task: number }
  | { readonly what: 'redrive'; readonly at: number };

/** All that a schedule is made of. */
export interface Plan {
  readonly seed: number;
  readonly processes: number;
  readonly tasks: readonly PlannedTask[];
  readonly faults: readonly PlannedFault[];
  readonly staleHandle: 'silent' | 'detected';
  readonly releaseDelayMs: number;
  readonly clockErrorMs: number;
  /** How far each process's wall clock is off. */
  readonly skewMs: readonly number[];
}

/** Faults begin within this time; by its end they are over. Virtual milliseconds. */
export const FAULTY_MS = 60_000;
const METHODS = {
  ledger: ['put', 'put', 'put', 'get', undefined],
  broker: ['receive', 'extend', 'complete', 'release', 'send', 'reject', undefined],
  receiver: [undefined],
} as const;

/** What a seed stands for. */
export function planOf(seed: number): Plan {
  const random = new Seeded(seed);
  const processes = random.between(2, 3);
  const tasks = Array.from({ length: random.pick([1, 1, 1, 2, 3]) }, (_, index): PlannedTask => ({
    id: `t${index}`,
    kind: random.pick(KINDS),
    at: random.pick([0, 0, random.below(10_000)]),
    workMs: random.pick([0, random.below(2_000), random.below(25_000)]),
    approve: random.chance(0.7),
  }));
  // A third bears little that goes wrong, and is to end as if nothing had.
  const faults = random.chance(0.33)
    ? mildFaults(random, processes, tasks.length)
    : Array.from({ length: random.pick([1, 2, 2, 3, 3, 4, 6, 8]) }, () => faultOf(random, processes, tasks.length));
  return {
    seed,
    processes,
    tasks,
    faults,
    staleHandle: random.pick(['silent', 'detected']),
    releaseDelayMs: random.pick([0, 2_000, 600_000]),
    clockErrorMs: random.pick([0, 0, 100]),
    skewMs: Array.from({ length: processes }, () => random.pick([0, 0, 3_600_000, -60_000])),
  };
}

function mildFaults(random: Seeded, processes: number, tasks: number): readonly PlannedFault[] {
  const slot = random.below(processes);
  const fate = random.pick(['request lost', 'answer lost', 'answer lost', 'late', 'slow answer'] as const);
  const call: PlannedFault = {
    what: 'call',
    slot,
    link: 'ledger',
    method: 'put',
    nth: random.between(1, 5),
    fate,
    ms: random.between(500, 12_000),
  };
  const duplicate: PlannedFault = { what: 'duplicate', at: random.below(8_000), task: random.below(tasks) };
  const step: PlannedFault = { what: 'step', at: random.below(8_000), slot, byMs: random.pick([-60_000, 60_000]) };
  return [
    ...(random.chance(0.8) ? [call] : []),
    ...(random.chance(0.3) ? [duplicate] : []),
    ...(random.chance(0.2) ? [step] : []),
  ];
}

function faultOf(random: Seeded, processes: number, tasks: number): PlannedFault {
  const at = random.below(random.pick([3_000, 15_000, 40_000]));
  const slot = random.below(processes);
  const link = random.pick(['ledger', 'ledger', 'broker', 'receiver'] as const);
  const span = (): number =>
    random.pick([random.between(100, 2_000), random.between(2_000, 9_000), random.between(9_000, 20_000)]);
  const nth = random.pick([random.between(1, 4), random.between(1, 12)]);
  switch (random.below(15)) {
    case 0:
      return { what: 'kill', at, slot, restartMs: random.between(1, 15_000) };
    case 1:
      return { what: 'pause', at, slot, forMs: span() };
    case 2:
      return { what: 'drain', at, slot };
    case 3:
      return { what: 'step', at, slot, byMs: random.pick([-3_600_000, -500, 500, 1_500, 60_000, 3_600_000]) };
    case 4:
      return { what: 'partition', at, slot, link, forMs: span(), way: random.pick(['requests', 'answers', 'both']) };
    case 5:
      return { what: 'throttle', at, slot, link, forMs: span() };
    case 6:
    case 7:
    case 8:
    case 9: {
      const method = random.pick<string | undefined>(METHODS[link]);
      const fate = random.pick(['request lost', 'answer lost', 'late', 'slow answer'] as const);
      return { what: 'call', slot, link, ...(method !== undefined && { method }), nth, fate, ms: span() };
    }
    case 10:
    case 11:
      return {
        what: 'strike',
        slot,
        link,
        nth,
        fate: random.pick(['killed before', 'killed after', 'paused before', 'paused after'] as const),
        forMs: random.pick([span(), random.between(6_900, 9_100)]),
      };
    case 12:
      return { what: 'duplicate', at, task: random.below(tasks) };
    case 13:
      return { what: 'cancel', at, task: random.below(tasks) };
    default:
      return { what: 'redrive', at: at + random.below(20_000) };
  }
}
