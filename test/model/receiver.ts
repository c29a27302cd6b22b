import { breaks, QUIET, type Step } from './step.ts';
import { At, Call, Effect, Key, Task, type State, type Who } from './state.ts';

/** Ticks after an intent until no call made under it can be on its way any more: L and the quiet time. */
const QUIET_AFTER_INTENT = 4;

/** Calls on their way and at the receiver, which is guarded, guarded in one transaction with its effect, or plain. */
export function receiverSteps(step: Step): void {
  for (const [index, call] of step.from.calls.entries()) {
    if (call.token === 0) continue;
    const slot = index as Who;
    switch (call.at) {
      case Call.onItsWay:
        arrives(step, slot);
        if (step.from.world.faults > 0 && call.caller > 0) {
          const next = step.fork();
          ends(next, slot);
          step.fault('the call with token % is lost on its way', next, undefined, call.token);
        }
        break;
      case Call.admitted: {
        const next = step.fork();
        happens(step, next, slot);
        next.calls[slot].at = Call.done;
        step.emit('the call with token % takes effect', next, undefined, call.token);
        if (step.from.world.faults === 0) break;
        const failed = step.fork();
        failed.receiver.key = Key.unknown;
        ends(failed, slot);
        step.fault(
          'the receiver fails the call with token % and says that nothing happened',
          failed,
          undefined,
          call.token,
        );
        break;
      }
      case Call.done: {
        const next = step.fork();
        next.receiver.key = Key.done;
        ends(next, slot);
        step.emit('the receiver stores the answer to the call with token %', next, undefined, call.token);
        break;
      }
      default:
        break;
    }
  }
  crashes(step);
}

function arrives(step: Step, slot: Who): void {
  const { rules, receiver, from } = step;
  const { token } = from.calls[slot];
  const next = step.fork();
  const say = (what: string): void => step.emit(what, next, undefined, token);
  if (receiver === 'plain') {
    happens(step, next, slot);
    ends(next, slot);
    say('the call with token % arrives and takes effect');
    return;
  }
  if (token < next.receiver.highest && rules['guard-fence']) {
    ends(next, slot);
    say('the call with token % arrives and is refused as stale');
    return;
  }
  show(next, token);
  if (next.receiver.key === Key.held) {
    ends(next, slot);
    say('the call with token % arrives and is refused: one with its key is in progress');
    return;
  }
  if (next.receiver.key === Key.inDoubt) resolve(step, next);
  if (next.receiver.key === Key.done && rules['guard-key']) {
    ends(next, slot);
    say('the call with token % arrives and is answered as before');
    return;
  }
  if (receiver === 'transactional') {
    happens(step, next, slot);
    next.receiver.key = Key.done;
    ends(next, slot);
    say('the call with token % arrives and takes effect, in one transaction with its key');
    return;
  }
  next.receiver.key = Key.held;
  next.calls[slot].at = Call.admitted;
  say('the call with token % arrives and is admitted');
}

function show(next: State, token: number): void {
  const { receiver } = next;
  receiver.shown = Math.max(receiver.shown, token);
  receiver.highest = Math.max(receiver.highest, token);
}

/** The receiver's own state says what became of a call that died. */
function resolve({ rules }: Step, next: State): void {
  const { receiver } = next;
  receiver.key = receiver.effects > 0 && rules['hold-in-doubt'] ? Key.done : Key.unknown;
}

function happens({ receiver }: Step, next: State, slot: Who): void {
  const { record } = next;
  next.receiver.effects += 1;
  if (next.receiver.effects > 1) breaks(next, 'I4');
  if (receiver !== 'plain' && next.calls[slot].token < next.receiver.shown) breaks(next, 'I3');
  const ended = record.state === Task.settled || record.state === Task.dead || record.state === Task.cancelled;
  if (ended && (record.effect === Effect.absent || record.effect === Effect.none)) breaks(next, 'Close');
}

function ends(next: State, slot: Who): void {
  const call = next.calls[slot];
  const caller = call.caller === 0 ? undefined : next.workers[(call.caller - 1) as Who];
  if (caller?.at === At.calling) caller.at = At.verify;
  call.token = 0;
  call.at = Call.onItsWay;
  call.caller = 0;
  call.age = 0;
}

/** The process dies: what it was carrying out is over, and each hold will expire unfinished. */
function crashes(step: Step): void {
  const { from } = step;
  if (from.world.faults === 0 || from.receiver.key !== Key.held) return;
  const next = step.fork();
  for (const slot of [0, 1] as const)
    if (next.calls[slot].token > 0 && next.calls[slot].at !== Call.onItsWay) ends(next, slot);
  next.receiver.key = Key.inDoubt;
  step.fault('the receiver crashes', next);
}

/** Reads the effect back. Nothing when the receiver says to wait. */
export function look(step: Step, next: State, who: Who): number | undefined {
  const { rules, receiver } = step;
  const me = next.workers[who];
  if (receiver === 'plain') {
    if (next.receiver.effects > 0) return Effect.verified;
    const quiet = me.at !== At.verify && (next.record.sinceIntent >= QUIET_AFTER_INTENT || !rules['quiesce']);
    return quiet ? Effect.absent : Effect.inDoubt;
  }
  if (rules['fenced-read-back']) {
    if (me.token < next.receiver.highest && rules['guard-fence']) return Effect.inDoubt;
    show(next, me.token);
  }
  if (next.receiver.key === Key.held) return undefined;
  if (next.receiver.key === Key.inDoubt) resolve(step, next);
  return next.receiver.key === Key.done ? Effect.verified : Effect.absent;
}

/** Whether a plain receiver's promise lets time go on: a call that is due has to arrive first. */
export function mayWait({ from, receiver }: Step): boolean {
  return receiver !== 'plain' || from.calls.every((call) => call.token === 0 || call.age < QUIET);
}

/** Time passes for the calls to a plain receiver and for its quiet time. */
export function ages({ receiver }: Step, next: State): boolean {
  if (receiver !== 'plain') return false;
  let changed = false;
  for (const call of next.calls) {
    if (call.token === 0) continue;
    call.age += 1;
    changed = true;
  }
  const { record } = next;
  if (record.effect === Effect.intended && record.sinceIntent < QUIET_AFTER_INTENT) {
    record.sinceIntent += 1;
    changed = true;
  }
  return changed;
}
