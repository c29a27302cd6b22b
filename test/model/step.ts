import type { Invariant, ReceiverKind, RuleName } from './rules.ts';
import { INVARIANT_NAMES } from './rules.ts';
import { At, Bears, Message, Task, Write, type State, type Who, type Worker } from './state.ts';

/** Failures after which a task is not tried again. */
export const ATTEMPTS = 2;
/** A lease, in ticks; a tick is as long as the margin. */
export const LEASE = 2;
/** A call to a plain receiver is over within so many ticks: its quiet time. */
export const QUIET = 2;

/** Which rules hold. */
export type Rules = Readonly<Record<RuleName, boolean>>;

/** A state, and a way to say what may come after it. */
export interface Step {
  readonly rules: Rules;
  readonly receiver: ReceiverKind;
  readonly from: State;
  /** A copy of the state, to be changed and emitted before the next one is asked for. */
  fork(): State;
  /** What happens by itself. In `what`, % stands for `about`: text is put together only for a trace. */
  emit(what: string, next: State, who?: Who, about?: string | number): void;
  /** What is one of the faults, of which only so many happen. Call it only while `faults` is above 0. */
  fault(what: string, next: State, who?: Who, about?: string | number): void;
}

/** Says that a step broke an invariant. The first one stays. */
export function breaks(state: State, invariant: Invariant): void {
  if (state.world.broken === 0) state.world.broken = INVARIANT_NAMES.indexOf(invariant) + 1;
}

/** The invariant that was broken on the way to this state. */
export function broken(state: State): Invariant | undefined {
  const { broken: number } = state.world;
  return number === 0 ? undefined : INVARIANT_NAMES[number - 1];
}

/** Whether the worker is at a step that needs the lease. */
export function holds(worker: Worker): boolean {
  return worker.at >= At.work && worker.at <= At.askHuman;
}

/** Ownership as the worker judges it. */
export function isHeld(rules: Rules, worker: Worker): boolean {
  if (worker.unknown === 1 && rules['unanswered-is-unknown']) return false;
  if (worker.slept > 0 && rules['sleep']) return false;
  return worker.time === LEASE;
}

/** The truth that no one in the system can see: this worker has the task, under a live lease. */
export function owns(state: State, who: Who): boolean {
  const { record } = state;
  const worker = state.workers[who];
  return record.state === Task.running && record.owner === who && record.token === worker.token && record.lease >= 2;
}

/** A new fencing token. Messages that bore the one before bear an old one from now on. */
export function setToken(state: State, token: number): void {
  if (token <= state.record.granted) breaks(state, 'I1');
  state.record.token = token;
  state.record.granted = Math.max(token, state.record.granted);
  for (const message of state.messages) if (message.bears !== Bears.byBroker) message.bears = Bears.nothing;
}

/** The worker knows nothing of any task. What it gave up may still be on its way. */
export function forget(worker: Worker): void {
  forgetLease(worker);
  worker.at = At.idle;
  worker.message = 0;
  worker.stale = 0;
}

/** The lease is over, the message still in hand. */
export function forgetLease(worker: Worker): void {
  worker.token = 0;
  worker.effect = 0;
  worker.cancel = 0;
  worker.closing = 0;
  worker.fresh = 0;
  worker.time = 0;
  worker.unknown = 0;
  worker.slept = 0;
  worker.found = 0;
  worker.refused = 0;
  worker.write = Write.nothing;
  worker.left = 0;
  worker.carries = 0;
  worker.applied = 0;
  worker.intentLeft = 0;
}

/** The message goes back, by itself or by the broker's timer: it can be delivered again. */
export function dropMessage(state: State, who: Who): void {
  const worker = state.workers[who];
  const message = state.messages[worker.message - 1];
  if (message && worker.stale === 0) message.at = Message.visible;
  worker.message = 0;
  worker.stale = 0;
}

/** The message leaves the queue, for good or for the dead-letter queue: whatever other handle there is of it is worth nothing any more. */
export function removeMessage(state: State, who: Who, to: number): void {
  const taken = state.workers[who].message;
  const message = state.messages[taken - 1];
  if (!message) return;
  message.at = to;
  message.bears = to === Message.deadLettered && state.record.state === Task.dead ? Bears.redriven : Bears.nothing;
  for (const worker of state.workers) {
    if (worker.message !== taken) continue;
    worker.message = 0;
    worker.stale = 0;
  }
}

/** The worker stops waiting for its call; the call itself may still be on its way. */
export function abandonCalls(state: State, who: Who): void {
  for (const call of state.calls) if (call.caller === who + 1) call.caller = 0;
}
