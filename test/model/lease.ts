import {
  abandonCalls,
  breaks,
  dropMessage,
  forget,
  forgetLease,
  isHeld,
  LEASE,
  owns,
  removeMessage,
  type Step,
} from './step.ts';
import { At, Effect, Message, Task, Write, type State, type Who, type Worker } from './state.ts';

/** Sends a write, unless the rules already say no to it: then the worker goes where that leads. */
export function send(step: Step, next: State, who: Who, kind: number): void {
  const me = next.workers[who];
  if (me.refused === 1) breaks(next, 'I3');
  if (refusesItself(step, next, who, kind)) return;
  me.write = kind;
  me.left = LEASE;
  me.carries = me.found;
  me.applied = 0;
  me.slept = Math.min(me.slept, 1);
}

function refusesItself(step: Step, next: State, who: Who, kind: number): boolean {
  const me = next.workers[who];
  const found = me.found === 0 ? me.effect : me.found;
  if ((kind === Write.intend || kind === Write.settle) && me.cancel === 1 && found !== Effect.verified) {
    me.at = At.closeAsCancelled;
  } else if (
    ENDS.includes(kind) &&
    found === Effect.intended &&
    (kind !== Write.deadLetter || step.rules['close-first'])
  ) {
    // The effect turned out to be open: the next owner reads it back.
    lose(step, next, who);
    return true;
  } else return false;
  me.write = Write.nothing;
  me.left = 0;
  me.carries = 0;
  return true;
}

const ENDS: readonly number[] = [Write.settle, Write.deadLetter, Write.endClose];

/** The write stays on its way while nobody waits for it any more. One such write per worker is kept. */
export function giveUp({ rules }: Step, me: Worker): void {
  const mayLand = me.applied === 0 && (me.fresh === 1 || !rules['version-check']);
  if (me.write !== Write.nothing && mayLand && me.late === Write.nothing) {
    me.late = me.write;
    me.lateLeft = me.left;
    me.lateToken = me.token;
    me.lateFound = me.carries;
  }
  me.write = Write.nothing;
  me.left = 0;
  me.carries = 0;
  me.applied = 0;
}

/** The worker has nothing to do with the task any more; its calls and its last write may still be on their way. */
export function lose(step: Step, next: State, who: Who, to: number = Message.visible): void {
  const me = next.workers[who];
  giveUp(step, me);
  abandonCalls(next, who);
  if (to === Message.visible) dropMessage(next, who);
  else removeMessage(next, who, to);
  forget(me);
}

/** The store said no. Its own late write, or an outsider's wish, is no reason to stop; anything else is. */
export function refused(step: Step, next: State, who: Who): void {
  const { rules, from } = step;
  const { record } = next;
  const me = next.workers[who];
  const before = from.workers[who];
  const own =
    record.state === Task.running && ((record.token === me.token && record.owner === who) || !rules['foreign-writes']);
  // An earlier sending of it may still be on its way; this one is not.
  if (before.unknown === 0) me.write = Write.nothing;
  if (before.write === Write.claim) {
    me.write = Write.nothing;
    me.left = 0;
    me.carries = 0;
    me.unknown = 0;
    me.applied = 0;
    me.token = 0;
    me.fresh = 0;
    return;
  }
  if (own && before.fresh === 0 && rules['own-writes']) {
    see(next, who);
    me.write = Write.nothing;
    send(step, next, who, before.write);
    return;
  }
  const settled = before.write === Write.settle && record.state === Task.settled;
  if ((record.token === before.token && settled) || (owns(from, who) && record.lease === 3)) breaks(next, 'Loss');
  if (rules['loss-is-final']) lose(step, next, who);
  else {
    me.refused = 1;
    giveUp(step, me);
  }
}

/** Takes the record as it stands for what is known. */
function see(next: State, who: Who): void {
  const { record } = next;
  const me = next.workers[who];
  me.fresh = 1;
  me.token = record.token;
  me.effect = record.effect;
  me.cancel = record.cancel;
  me.closing = record.closing;
}

/** The write is known to stand. */
export function accept({ rules, receiver }: Step, next: State, who: Who): void {
  const { record } = next;
  const me = next.workers[who];
  const { write, left } = me;
  me.write = Write.nothing;
  me.left = 0;
  me.applied = 0;
  me.unknown = 0;
  // What was found after this write left still has to ride on another.
  if (me.found === me.carries) me.found = 0;
  me.carries = 0;
  if (me.slept === 1) me.slept = 0;
  if (record.state === Task.running) {
    see(next, who);
    me.time = rules['first-sending'] ? left : LEASE;
  } else forgetLease(me);
  switch (write) {
    case Write.claim:
      me.at = record.state === Task.running ? At.work : record.state === Task.dead ? At.reject : At.acknowledge;
      break;
    case Write.intend:
      me.at = At.ready;
      if (receiver === 'plain') me.intentLeft = left;
      break;
    case Write.settle:
      me.at = At.followUp;
      break;
    case Write.release:
    case Write.giveUp:
      me.at = At.handBack;
      me.token = record.token;
      break;
    case Write.deadLetter:
      me.at = At.reject;
      break;
    case Write.closeAsDead:
    case Write.closeAsCancelled:
      me.at = At.closeRead;
      break;
    case Write.endClose:
      me.at = record.state === Task.running ? At.release : record.state === Task.dead ? At.reject : At.acknowledge;
      break;
    case Write.askHuman:
      me.at = At.acknowledge;
      break;
    default:
      break;
  }
}

/** Beats while the handler works, closes or waits for its lease to be confirmed. */
export function beats(step: Step, who: Who): void {
  const me = step.from.workers[who];
  const beating = (me.at >= At.work && me.at <= At.readBack) || me.at === At.closeRead;
  if (!beating || me.write !== Write.nothing || me.time === 0) return;
  const next = step.fork();
  send(step, next, who, Write.renew);
  step.emit('renews', next, who);
}

/** Sends the write that its step is named after. */
export function sendsWhatItIsAt(step: Step, who: Who): void {
  const me = step.from.workers[who];
  const kind = WRITE_AT[me.at];
  if (kind === undefined || me.write !== Write.nothing || me.time === 0) return;
  // An intent leads to something irreversible; everything else may be tried until the lease is over.
  if (kind === Write.intend && !isHeld(step.rules, me)) return;
  const next = step.fork();
  send(step, next, who, kind);
  step.emit(next.workers[who].write === kind ? 'sends %' : 'must not send %', next, who, NAMES[kind]);
}

const WRITE_AT: Readonly<Record<number, number>> = {
  [At.intend]: Write.intend,
  [At.settle]: Write.settle,
  [At.release]: Write.release,
  [At.giveUp]: Write.giveUp,
  [At.deadLetter]: Write.deadLetter,
  [At.closeAsDead]: Write.closeAsDead,
  [At.closeAsCancelled]: Write.closeAsCancelled,
  [At.endClose]: Write.endClose,
  [At.askHuman]: Write.askHuman,
};
/** Writes as a trace names them. */
export const NAMES: Readonly<Record<number, string>> = {
  [Write.claim]: 'its claim',
  [Write.renew]: 'a renewal',
  [Write.intend]: 'the intent',
  [Write.settle]: 'the settle',
  [Write.release]: 'a release',
  [Write.giveUp]: 'a release after a failure',
  [Write.deadLetter]: 'a dead-lettering',
  [Write.closeAsDead]: 'the start of closing as dead',
  [Write.closeAsCancelled]: 'the start of closing as cancelled',
  [Write.endClose]: 'the end of closing',
  [Write.askHuman]: 'a question to a person',
};
