import { attemptSteps } from './attempt.ts';
import { deliverySteps } from './delivery.ts';
import { ledgerSteps } from './ledger.ts';
import { receiverSteps } from './receiver.ts';
import { RULE_NAMES, type Invariant, type ReceiverKind, type RuleName } from './rules.ts';
import { breaks, broken, holds, owns, type Rules, type Step } from './step.ts';
import { BOTH, blankState, Effect, Message, Task, type State, type Who } from './state.ts';
import { worldSteps } from './world.ts';

/** What is explored: at which receiver, with how many faults in all, without which rule. */
export interface Scene {
  readonly receiver: ReceiverKind;
  readonly faults: number;
  readonly without?: RuleName | undefined;
}

/** Hears of each step from a state. `next` is only lent. */
type Visit = (next: State, fault: boolean, what: string, who?: Who, about?: string | number) => void;

/** The protocol as a transition system. */
export interface Model {
  readonly scene: Scene;
  /** One message, no record. */
  readonly initial: State;
  successors(state: State, visit: Visit): void;
  /** The invariant that a state breaks, or that the step to it broke. */
  judge(state: State): Invariant | undefined;
}

/** The task has ended, or waits for a person, and the broker has nothing left to deliver. */
export function isEnd({ record, messages }: State): boolean {
  if (messages.some(({ at }) => at === Message.visible || at === Message.taken)) return false;
  switch (record.state) {
    case Task.settled:
      return record.followed === 1;
    // Never claimed: then only the broker can have dead-lettered it.
    case Task.none:
    case Task.dead:
      return messages.some(({ at }) => at === Message.deadLettered);
    default:
      return record.state === Task.cancelled || record.state === Task.human;
  }
}

/** Makes the model of a scene. It works in one place: one state at a time. */
export function createModel(scene: Scene): Model {
  const rules = Object.fromEntries(RULE_NAMES.map((name) => [name, name !== scene.without])) as Rules;
  const scratch = blankState();
  let visit: Visit = () => undefined;
  const step = {
    rules,
    receiver: scene.receiver,
    from: scratch,
    fork() {
      scratch.cells.set(step.from.cells);
      return scratch;
    },
    emit(what: string, next: State, who?: Who, about?: string | number) {
      visit(next, false, what, who, about);
    },
    fault(what: string, next: State, who?: Who, about?: string | number) {
      next.world.faults -= 1;
      visit(next, true, what, who, about);
    },
  } satisfies Step;

  const initial = blankState();
  initial.world.faults = scene.faults;
  initial.messages[0].at = Message.visible;

  return {
    scene,
    initial,
    successors(state, visitor) {
      step.from = state;
      visit = visitor;
      for (const who of BOTH) {
        ledgerSteps(step, who);
        attemptSteps(step, who);
        deliverySteps(step, who);
      }
      receiverSteps(step);
      worldSteps(step);
    },
    judge(state) {
      if (state.world.broken === 0) judgeState(state);
      return broken(state);
    },
  };
}

function judgeState(state: State): void {
  const { record, receiver } = state;
  for (const who of BOTH) {
    const worker = state.workers[who];
    const sure = holds(worker) && worker.time > 0 && worker.unknown === 0 && worker.slept === 0 && worker.refused === 0;
    if (sure && !owns(state, who) && record.state !== Task.cancelled) breaks(state, 'I6');
  }
  const ended = record.state === Task.settled || record.state === Task.dead || record.state === Task.cancelled;
  if (ended && record.effect === Effect.intended) breaks(state, 'Close');
  if (record.state === Task.cancelled && record.effect === Effect.verified) breaks(state, 'Close');
  if (record.state === Task.settled && receiver.effects === 0) breaks(state, 'Receipt');
}
