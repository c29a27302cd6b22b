import { LeaseholdError, sleep, systemClock, type VirtualClock } from '@leasehold/core';
import type { RunTaskOptions } from './run-options.ts';
import { idle, type TaskWorld } from './task-world.ts';

const HOUR_MS = 3_600_000;

/** Whether the run is over, or something was just begun. */
export type Turn = 'over' | 'started' | 'waiting';

/** Lets virtual time pass while nothing of the user's runs. */
export async function playOut(
  world: TaskWorld,
  clock: VirtualClock,
  turn: () => Turn,
  options: Pick<RunTaskOptions, 'timeoutMs' | 'realWaitMs' | 'hangs'>,
  leaseMs: number,
): Promise<void> {
  const real = systemClock();
  const realWaitMs = options.realWaitMs ?? (options.hangs ? 50 : 5_000);
  const endsAt = clock.monotonic() + (options.timeoutMs ?? Math.max(HOUR_MS, 20 * leaseMs));
  let turns = -1;
  let since = 0;
  let spins = 0;
  for (;;) {
    if (world.turns !== turns || !world.busy) {
      turns = world.turns;
      since = real.monotonic();
      spins = 0;
    }
    const hung = real.monotonic() - since >= realWaitMs;
    if (hung && !options.hangs) throw stuck(world, realWaitMs);
    let state = 'waiting' as Turn;
    const stop = (): boolean => {
      // What was started has to get going before the next timer is looked for.
      if (state === 'waiting') state = turn();
      return state !== 'waiting' || (world.busy && (!hung || world.turns !== turns));
    };
    await clock.runUntil(stop, endsAt - clock.monotonic());
    if (world.endless) throw endless(world);
    if (state === 'over' || clock.monotonic() >= endsAt) return;
    // Real input and output come in with the turns of the event loop; most are there within a few.
    if (spins++ > 20) await sleep(real, 2);
  }
}

function endless({ calls }: TaskWorld): LeaseholdError {
  const last = calls.slice(-6).map(({ worker, what }) => `${worker} ${what}`);
  return new LeaseholdError(
    'timeout',
    `The task has made ${calls.length} calls and is not at its end; the last were: ${last.join('; ')}. Does it hand itself on without end?`,
  );
}

function stuck(world: TaskWorld, realWaitMs: number): LeaseholdError {
  const where = world.hosts
    .filter((host) => !idle(host) && host.activity.busy)
    .map(({ name, activity }) => `the ${name} worker in ${activity.last}`);
  return new LeaseholdError(
    'timeout',
    `For ${realWaitMs} ms of real time nothing came of ${where.join(' and ')}: it awaits something that the virtual clock does not move, such as a real timer or request. ` +
      'Pass doubles as fetch or effects, give the handler the virtual clock and pass it as clock, raise realWaitMs, or say hangs: true if it is meant to hang.',
    { field: 'realWaitMs' },
  );
}
