import { join } from 'node:path';
import { tcpProxy, type TcpProxy } from '@leasehold/emulators';
import type { ChildCommon, ProducerStart, ReceiverStart, WorkerStart } from './child.ts';
import { FakeClock } from './fake-time.ts';
import type { ChildOptions, Child, Fleet } from './fleet.ts';
import { freePort } from './free-port.ts';
import { moment } from './moments.ts';
import type { Place } from './place.ts';
import type { Backend, Profile } from './profiles.ts';
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
  readonly links: readonly TcpProxy[];
  /** When the producer began, on the machine's monotonic clock. */
  readonly startedAt: number;
}

/** Starts receiver, workers and producer, with a network between each worker and each server. */
export async function openPlaces(parts: {
  readonly options: RunOptions;
  readonly profile: Profile;
  readonly backend: Backend;
  readonly fleet: Fleet;
  readonly watch: Watch;
  readonly journals: string;
}): Promise<Places> {
  const { options, profile, backend, fleet, watch, journals } = parts;
  const { seed, plant, directory, tasks, minutes } = options;
  const wallOffsetMs = Date.now() - moment();
  const links: TcpProxy[] = [];
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
    own: ReadonlyMap<string, TcpProxy>,
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
      links: own,
      get child() {
        return child;
      },
      get finished() {
        return child.ended === '0' && name === 'producer';
      },
      next: () => void (child = start()),
    };
  };

  /** The links of one place, and the ports by which its processes are to use them. */
  const network = async (
    targets: Readonly<Record<string, number | undefined>>,
  ): Promise<{ readonly own: ReadonlyMap<string, TcpProxy>; readonly ports: Readonly<Record<string, number>> }> => {
    const own = new Map<string, TcpProxy>();
    for (const [name, target] of Object.entries(targets))
      if (target !== undefined) own.set(name, await tcpProxy(target));
    links.push(...own.values());
    return { own, ports: Object.fromEntries([...own].map(([name, { port }]) => [name, port])) };
  };
  const behind = (names: readonly string[]): Readonly<Record<string, number | undefined>> =>
    Object.fromEntries(names.map((name) => [name, backend.ports[name]]));

  const port = await freePort();
  const store = await network(behind(profile.links.receiver));
  const receiver = place('receiver', 'receiver-process', store.own, (who): ReceiverStart => ({
    ...common(who, store.ports),
    port,
    charges: join(directory, 'charges.jsonl'),
  }));
  await receiver.child.ready;
  const workers: Place[] = [];
  for (let index = 1; index <= options.workers; index++) {
    const { own, ports } = await network({ ...behind(profile.links.worker), receiver: port });
    const startOf = (who: string): WorkerStart => ({
      ...common(who, ports),
      receiverUrl: `http://127.0.0.1:${ports['receiver']}`,
      leaseMs: profile.leaseMs,
      drainMs: DRAIN_MS,
    });
    workers.push(place(`worker-${index}`, 'worker-process', own, startOf));
  }
  await Promise.all(workers.map(({ child }) => child.ready));
  const startedAt = moment();
  const road = await network(behind(profile.links.producer));
  const producer = place('producer', 'producer-process', road.own, (who): ProducerStart => ({
    ...common(who, road.ports),
    tasks,
    windowMs: minutes * 60_000 * PRODUCTION,
    startedAt,
  }));
  const all = [...workers, receiver, producer];
  if (backend.servers) all.push(standing('servers', backend.servers));
  return { all, workers, receiver, producer, receiverUrl: `http://127.0.0.1:${port}`, links, startedAt };
}

/** The place of a process that is not started again. */
function standing(name: string, child: Child): Place {
  const next = (): never => {
    throw new Error(`${name} ended, and with it everything that it kept.`);
  };
  return { name, clock: undefined, links: new Map(), child, finished: false, next };
}
