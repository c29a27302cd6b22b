import * as fc from 'fast-check';
import { decide, isRefusal } from '../src/decide.ts';
import type { Carried, Decision, Refusal, TaskEvent } from '../src/events.ts';
import { isTerminal, type StoreTime, type TaskRecord } from '../src/record.ts';
import {
  answer,
  askHuman,
  beginClose,
  cancel,
  checkpoint,
  claim,
  deadLetter,
  endClose,
  handOff,
  intend,
  LEASE_MS,
  raiseToken,
  release,
  renew,
  RETENTION_MS,
  settle,
  START,
  sweep,
} from './task-events.ts';
import { deepFreeze, taskRegister } from './task-register.ts';

const OWNERS = ['svc/a#1', 'svc/b#2', 'svc/c#3'] as const;
const EFFECTS = ['create', '__proto__'] as const;
const OWNERS_EVENTS = [
  'renew',
  'intend',
  'checkpoint',
  'settle',
  'release',
  'hand-off',
  'dead-letter',
  'begin-close',
  'end-close',
  'raise-token',
  'ask-human',
] as const;
const OUTSIDERS_EVENTS = ['answer', 'reopen', 'cancel', 'sweep', 'follow-ups-sent', 'dead-letter-sent'] as const;

/** One step of a random history of one task. */
export interface Step {
  readonly kind:
    | 'advance'
    | 'claim'
    | 'late'
    | 'newer'
    | (typeof OWNERS_EVENTS)[number]
    | (typeof OUTSIDERS_EVENTS)[number];
  readonly ms: number;
  readonly errorMs: number;
  readonly owner: number;
  /** Whoever holds the task writes, not `owner`: most histories would be refusals otherwise. */
  readonly byHolder: boolean;
  /** Decides from what the owner saw last instead of from what stands there. */
  readonly stale: boolean;
  /** The write stays on its way, to land whenever a `late` step comes. */
  readonly delayed: boolean;
  readonly effect: number;
  readonly choice: number;
  readonly flag: boolean;
  readonly carry: number;
}

const owners = fc.constantFrom(...OWNERS_EVENTS, 'renew', 'intend', 'intend', 'settle', 'end-close');
const outsiders = fc.constantFrom(...OUTSIDERS_EVENTS, 'answer', 'reopen');
export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    kind: fc.oneof(
      { weight: 3, arbitrary: fc.constant('advance' as const) },
      { weight: 3, arbitrary: fc.constant('claim' as const) },
      { weight: 12, arbitrary: owners },
      { weight: 3, arbitrary: outsiders },
      { weight: 3, arbitrary: fc.constantFrom('late' as const, 'newer' as const) },
    ),
    ms: fc.oneof(fc.nat(5_000), fc.nat(30_000), fc.nat(150_000)),
    errorMs: fc.nat(1_000),
    owner: fc.nat(OWNERS.length - 1),
    byHolder: fc.constantFrom(true, true, true, true, false),
    stale: fc.constantFrom(false, false, false, false, false, true),
    delayed: fc.constantFrom(false, false, false, false, false, false, false, true),
    effect: fc.nat(EFFECTS.length - 1),
    choice: fc.nat(5),
    flag: fc.boolean(),
    carry: fc.nat(5),
  }),
  { minLength: 1, maxLength: 100, size: 'max' },
);

/** What one step did to the record. */
export interface Transition {
  readonly before: TaskRecord | undefined;
  readonly after: TaskRecord;
  readonly event: TaskEvent | { readonly type: 'newer' };
  readonly decision?: Decision;
  readonly now: StoreTime;
}

/** What became of one task. */
export interface Walked {
  readonly transitions: readonly Transition[];
  readonly refusals: readonly Refusal[];
}

/** Plays a history, one task after another: a few steps after one has ended the next begins. */
export function walk(history: readonly Step[]): readonly Walked[] {
  const lives: Walked[] = [];
  for (let rest = history; rest.length > 0;) {
    const { walked, taken } = live(rest);
    lives.push(walked);
    rest = rest.slice(taken);
  }
  return lives;
}

