import type { Connection } from './drivers.ts';
import { moment } from './moments.ts';
import type { Plant } from './plants.ts';
import type { Linger, Moment, Said } from './said.ts';

/** What every child process is told. */
export interface ChildCommon {
  readonly who: string;
  readonly journals: string;
  readonly connection: Connection;
  readonly seed: number;
  /** What the machine's wall clock is ahead of its monotonic one. */
  readonly wallOffsetMs: number;
  readonly plant?: Plant;
}

/** How a worker is started. */
export interface WorkerStart extends ChildCommon {
  readonly receiverUrl: string;
  readonly leaseMs: number;
  readonly drainMs: number;
}

/** How the receiver is started. */
export interface ReceiverStart extends ChildCommon {
  readonly port: number;
  /** Where it keeps the charges it has made: a file that is only ever appended to. */
  readonly charges: string;
}

/** How the producer is started. */
export interface ProducerStart extends ChildCommon {
  readonly tasks: number;
  readonly windowMs: number;
  /** When the run began, on the machine's monotonic clock. */
  readonly startedAt: number;
}

/** How the servers are started. */
export interface ServersStart {
  readonly sqsPort: number;
  readonly dynamoDbPort: number;
  readonly queue: string;
}

/** The options a child process was started with. */
export function startOptions(): unknown {
  return JSON.parse(process.argv[2] ?? 'null');
}

/** Tells the parent of a moment at once. */
export function tellParent(now: Moment): void {
  // A parent that is gone needs no telling: the kernel ends its children.
  if (process.connected && process.send) process.send(now, () => undefined);
}

/** For the parent to hear of a moment and to act, on a busy machine. */
const LINGER_MS = 2_000;

/** How long to take at a moment of a worker: long once after the parent has asked for it. */
export function lingering(): (worker: string) => number {
  const asked = new Set<string>();
  process.on('message', (message: Linger) => asked.add(message.worker));
  return (worker) => (asked.delete(worker) ? LINGER_MS : 0);
}

const LOOK_MS = 200;
const STEP_MS = 1_000;

/** Writes down how far the wall clock is from the machine's whenever that changes, so that a shift is seen to have reached this process. */
export function watchClock(start: Pick<ChildCommon, 'wallOffsetMs'>, say: (said: Said) => void): void {
  let said = 0;
  const look = (): void => {
    const shiftMs = Math.round(Date.now() - (moment() + start.wallOffsetMs));
    if (Math.abs(shiftMs - said) < STEP_MS) return;
    said = shiftMs;
    say({ kind: 'clock', shiftMs });
  };
  look();
  setInterval(look, LOOK_MS).unref();
}
