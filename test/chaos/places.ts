import { join } from 'node:path';
import type { ChildCommon, ProducerStart, ReceiverStart, WorkerStart } from './child.ts';
import { FakeClock } from './fake-time.ts';
import type { ChildOptions, Child, Fleet } from './fleet.ts';
import { freePort, openLink, type Link } from './link.ts';
import { moment } from './moments.ts';
import type { Place } from './place.ts';
import type { Backend } from './profiles.ts';
import type { RunOptions } from './run-options.ts';
import type { Watch } from './watch.ts';

/** The share of the time in which tasks are asked for: the last ones are to meet faults as well. */
export const PRODUCTION = 0.85;
const DRAIN_MS = 3_000;

/** Every place of a run, with its first process started. */
export interface Places {
  readonly all: readonly Place[];
  readonly workers: readonly Place[];
  readonly receiver: Place;
  readonly producer: Place;
  readonly receiverUrl: string;
  readonly links: readonly Link[];
  /** When the producer began, on the machine's monotonic clock. */
  readonly startedAt: number;
}

/** Starts receiver, workers and producer, with a network between each worker and each server. */
export async function openPlaces(parts: {
  readonly options: RunOptions;
  readonly leaseMs: number;
  readonly backend: Backend;
  readonly fleet: Fleet;
  readonly watch: Watch;
  readonly journals: string;
}): Promise<Places> {
  const { options, leaseMs, backend, fleet, watch, journals } = parts;
  const { seed, plant, directory, tasks, minutes } = options;
  const wallOffsetMs = Date.now() - moment();
  const common = (who: string, ports: Readonly<Record<string, number>>): ChildCommon => ({
    who,
    journals,
    connection: backend.connection(ports),
    seed,
    wallOffsetMs,
    ...(plant && { plant }),
  });
  const place = (
    name: string,
    entry: ChildOptions['entry'],
    links: ReadonlyMap<string, Link>,
    startOf: (who: string) => object,
  ): Place => {
    const clock = options.fakeTime === undefined ? undefined : new FakeClock(options.fakeTime, directory, name);
    let count = 0;
    const start = (): Child => {
      const who = `${name}.${++count}`;
      return fleet.start({
        entry,
        who,
        options: startOf(who),
        heard: (what) => watch.heard(who, what),
        finishes: name === 'producer',
        ...(clock && { env: clock.env }),
      });
    };
    let child = start();
    return {
      name,
      clock,
      links,
      get child() {
        return child;
      },
      get finished() {
        return child.ended === '0' && name === 'producer';
      },
      next: () => void (child = start()),
    };
  };

  const port = await freePort();
  const receiver = place('receiver', 'receiver-process', new Map(), (who): ReceiverStart => ({
    ...common(who, backend.ports),
    port,
    charges: join(directory, 'charges.jsonl'),
  }));
  await receiver.child.ready;
  const links: Link[] = [];
  const workers: Place[] = [];
  for (let index = 1; index <= options.workers; index++) {
    const own = new Map<string, Link>();
    for (const [name, target] of Object.entries({ ...backend.ports, receiver: port }))
      own.set(name, await openLink(name, target));
    links.push(...own.values());
    const ports = Object.fromEntries([...own].map(([name, link]) => [name, link.port]));
    const startOf = (who: string): WorkerStart => ({
      ...common(who, ports),
      receiverUrl: `http://127.0.0.1:${ports['receiver']}`,
      leaseMs,
      drainMs: DRAIN_MS,
    });
    workers.push(place(`worker-${index}`, 'worker-process', own, startOf));
  }
  await Promise.all(workers.map(({ child }) => child.ready));
  const startedAt = moment();
  const producer = place('producer', 'producer-process', new Map(), (who): ProducerStart => ({
    ...common(who, backend.ports),
    tasks,
    windowMs: minutes * 60_000 * PRODUCTION,
    startedAt,
  }));
  return {
    all: [...workers, receiver, producer],
    workers,
    receiver,
    producer,
    receiverUrl: `http://127.0.0.1:${port}`,
    links,
    startedAt,
  };
}
