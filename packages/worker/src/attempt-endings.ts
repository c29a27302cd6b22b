import { openEffects, type Outcome, type TaskError } from '@leasehold/core';
import type { Attempt } from './attempt.ts';
import type { AttemptOutcome } from './attempt-services.ts';
import { closeOpenEffects } from './closing.ts';
import { toTaskError } from './redact.ts';

/** Passes the task on to a fresh attempt. */
export function handOff(attempt: Attempt, reason: string): Promise<AttemptOutcome> {
  const { port, progressed } = attempt;
  return giveBack(attempt, 'handed-off', () => port.handOff({ reason, progressed }));
}

/** Lets the task be claimed again after `delayMs`. */
export function release(
  attempt: Attempt,
  error: TaskError,
  delayMs: number,
  failure: boolean,
): Promise<AttemptOutcome> {
  return giveBack(attempt, 'released', () => attempt.port.release({ error, delayMs, failure }));
}

/** Leaves the task to a person. */
export async function askHuman(attempt: Attempt, question: string): Promise<AttemptOutcome> {
  let unfit: unknown;
  const ended = await giveBack(attempt, 'waiting-human', async () => {
    try {
      return await attempt.port.askHuman(question);
    } catch (error) {
      unfit = error;
      return 'unknown';
    }
  });
  // The message does not fit into the record, and will not the next time.
  return unfit === undefined ? ended : close(attempt, 'dead-lettered', toTaskError(unfit));
}

/** Out by another path than settling. With an effect open: a new token, read back, then the end. */
export async function close(
  attempt: Attempt,
  to: 'dead-lettered' | 'cancelled',
  error: TaskError,
): Promise<AttemptOutcome> {
  const { task, port, services } = attempt;
  const open = openEffects(task.record).filter((name) => task.carriedFinding(name) === undefined);
  if (to === 'dead-lettered' && open.length === 0) {
    services.heartbeat.drop(attempt);
    return outcomeOf(await port.deadLetter(error), 'dead-lettered');
  }
  attempt.closing = true;
  services.heartbeat.keep(attempt);
  const closing = {
    to: to === 'cancelled' ? 'cancelled' : 'dead_lettered',
    reason: error.message,
    errorClass: error.errorClass,
  } as const;
  const begun = await port.beginClose(closing);
  return begun === 'done' ? finishClosing(attempt, to) : outcomeOf(begun, to);
}

/** A closing that has begun: reads back what is open, then ends the task. */
export async function finishClosing(attempt: Attempt, to: 'dead-lettered' | 'cancelled'): Promise<AttemptOutcome> {
  const { task, port, services, limits } = attempt;
  if (task.lost) return 'lost';
  // The handler has ended, and its limits with it. What is read back has bounds of its own, and needs the lease until it is done.
  limits.stop();
  services.heartbeat.keep(attempt);
  await closeOpenEffects(attempt);
  if (task.lost) return 'lost';
  services.heartbeat.drop(attempt);
  const ended = await port.endClose();
  if (ended !== 'done' || task.record.state !== 'running') return outcomeOf(ended, to);
  // What exists outside cannot be cancelled: the next attempt finds it verified and settles.
  const error = {
    errorClass: 'settle-wins',
    code: 'settle-wins',
    message: 'an effect exists already, so the task goes on to settle',
  };
  return release(attempt, error, 0, false);
}

/** Nothing is given back while a call of the attempt goes on. No beat is to meet the write that ends the lease. */
async function giveBack(
  attempt: Attempt,
  done: AttemptOutcome,
  write: () => Promise<Outcome>,
): Promise<AttemptOutcome> {
  if (attempt.abandoned.length > 0) return attempt.leaked(Promise.all(attempt.abandoned));
  attempt.services.heartbeat.drop(attempt);
  return outcomeOf(await write(), done);
}

function outcomeOf(outcome: Outcome, done: AttemptOutcome): AttemptOutcome {
  if (outcome === 'done') return done;
  if (outcome === 'unknown') return 'unknown';
  return 'lost' in outcome ? 'lost' : 'unknown';
}
