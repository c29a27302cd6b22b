import { accept, giveUp, lose, NAMES, refused } from './lease.ts';
import { applyWrite, clearLate, verdicts } from './record.ts';
import { Write, type Who } from './state.ts';
import { holds, type Step } from './step.ts';

/** The writes of one worker on their way: sent, answered, unanswered, given up, applied late. What `TaskLease` and `claimTask` do. */
export function ledgerSteps(step: Step, who: Who): void {
  const me = step.from.workers[who];
  if (me.write !== Write.nothing) {
    answered(step, who);
    unanswered(step, who);
  }
  if (me.late !== Write.nothing) landsLate(step, who);
  if (holds(me) && me.time === 0) {
    const next = step.fork();
    lose(step, next, who);
    step.emit('finds its confirmed time over and stops', next, who);
  }
}

function answered(step: Step, who: Who): void {
  const { from, rules } = step;
  const me = from.workers[who];
  if (me.applied === 1) {
    const next = step.fork();
    if (rules['own-writes']) accept(step, next, who);
    else refused(step, next, who);
    step.emit('repeats % and is shown the record as its own write left it', next, who, NAMES[me.write]);
    return;
  }
  if (me.fresh === 0 && rules['version-check']) {
    const next = step.fork();
    refused(step, next, who);
    step.emit('is refused %: somebody wrote since', next, who, NAMES[me.write]);
    return;
  }
  const possible = verdicts(step, from.record, me.write);
  for (const yes of possible) {
    if (!yes && possible.length > 1 && me.write !== Write.claim) {
      // J is longer than the clock's error, so an owner comes this late only by a fault.
      if (from.world.faults === 0) continue;
      const next = step.fork();
      refused(step, next, who);
      step.fault("is refused %: the store's clock cannot be sure that the lease is live", next, who, NAMES[me.write]);
      continue;
    }
    const next = step.fork();
    if (yes) {
      applyWrite(step, next, who, { kind: me.write, left: me.left, token: me.token, found: me.carries });
      accept(step, next, who);
    } else refused(step, next, who);
    step.emit(yes ? 'has % accepted' : 'is refused %: the lease is not as expected', next, who, NAMES[me.write]);
  }
}

function unanswered(step: Step, who: Who): void {
  const { from, rules } = step;
  const me = from.workers[who];
  if (from.world.faults > 0 && (me.write === Write.renew || me.unknown === 0)) {
    const next = step.fork();
    const worker = next.workers[who];
    worker.unknown = 1;
    // A beat is not repeated: the next one follows. Everything else is, under the same name.
    if (me.write === Write.renew) giveUp(step, worker);
    step.fault('gets no answer to %', next, who, NAMES[me.write]);
  }
  if (me.unknown === 0) return;
  if (me.applied === 0 && (me.fresh === 1 || !rules['version-check'])) {
    for (const yes of verdicts(step, from.record, me.write)) {
      if (!yes) continue;
      const next = step.fork();
      applyWrite(step, next, who, { kind: me.write, left: me.left, token: me.token, found: me.carries });
      next.workers[who].applied = 1;
      step.emit('has % applied without hearing of it', next, who, NAMES[me.write]);
    }
  }
  if (me.write === Write.claim) {
    const next = step.fork();
    lose(step, next, who);
    step.emit('gives up claiming and leaves the message to lapse', next, who);
  }
}

function landsLate(step: Step, who: Who): void {
  const me = step.from.workers[who];
  const lost = step.fork();
  clearLate(lost.workers[who]);
  step.emit('never has % applied that it gave up', lost, who, NAMES[me.late]);
  for (const yes of verdicts(step, step.from.record, me.late)) {
    if (!yes) continue;
    const next = step.fork();
    clearLate(next.workers[who]);
    applyWrite(step, next, who, { kind: me.late, left: me.lateLeft, token: me.lateToken, found: me.lateFound });
    step.emit('has % applied late, long after giving it up', next, who, NAMES[me.late]);
  }
}
