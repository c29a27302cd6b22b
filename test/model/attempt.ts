import { beats, lose, sendsWhatItIsAt } from './lease.ts';
import { look } from './receiver.ts';
import { At, Call, Closing, Effect, Key, Message, Write, type State, type Who } from './state.ts';
import { ATTEMPTS, abandonCalls, breaks, isHeld, owns, removeMessage, type Step } from './step.ts';

/** One worker's way through an attempt: handler, effect, closing. What `Attempt` and `runEffect` do. */
export function attemptSteps(step: Step, who: Who): void {
  const me = step.from.workers[who];
  if (me.time === 0) return;
  beats(step, who);
  sendsWhatItIsAt(step, who);
  // Ledger calls of one lease never overlap, and each of these steps would have to wait for the answer.
  stopsForCancellation(step, who);
  switch (me.at) {
    case At.work:
      works(step, who);
      break;
    case At.ready:
      startsCall(step, who);
      break;
    case At.calling:
      waitsForCall(step, who);
      break;
    case At.verify:
    case At.readBack:
    case At.closeRead:
      readsBack(step, who);
      break;
    case At.settle:
      mayAnticipate(step, who);
      break;
    case At.deadLetter:
      mayMoveFirst(step, who);
      break;
    default:
      break;
  }
}

/** The handler sees the cancellation with the next answer of the ledger; what it has on the way is called off. */
function stopsForCancellation(step: Step, who: Who): void {
  const me = step.from.workers[who];
  const open = me.at >= At.work && me.at <= At.readBack && (me.at !== At.intend || me.write !== Write.intend);
  if (me.cancel === 0 || me.closing !== Closing.no || !open) return;
  const next = step.fork();
  abandonCalls(next, who);
  next.workers[who].intentLeft = 0;
  next.workers[who].at = At.closeAsCancelled;
  step.emit('stops, since the task is to be cancelled', next, who);
}

function works(step: Step, who: Who): void {
  const { rules, from } = step;
  const me = from.workers[who];
  const next = step.fork();
  const to = next.workers[who];
  if (me.closing !== Closing.no) to.at = At.closeRead;
  else if (me.effect === Effect.verified) to.at = At.settle;
  else if (me.effect !== Effect.none && rules['read-back-first']) to.at = At.readBack;
  else to.at = rules['intent-first'] ? At.intend : At.ready;
  step.emit(WORKS[to.at] ?? 'works', next, who);
  if (from.world.faults === 0 || me.closing !== Closing.no) return;
  const failed = step.fork();
  fail(step, failed, who, false);
  step.fault('has its handler fail', failed, who);
  const drained = step.fork();
  drained.workers[who].at = At.release;
  step.fault('is drained and gives the task back', drained, who);
  const ruled = step.fork();
  fail(step, ruled, who, true);
  step.fault('has its handler fail for good', ruled, who);
  if (me.effect !== Effect.none) return;
  const asks = step.fork();
  asks.workers[who].at = At.askHuman;
  step.fault('has a question for a person', asks, who);
}

const WORKS: Readonly<Record<number, string>> = {
  [At.closeRead]: 'finds the task being closed',
  [At.settle]: 'finds the effect verified and returns',
  [At.readBack]: 'finds the effect intended and reads back first',
  [At.intend]: 'reaches the effect',
  [At.ready]: 'reaches the effect and writes no intent',
};

/** The check and the call are one step: what may come between them is the time that a call is on its way. */
function startsCall(step: Step, who: Who): void {
  const { rules, from, receiver } = step;
  const me = from.workers[who];
  if (me.cancel === 1) return;
  if (receiver === 'plain' && me.intentLeft === 0 && rules['fresh-intent'] && rules['intent-first']) {
    const late = step.fork();
    fail(step, late, who, false);
    step.emit('has waited for its lease as long as the intent confirmed it', late, who);
    return;
  }
  if (!isHeld(rules, me) && rules['held-after-intent']) return;
  const slot = from.calls.findIndex((call) => call.token === 0);
  if (slot < 0) return;
  const next = step.fork();
  const call = next.calls[slot as Who];
  call.token = me.token;
  call.at = Call.onItsWay;
  call.caller = who + 1;
  next.workers[who].at = At.calling;
  next.workers[who].intentLeft = 0;
  if (!isHeld(ALL, me) || !owns(from, who)) breaks(next, 'I6');
  if (me.refused === 1) breaks(next, 'I3');
  step.emit('starts the call with token %', next, who, me.token);
}

