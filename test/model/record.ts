import { ATTEMPTS, breaks, setToken, type Step } from './step.ts';
import { Closing, Effect, Task, Write, type State, type TaskRecord, type Who } from './state.ts';

/** A write as it travels. */
export interface Sent {
  readonly kind: number;
  /** Ticks left of its first sending + L. */
  readonly left: number;
  /** The token of the record it was decided from. */
  readonly token: number;
  /** The finding that rides on it. */
  readonly found: number;
}

/** What the store may say to the write's condition on the lease: near its end, with an uncertain clock, either. */
export function verdicts({ rules }: Step, { state, lease }: TaskRecord, kind: number): readonly boolean[] {
  if (kind === Write.claim) {
    if (state !== Task.running || !rules['busy']) return [true];
    return lease === 1 || (lease === 2 && !rules['safe-end']) ? [true, false] : [lease < 2];
  }
  if (!rules['live-check']) return [true];
  const left = state === Task.running ? lease : 0;
  return left === 2 || (left === 1 && !rules['safe-end']) ? [true, false] : [left > 2];
}

/** The store takes the write: version and lease are as expected. Everybody else's picture of the record is old now. */
export function applyWrite(step: Step, next: State, who: Who, sent: Sent): void {
  if (sent.kind === Write.claim) grant(step, next, who, sent);
  else ownersWrite(step, next, who, sent);
  for (const worker of next.workers) {
    worker.fresh = 0;
    worker.applied = 0;
    // It expects a version that is gone.
    if (step.rules['version-check']) clearLate(worker);
  }
}

/** Nothing that was given up is on its way any more. */
export function clearLate(worker: State['workers'][Who]): void {
  worker.late = Write.nothing;
  worker.lateLeft = 0;
  worker.lateToken = 0;
  worker.lateFound = 0;
}

function stamp({ rules }: Step, next: State, left: number): void {
  next.record.lease = rules['not-beyond'] ? left + 1 : 3;
  if (next.record.lease > left + 1) breaks(next, 'I7');
}

/** What a claim examines: whether the task may still be tried. */
function wayOut({ rules }: Step, record: TaskRecord): number {
  const begun = record.closing === Closing.cancelled && record.effect === Effect.verified ? Closing.no : record.closing;
  if (begun !== Closing.no || !rules['claim-examines']) return begun;
  if (record.cancel === 1 && record.effect !== Effect.verified) return Closing.cancelled;
  return record.failures >= ATTEMPTS ? Closing.dead : Closing.no;
}

function grant(step: Step, next: State, who: Who, sent: Sent): void {
  const { record } = next;
  if (record.state === Task.running) {
    if (record.lease >= 2) breaks(next, 'One');
    record.failures = Math.min(ATTEMPTS, record.failures + 1);
  }
  // A redrive: the claim was decided on a message that bears the current token.
  if (record.state === Task.dead) record.failures = 0;
  const closing = wayOut(step, record);
  if (closing !== Closing.no && record.effect !== Effect.intended) {
    if (closing === Closing.dead) bury(step, next);
    else end(next, Task.cancelled);
    return;
  }
  if (closing === Closing.no && record.failures >= ATTEMPTS) breaks(next, 'Attempts');
  setToken(next, step.rules['token-plus-one'] ? sent.token + 1 : Math.max(1, sent.token));
  record.state = Task.running;
  record.owner = who;
  record.closing = closing;
  stamp(step, next, sent.left);
}

function ownersWrite(step: Step, next: State, who: Who, sent: Sent): void {
  const { record } = next;
  const { rules, receiver } = step;
  if (sent.token < record.token) breaks(next, 'I1');
  if (record.state !== Task.running || record.lease < 2) breaks(next, 'I7');
  if (record.owner !== who) breaks(next, 'I3');
  // What was once read back exists, whatever a later look makes of it.
  if (sent.found > 0 && record.effect !== Effect.none && record.effect !== Effect.verified) record.effect = sent.found;
  switch (sent.kind) {
    case Write.renew:
      break;
    case Write.intend:
      record.effect = Effect.intended;
      record.sinceIntent = 0;
      break;
    case Write.settle:
      record.settles += 1;
      if (record.settles > 1) breaks(next, 'I2');
      end(next, Task.settled);
      return;
    case Write.release:
    case Write.giveUp:
      if (next.calls.some((call) => call.caller === who + 1)) breaks(next, 'One');
      if (sent.kind === Write.giveUp) record.failures = Math.min(ATTEMPTS, record.failures + 1);
      record.state = Task.queued;
      record.lease = 0;
      return;
    case Write.deadLetter:
      end(next, Task.dead);
      return;
    case Write.closeAsDead:
    case Write.closeAsCancelled:
      record.closing = sent.kind === Write.closeAsDead ? Closing.dead : Closing.cancelled;
      if (rules['close-takes-token']) setToken(next, record.token + 1);
      break;
    case Write.endClose:
      if (record.closing !== Closing.cancelled || record.effect !== Effect.verified || !rules['settle-wins']) {
        end(next, record.closing === Closing.dead ? Task.dead : Task.cancelled);
        return;
      }
      // What exists outside cannot be cancelled any more: the task goes on to settle.
      record.closing = Closing.no;
      record.cancel = 0;
      break;
    case Write.askHuman:
      record.state = Task.human;
      record.lease = 0;
      return;
    default:
      throw new Error(`There is no write ${sent.kind}.`);
  }
  stamp(step, next, sent.left);
  if (receiver !== 'plain' || record.effect !== Effect.intended) record.sinceIntent = 0;
}

/** Dead-lettered by one who holds no lease. Copies sent before bear the token of then, and must not look like a redrive. */
export function bury({ rules }: Step, next: State): void {
  if (rules['bury-takes-token']) setToken(next, next.record.token + 1);
  end(next, Task.dead);
}

/** A terminal state. */
export function end(next: State, state: number): void {
  const { record } = next;
  record.state = state;
  record.lease = 0;
  record.closing = Closing.no;
  record.cancel = 0;
  record.sinceIntent = 0;
}