/** Every record is frozen, so a rule that changes its input throws. */
function live(history: readonly Step[]): { readonly walked: Walked; readonly taken: number } {
  const register = taskRegister();
  const views = new Map<number, { record: TaskRecord | undefined; token: number }>();
  const onTheWay: { readonly decision: Decision; readonly event: TaskEvent }[] = [];
  const transitions: Transition[] = [];
  const refusals: Refusal[] = [];
  let time = START;
  let afterlife = 0;
  for (const [index, step] of history.entries()) {
    if (register.record && isTerminal(register.record.state)) afterlife++;
    if (afterlife > 8) return { walked: { transitions, refusals }, taken: index };
    const now = { earliest: time - step.errorMs, latest: time + Math.round((step.choice * step.errorMs) / 5) };
    const land = ({ decision, event }: { readonly decision: Decision; readonly event: TaskEvent }): void => {
      const before = register.record;
      const { ok, record } = register.put(decision, now);
      if (ok && record) transitions.push({ before, after: record, event, decision, now });
    };
    if (step.kind === 'advance') {
      time += step.ms;
    } else if (step.kind === 'late') {
      const [landing] = onTheWay.splice(step.choice % Math.max(1, onTheWay.length), 1);
      if (landing) land(landing);
    } else if (step.kind === 'newer') {
      const before = register.record;
      register.rewrite(withUnknownFields);
      if (before && register.record)
        transitions.push({ before, after: register.record, event: { type: 'newer' }, now });
    } else {
      const holder = (OWNERS as readonly string[]).indexOf(register.record?.leaseOwner ?? '');
      const owner = step.byHolder && holder >= 0 ? holder : step.owner;
      // An owner's write without an owner is refused, always: a claim makes the better history.
      const kind =
        step.byHolder && holder < 0 && (OWNERS_EVENTS as readonly string[]).includes(step.kind) ? 'claim' : step.kind;
      const seen = views.get(owner) ?? { record: undefined, token: 0 };
      const token = step.byHolder && !step.stale && holder >= 0 ? (register.record?.fencingToken ?? 0) : seen.token;
      const event = toEvent({ ...step, owner, kind }, `op-${index}`, token, register.record);
      const outcome = decide(step.stale ? seen.record : register.record, deepFreeze(event), now);
      if (isRefusal(outcome)) refusals.push(outcome);
      else if (step.delayed) onTheWay.push({ decision: deepFreeze(outcome), event });
      else land({ decision: deepFreeze(outcome), event });
      const { record } = register;
      views.set(owner, {
        record,
        token: record && record.leaseOwner === OWNERS[owner] ? record.fencingToken : seen.token,
      });
    }
  }
  return { walked: { transitions, refusals }, taken: history.length };
}

/** As if a newer minor version had written something of its own, everywhere where that is allowed. */
function withUnknownFields(record: TaskRecord): TaskRecord {
  const effects = Object.fromEntries(
    Object.entries(record.effects).map(([name, effect]) => [name, { ...effect, colour: `of ${name}` }]),
  );
  return { ...record, effects, extra: { ...record.extra, shard: record.version, ['__proto__']: 'hostile' } };
}

function toCarry(step: Step): { readonly carry?: Carried } {
  const effect = EFFECTS[step.effect] as string;
  const progress = { stage: 'external_call', reason: `page ${step.choice}` } as const;
  const verified = { status: 'verified', externalId: `x-${step.choice}`, externalStatus: 'open' } as const;
  const all: readonly (Carried | undefined)[] = [
    undefined,
    { progress },
    { effects: { [effect]: verified } },
    { effects: { [effect]: { status: step.flag ? 'absent' : 'in_doubt' } } },
    { progress, effects: Object.fromEntries(EFFECTS.map((name) => [name, verified])) },
    { effects: Object.fromEntries(EFFECTS.map((name) => [name, { status: 'absent' as const }])) },
  ];
  const carry = all[step.carry];
  return carry ? { carry } : {};
}

function toEvent(step: Step, opId: string, token: number, record: TaskRecord | undefined): TaskEvent {
  const mine = { opId, owner: OWNERS[step.owner] as string, token, ...toCarry(step) };
  const effect = EFFECTS[step.effect] as string;
  const to = step.flag ? 'cancelled' : 'dead_lettered';
  switch (step.kind) {
    case 'renew':
      return renew({ ...mine, leaseMs: LEASE_MS / (1 + (step.choice % 2)) });
    case 'intend':
      return intend(effect, {
        ...mine,
        details: {
          key: step.choice === 0 ? 'another key' : `key-of-${effect}`,
          system: 'crm',
          lookUrl: 'https://a.test',
        },
      });
    case 'checkpoint':
      return checkpoint(mine);
    case 'settle': {
      const receipt = step.choice === 0 ? { ...settle().receipt, taskId: 'another' } : settle().receipt;
      return settle({
        ...mine,
        receipt,
        ...(step.flag && { next: [{ taskId: 't', type: 'mail', idempotencyKey: 'k', input: 1 }] }),
      });
    }
    case 'release':
      return release({ ...mine, failure: step.flag, delayMs: step.choice * 1_000 });
    case 'hand-off':
      return handOff({ ...mine, progressed: step.flag });
    case 'dead-letter':
      return deadLetter(mine);
    case 'begin-close':
      return beginClose({ ...mine, closing: { to, reason: 'no way on', errorClass: 'permanent' } });
    case 'end-close':
      return endClose(mine);
    case 'raise-token':
      return raiseToken({ ...mine, above: step.choice * 3 });
    case 'ask-human':
      return askHuman(mine);
    case 'answer':
      return answer({ opId, approve: step.flag });
    case 'cancel':
      return cancel({ opId });
    case 'sweep':
      return sweep({ opId });
    case 'reopen':
    case 'follow-ups-sent':
    case 'dead-letter-sent':
      return { type: step.kind, opId };
    default: {
      const current = record?.fencingToken ?? 0;
      const carriedToken = record && [0, 0, current, current, current - 1, 1][step.choice];
      return claim({
        opId,
        owner: OWNERS[step.owner] as string,
        payloadHash: step.carry === 5 && step.choice === 3 ? 'hash-2' : 'hash-1',
        attempts: 1 + step.choice * 2,
        ...(step.carry === 4 && { deadlineMs: 300_000 }),
        ...(step.carry === 3 && { sentAt: START - RETENTION_MS + 60_000 }),
        ...(carriedToken && { carriedToken }),
      });
    }
  }
}
