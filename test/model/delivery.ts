import { send } from './lease.ts';
import { At, Bears, Message, Task, Write, type Who } from './state.ts';
import { breaks, dropMessage, forget, removeMessage, type Step } from './step.ts';

/** Claiming, and the broker's half of everything. What the delivery desk does. */
export function deliverySteps(step: Step, who: Who): void {
  const { from, rules } = step;
  const me = from.workers[who];
  const { record } = from;
  switch (me.at) {
    case At.idle:
      for (const [index, message] of from.messages.entries()) {
        if (message.at !== Message.visible) continue;
        const next = step.fork();
        next.messages[index as Who].at = Message.taken;
        next.workers[who].message = index + 1;
        next.workers[who].at = At.claim;
        step.emit('receives message %', next, who, index + 1);
      }
      break;
    case At.claim:
      if (me.write === Write.nothing) claims(step, who);
      break;
    case At.parked: {
      if (record.state === Task.running && record.lease >= 2) return;
      const next = step.fork();
      next.workers[who].at = At.claim;
      step.emit('tries its parked message again', next, who);
      break;
    }
    case At.followUp: {
      const next = step.fork();
      next.workers[who].at = At.acknowledge;
      next.record.followed = 1;
      step.emit('sends the follow-ups', next, who);
      break;
    }
    case At.acknowledge:
      tellsBroker(step, who, Message.gone);
      break;
    case At.reject:
      tellsBroker(step, who, rules['dead-rejected'] ? Message.deadLettered : Message.gone);
      break;
    case At.handBack:
      tellsBroker(step, who, Message.visible);
      copies(step, who);
      break;
    default:
      break;
  }
}

function claims(step: Step, who: Who): void {
  const { from, rules } = step;
  const { record } = from;
  const { message, stale } = from.workers[who];
  const bears = stale === 1 ? Bears.nothing : (from.messages[message - 1]?.bears ?? Bears.nothing);
  const go = (at: number, what: string): void => {
    const next = step.fork();
    next.workers[who].at = at;
    step.emit(what, next, who);
  };
  const claim = (): void => {
    const next = step.fork();
    const me = next.workers[who];
    me.token = record.token;
    me.fresh = 1;
    me.unknown = 0;
    send(step, next, who, Write.claim);
    if (record.state === Task.dead && bears !== Bears.redriven) breaks(next, 'Ended');
    step.emit('claims', next, who);
  };
  switch (record.state) {
    case Task.none:
    case Task.queued:
      claim();
      break;
    case Task.running: {
      const live = record.lease >= 2;
      const over = record.lease < 2 || (record.lease === 2 && !rules['safe-end']) || !rules['busy'];
      if (over) claim();
      if (live || record.lease === 1) {
        if (rules['busy-kept']) go(At.parked, 'finds the task busy and parks the message');
        else go(At.acknowledge, 'finds the task busy and drops the duplicate');
      }
      break;
    }
    case Task.settled:
      if (!rules['replay']) claim();
      else if (rules['follow-ups-before-acknowledging']) go(At.followUp, 'finds the task settled');
      else go(At.acknowledge, 'finds the task settled and only acknowledges');
      break;
    case Task.dead:
      if (bears !== Bears.nothing) claim();
      else go(At.reject, 'finds the task dead-lettered');
      break;
    default:
      go(
        At.acknowledge,
        record.state === Task.human ? 'finds the task waiting for a person' : 'finds the task cancelled',
      );
  }
}

function tellsBroker(step: Step, who: Who, to: number): void {
  const { from } = step;
  const me = from.workers[who];
  const told = step.fork();
  if (to === Message.visible || me.stale === 1) dropMessage(told, who);
  else removeMessage(told, who, to);
  forget(told.workers[who]);
  step.emit(TOLD[to] ?? '', told, who);
  if (me.stale === 1 && to === Message.gone && me.message > 0) {
    // A broker that answers OK to a stale handle may or may not delete what others hold.
    const deleted = step.fork();
    removeMessage(deleted, who, Message.gone);
    forget(deleted.workers[who]);
    step.emit('acknowledges with a stale handle, and the broker deletes the message all the same', deleted, who);
  }
  if (from.world.faults === 0 || to === Message.visible || me.stale === 1) return;
  const lost = step.fork();
  dropMessage(lost, who);
  forget(lost.workers[who]);
  step.fault('does not reach the broker', lost, who);
}

const TOLD: Readonly<Record<number, string>> = {
  [Message.gone]: 'acknowledges the message',
  [Message.visible]: 'hands the message back',
  [Message.deadLettered]: 'moves the message to the dead-letter queue',
};

/** Where a message cannot wait in place: the same one again, under the token of the release, then the old one is acknowledged. */
function copies(step: Step, who: Who): void {
  const { from } = step;
  const me = from.workers[who];
  const free = from.messages.findIndex(({ at }) => at === Message.gone);
  if (free < 0) return;
  const next = step.fork();
  const copy = next.messages[free as Who];
  copy.at = Message.visible;
  copy.bears = from.record.token === me.token ? Bears.released : Bears.nothing;
  next.workers[who].at = At.acknowledge;
  next.workers[who].token = 0;
  step.emit('sends its message again as a copy', next, who);
}
