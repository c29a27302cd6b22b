import { bury, end } from './record.ts';
import { lose } from './lease.ts';
import { ages, mayWait } from './receiver.ts';
import { holds, type Step } from './step.ts';
import { At, Bears, BOTH, Effect, Message, Task, Write, type State, type Who } from './state.ts';

/** Time, and everything that comes from outside. */
export function worldSteps(step: Step): void {
  passes(step, undefined);
  reads(step);
  if (step.from.world.faults === 0) return;
  for (const who of BOTH) {
    const me = step.from.workers[who];
    if (holds(me) && me.time > 0) passes(step, who);
    if (me.at !== At.idle) crashes(step, who);
    if (me.message > 0 && me.stale === 0) {
      const next = step.fork();
      next.messages[(me.message - 1) as Who].at = Message.visible;
      next.workers[who].stale = 1;
      step.fault('has its message delivered again while it holds it', next, who);
    }
  }
  brokerFaults(step);
  outsiders(step);
}

/** One tick. It is a fault if an owner is slow enough to lose its lease, or its patience, by it; the monotonic clock of a sleeping machine stands still. */
function passes(step: Step, sleeper: Who | undefined): void {
  const { from } = step;
  if (!mayWait(step)) return;
  const next = step.fork();
  const { record } = next;
  let changed = ages(step, next);
  let late = sleeper !== undefined;
  if (record.lease > 0) {
    record.lease -= 1;
    changed = true;
  }
  for (const who of BOTH) {
    const me = next.workers[who];
    if (me.time > 0 && who !== sleeper) {
      me.time -= 1;
      changed = true;
      if (me.time === 0) late = true;
    }
    if (me.left > 0) {
      me.left -= 1;
      changed = true;
      if (me.left === 0 && me.write === Write.claim) late = true;
    }
    if (me.lateLeft > 0) {
      me.lateLeft -= 1;
      changed = true;
    }
    if (me.intentLeft > 0) {
      me.intentLeft -= 1;
      changed = true;
      if (me.intentLeft === 0 && step.rules['fresh-intent']) late = true;
    }
  }
  if (sleeper !== undefined) {
    next.workers[sleeper].slept = 2;
    step.fault('sleeps with its machine for a tick', next, sleeper);
  } else if (changed && late && from.world.faults > 0)
    step.fault('a tick passes, one more than the owner can wait', next);
  else if (changed && !late) step.emit('a tick passes', next);
}

function crashes(step: Step, who: Who): void {
  const next = step.fork();
  lose(step, next, who);
  step.fault('crashes and starts anew', next, who);
}

function brokerFaults(step: Step): void {
  for (const [index, message] of step.from.messages.entries()) {
    const next = step.fork();
    const moved = next.messages[index as Who];
    switch (message.at) {
      case Message.gone:
        moved.at = Message.visible;
        step.fault('message % is delivered once more', next, undefined, index + 1);
        break;
      case Message.visible:
        moved.at = Message.deadLettered;
        moved.bears = Bears.byBroker;
        step.fault(
          'the broker counts too many deliveries of message % and dead-letters it',
          next,
          undefined,
          index + 1,
        );
        break;
      case Message.deadLettered:
        moved.at = Message.visible;
        if (moved.bears === Bears.byBroker) moved.bears = Bears.nothing;
        step.fault('message % is moved back from the dead-letter queue', next, undefined, index + 1);
        break;
      default:
        break;
    }
  }
}

/** The reader of the dead-letter queue mends what the broker did by itself: that is its duty, so it costs no fault. */
function reads(step: Step): void {
  const { record } = step.from;
  const idle = record.state === Task.queued || (record.state === Task.running && record.lease === 0);
  const unsent = record.state === Task.settled && record.followed === 0 && step.rules['sweep-minds-follow-ups'];
  const index = step.from.messages.findIndex(({ bears }) => bears === Bears.byBroker);
  if (!(idle || unsent) || index < 0) return;
  const next = step.fork();
  if (unsent || record.effect === Effect.intended) {
    next.messages[index as Who].at = Message.visible;
    next.messages[index as Who].bears = Bears.nothing;
    step.emit('message % is moved back, since the task still needs a worker', next, undefined, index + 1);
    return;
  }
  bury(step, next);
  written(step, next);
  step.emit('a sweep finds message % in the dead-letter queue and closes the task', next, undefined, index + 1);
}

/** Writes of people and programs that hold no lease. They read and write until they get through: one step. */
function outsiders(step: Step): void {
  const { from, rules } = step;
  const { record } = from;
  const free = from.messages.findIndex(({ at }) => at === Message.gone);
  if (record.state === Task.human && free >= 0) {
    const next = step.fork();
    next.record.state = Task.queued;
    written(step, next);
    next.messages[free as Who].at = Message.visible;
    step.fault('a person answers, and the message is sent again', next);
  }
  if (record.state === Task.settled || record.state === Task.dead || record.state === Task.cancelled) return;
  const idle = record.state === Task.queued || (record.state === Task.running && record.lease === 0);
  if (idle && record.effect !== Effect.intended) {
    const swept = step.fork();
    bury(step, swept);
    written(step, swept);
    step.fault('someone sweeps the task', swept);
  }
  const open = record.effect === Effect.intended && rules['cancel-asks'];
  if ((record.effect === Effect.verified && rules['settle-wins']) || (open && record.cancel === 1)) return;
  const next = step.fork();
  if (open) next.record.cancel = 1;
  else end(next, Task.cancelled);
  written(step, next);
  step.fault(open ? 'someone asks to cancel the task' : 'someone cancels the task', next);
}

function written({ rules }: Step, next: State): void {
  for (const worker of next.workers) {
    worker.fresh = 0;
    worker.applied = 0;
    if (!rules['version-check']) continue;
    worker.late = Write.nothing;
    worker.lateLeft = 0;
    worker.lateToken = 0;
    worker.lateFound = 0;
  }
}