/** What I6 demands, whatever the worker believes. */
const ALL = { 'unanswered-is-unknown': true, sleep: true } as unknown as Step['rules'];

function waitsForCall(step: Step, who: Who): void {
  const { rules, from } = step;
  if (from.world.faults === 0) return;
  const next = step.fork();
  abandonCalls(next, who);
  next.workers[who].at = At.verify;
  step.fault('gets no answer to its call', next, who);
  if (rules['release-after-calls']) return;
  const early = step.fork();
  early.workers[who].at = At.giveUp;
  step.fault('gives the task back while its call is open', early, who);
}

/** Settled by what a look finds; what cannot tell is retried by another attempt, or stays in doubt. */
function readsBack(step: Step, who: Who): void {
  const { rules, from } = step;
  const me = from.workers[who];
  if (me.at === At.closeRead && (me.effect !== Effect.intended || me.found > 0)) {
    const next = step.fork();
    next.workers[who].at = At.endClose;
    step.emit('has nothing left to read back', next, who);
    return;
  }
  if (me.at === At.readBack && !isHeld(rules, me)) return;
  if (me.at === At.verify && !rules['verify']) {
    const next = step.fork();
    goOn(step, next, who, Effect.verified);
    step.emit('takes the end of its call for success', next, who);
    return;
  }
  const seen = step.fork();
  const found = look(step, seen, who);
  if (found !== undefined) {
    goOn(step, seen, who, found);
    step.emit('reads back: %', seen, who, FOUND[found]);
  }
  if (found !== Effect.verified && me.at === At.verify) {
    // A handler that catches the error and calls the effect anew, in the same attempt.
    const again = step.fork();
    look(step, again, who);
    again.workers[who].at = At.readBack;
    step.emit('cannot verify its call and tries the effect again', again, who);
  }
  // Broken off, or a hold that outlasts its patience.
  if (from.world.faults === 0 && from.receiver.key !== Key.held) return;
  const untold = step.fork();
  goOn(step, untold, who, Effect.inDoubt);
  if (from.receiver.key === Key.held) step.emit('reads back: in progress, and waits no longer', untold, who);
  else step.fault('reads back and gets no answer', untold, who);
}

const FOUND: Readonly<Record<number, string>> = {
  [Effect.verified]: 'the effect exists',
  [Effect.absent]: 'absent',
  [Effect.inDoubt]: 'it cannot be told',
};

function goOn(step: Step, next: State, who: Who, found: number): void {
  const me = next.workers[who];
  if (me.at === At.closeRead) me.found = found;
  else if (found === Effect.verified) {
    me.found = found;
    me.at = At.settle;
  } else if (found === Effect.absent && me.at === At.readBack) me.at = At.intend;
  else fail(step, next, who, false);
}

/** Another attempt, or the end: with an effect open, by closing. */
function fail({ rules }: Step, next: State, who: Who, forGood: boolean): void {
  const me = next.workers[who];
  const open = me.effect === Effect.intended && me.found === 0;
  if (next.record.failures + 1 < ATTEMPTS && !forGood) me.at = At.giveUp;
  else me.at = open && rules['close-first'] ? At.closeAsDead : At.deadLetter;
}

/** Without the rules that put the settle first. */
function mayAnticipate(step: Step, who: Who): void {
  const { rules, from } = step;
  const me = from.workers[who];
  if (me.write !== Write.nothing) {
    if (me.unknown === 0 || rules['settle-answered']) return;
    const next = step.fork();
    lose(step, next, who, Message.gone);
    step.emit('acknowledges although its settle got no answer', next, who);
    return;
  }
  if (!rules['settle-first'] && me.message > 0) {
    const next = step.fork();
    removeMessage(next, who, Message.gone);
    step.emit('acknowledges before it settles', next, who);
  }
  if (!rules['follow-ups-last'] && from.record.followed === 0) {
    const next = step.fork();
    next.record.followed = 1;
    breaks(next, 'Follow');
    step.emit('sends the follow-ups before it settles', next, who);
  }
}

/** Without the rule that the ledger comes first. */
function mayMoveFirst(step: Step, who: Who): void {
  const me = step.from.workers[who];
  if (step.rules['ledger-first'] || me.write !== Write.nothing || me.message === 0) return;
  const next = step.fork();
  removeMessage(next, who, Message.deadLettered);
  step.emit('moves the message to the dead-letter queue first', next, who);
}
