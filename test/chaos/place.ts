import type { TcpProxy } from '@leasehold/emulators';
import type { FaultDone } from './evidence.ts';
import type { FakeClock } from './fake-time.ts';
import type { PlannedFault } from './fault-plan.ts';
import type { Child } from './fleet.ts';
import { moment } from './moments.ts';

/** What faults need of the run. */
export interface FaultHost {
  /** Rejects when the run is stopped. */
  pause(ms: number): Promise<void>;
  /** Waits for a moment of a process. False when it does not come, or the process is gone. */
  await(aim: 'calling' | 'stored', child: Child, ms: number): Promise<boolean>;
  /** Whether a process may stand still just now. */
  mayStop(): boolean;
  /** Whether the process has said that its clock is shifted by that much; waits for it. Absent when the process is gone. */
  sawClock(child: Child, shiftMs: number): Promise<boolean | undefined>;
  done(fault: FaultDone): void;
  /** It did not end when it was asked to. */
  stubborn(who: string): void;
}

/** A place in which one process at a time runs: a worker, the receiver, the producer, a server. */
export interface Place {
  readonly name: string;
  readonly clock: FakeClock | undefined;
  /** What lies between this place and the servers. */
  readonly links: ReadonlyMap<string, TcpProxy>;
  readonly child: Child;
  /** Whether its work is done, so that nothing can befall it any more. */
  readonly finished: boolean;
  /** Starts the next process. */
  next(): void;
}

const AIM_MS = 6_000;
const STOP_AGAIN_MS = 10;
/** Against hanging: what is asked to end has to be gone long before. */
const PATIENCE_MS = 60_000;

/** Does one fault to a place, from its beginning to its end. */
export async function befall(place: Place, fault: PlannedFault, host: FaultHost): Promise<void> {
  if (place.finished) return;
  if (place.child.ended !== undefined) place.next();
  const { child } = place;
  const { who } = child;
  const note = (at: number, detail: string, more: Partial<FaultDone> = {}): void =>
    host.done({ kind: fault.kind, place: place.name, who, at, until: moment(), detail, ...more });
  switch (fault.kind) {
    case 'kill': {
      const aimed = await aim(fault.aim, child, host);
      const at = moment();
      await child.kill();
      await host.pause(fault.downMs);
      place.next();
      return note(at, `for ${fault.downMs} ms`, aimed);
    }
    case 'stop': {
      const aimed = await aim(fault.aim, child, host);
      let at = moment();
      await child.stop();
      while (child.ended === undefined && !host.mayStop()) {
        // It stands in the middle of a transaction, and everybody else with it: not here.
        child.go();
        await host.pause(STOP_AGAIN_MS);
        at = moment();
        await child.stop();
      }
      await host.pause(fault.ms);
      child.go();
      return note(at, `for ${fault.ms} ms`, aimed);
    }
    case 'clock': {
      if (!place.clock) return;
      const at = moment();
      // The same once more would be no step.
      const shiftMs = place.clock.shiftMs === fault.shiftMs ? 0 : fault.shiftMs;
      place.clock.step(shiftMs);
      const seen = await host.sawClock(child, shiftMs);
      return note(at, `shifted by ${shiftMs / 60_000} min`, seen === undefined ? {} : { seen });
    }
    case 'restart': {
      const at = moment();
      if (!(await child.end(PATIENCE_MS)) && !place.finished) host.stubborn(who);
      if (!place.finished) place.next();
      return note(at, 'gracefully');
    }
    case 'cut':
    case 'delay': {
      const link = place.links.get(fault.link);
      if (!link) return;
      const at = moment();
      if (fault.kind === 'cut') link.cut(fault.how);
      else link.delay(fault.byMs);
      await host.pause(fault.ms);
      heal(link);
      const how = fault.kind === 'cut' ? `, ${fault.how}` : ` by ${fault.byMs} ms`;
      return note(at, `${fault.link} for ${fault.ms} ms${how}`);
    }
  }
}

/** Everything passes again, at once. */
export function heal(link: TcpProxy): void {
  link.delay(0);
  link.restore();
}

async function aim(
  at: 'any' | 'calling' | 'stored',
  child: Child,
  host: FaultHost,
): Promise<{ readonly aimed?: boolean }> {
  return at === 'any' ? {} : { aimed: await host.await(at, child, AIM_MS) };
}
