import type { LeaseholdEvent } from '@leasehold/core';
import type { GuardEvent } from '@leasehold/guard';
import type { Place } from './place.ts';

/**
 * What the demo does to the tasks on purpose. `kill`: SIGKILL between commit and settle. `stop`: SIGSTOP between the last check and the call,
 * past the lease. `drop`: the answer of a commit is lost. `cancel`: called off from outside while it runs.
 */
export type FaultName = 'kill' | 'stop' | 'drop' | 'cancel';

/** The task that each fault hits, by id. */
export type FaultPlan = Readonly<Record<FaultName, string>>;

/** A fault's moment has come: the process `pid` is where it has to be for it. */
export interface Caught {
  readonly kind: 'caught';
  readonly fault: FaultName;
  readonly taskId: string;
  readonly pid: number;
}

/** An answer to a call that committed something, and whether it reached the caller. */
export interface Answered {
  readonly kind: 'answered';
  readonly key: string;
  readonly delivered: boolean;
}

/** What embedded servers tell the demo: where they are. */
export interface Serving {
  readonly kind: 'serving';
  readonly sqs: string;
  readonly dynamodb: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** What the service tells the demo. */
export type ServiceSays =
  | { readonly kind: 'listening'; readonly url: string }
  | { readonly kind: 'guard'; readonly event: GuardEvent }
  | Answered
  | Caught;

/** What the demo tells the service: what was held back for a fault may go on. */
export interface LetGo {
  readonly kind: 'let-go';
  readonly fault: FaultName;
  /** The process that was killed: its calls may look alive for a moment longer. */
  readonly killed?: number;
}

/** What a worker tells the demo. `bye` is its last word: everything before it has arrived. */
export type WorkerSays =
  | { readonly kind: 'ready' }
  | { readonly kind: 'event'; readonly event: LeaseholdEvent }
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'bye' };

/** How the service is started. */
export interface ServiceOptions {
  readonly file: string;
  readonly faults: FaultPlan;
}

/** How a worker is started. */
export interface WorkerOptions {
  readonly place: Place;
  readonly url: string;
  readonly name: string;
}

/** The options a child process was started with. */
export function startOptions(): unknown {
  return JSON.parse(process.argv[2] ?? 'null');
}

/** Tells the parent, if it is still there. Resolves when it was handed over. */
export function tellParent(message: ServiceSays | WorkerSays | Serving): Promise<void> {
  return new Promise((resolve) => {
    if (!process.connected || !process.send) resolve();
    // A parent that is gone needs no telling: the child's `disconnect` listener ends it.
    else process.send(message, () => resolve());
  });
}
