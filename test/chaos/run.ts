import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isTerminal, type TaskRecord } from '@leasehold/core';
import type { Evidence, FaultDone, Violation } from './evidence.ts';
import { planFaults } from './fault-plan.ts';
import { Fleet } from './fleet.ts';
import { moment } from './moments.ts';
import { befall, heal, type FaultHost, type Place } from './place.ts';
import { openPlaces, PRODUCTION, type Places } from './places.ts';
import { PROFILES, type Backend } from './profiles.ts';
import type { Row } from './receiver.ts';
import type { Progress, RunOptions } from './run-options.ts';
import { childrenOf, planTasks, type TaskPlan } from './task-plan.ts';
import { Watch } from './watch.ts';

const SAW_CLOCK_MS = 20_000;
/** The rest does not end any more when no task has ended for so long. */
const STALL_MS = 90_000;
/** With a weakness planted, tasks are expected to get stuck. */
const PLANTED_STALL_MS = 15_000;
const LOOK_MS = 500;
const PROGRESS_MS = 1_000;
/** Against hanging: a process that is asked to end has to be gone long before. */
const PATIENCE_MS = 60_000;
const CALL_MS = 20_000;
const PAGE = 500;

/** What a run brought to light. `troubles`: what went wrong while it ran. */
export interface Played {
  readonly evidence: Evidence;
  readonly troubles: readonly Violation[];
}

/** Plays a run from the first process to the last: everything but the verdict. Rejects when `signal` aborts; nothing is left running either way. */
export async function playRun(
  options: RunOptions,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<Played> {
  const profile = PROFILES[options.profile];
  if (!profile)
    throw new RangeError(
      `profile ${options.profile} is not in the table; there are ${Object.keys(PROFILES).join(', ')}.`,
    );
  const { leaseMs, clockErrorMs, brokerDelayMs } = profile;
  const { seed, tasks, minutes, directory } = options;
  const windowMs = minutes * 60_000;
  const plan = planTasks({ seed, tasks, windowMs: windowMs * PRODUCTION });
  const planned = planFaults({
    seed,
    windowMs,
    leaseMs,
    workers: Array.from({ length: options.workers }, (_, index) => `worker-${index + 1}`),
    links: { ...profile.links, worker: ['receiver', ...profile.links.worker] },
    servers: profile.hasServers,
    kinds: options.faults,
  });
  const journals = join(directory, 'journals');
  mkdirSync(journals, { recursive: true });
  const watch = new Watch(journals);
  const faults: FaultDone[] = [];
  const troubles: Violation[] = [];
  const fleet = new Fleet(directory, (who, how) =>
    troubles.push({ of: 'process', what: `${who} ended by itself (${how})` }),
  );
  let backend: Backend | undefined;
  let places: Places | undefined;
  let phase: Progress['phase'] = 'faults';
  const telling = setInterval(() => {
    if (!places) return;
    const { workers, startedAt } = places;
    onProgress({
      phase,
      elapsedMs: moment() - startedAt,
      planned: plan.tasks.length,
      asked: new Set(watch.entries.flatMap((said) => (said.kind === 'step' ? said.taskIds : []))).size,
      ended: watch.writes.ended.size,
      workers: workers.length,
      workersAlive: workers.filter(({ child }) => child.ended === undefined).length,
      faultsPlanned: planned.length,
      faultsDone: faults.length,
    });
  }, PROGRESS_MS);
  const host: FaultHost = {
    pause: (ms) => pause(ms, undefined, { signal }),
    await(aim, child, ms) {
      const place = aim === 'calling' ? child : places?.receiver.child;
      place?.tell({ kind: 'linger', worker: child.who });
      return watch.moment(aim, child, ms);
    },
    mayStop: () => backend?.mayStop() ?? true,
    sawClock: (child, shiftMs) => watch.clock(child, shiftMs, SAW_CLOCK_MS),
    done: (fault) => void faults.push(fault),
    stubborn: (who) => void troubles.push({ of: 'I10', what: `${who} did not end by itself after SIGTERM` }),
  };
  try {
    const stores = (backend = await profile.open(directory, fleet));
    const opened = (places = await openPlaces({ options, profile, backend: stores, fleet, watch, journals }));
    await Promise.all(
      opened.all.map(async (place) => {
        for (const fault of planned.filter((one) => one.place === place.name)) {
          await host.pause(Math.max(0, opened.startedAt + fault.at - moment()));
          await befall(place, fault, host);
        }
      }),
    );
    phase = 'settling';
    for (const link of opened.links) heal(link);
    await settled({
      plan,
      watch,
      backend: stores,
      places: opened,
      signal,
      stallMs: options.plant ? PLANTED_STALL_MS : STALL_MS,
      trouble: (violation) => troubles.push(violation),
    });
    await end(opened.workers, host);
    const rows = (await (
      await fetch(`${opened.receiverUrl}/rows`, { signal: AbortSignal.timeout(CALL_MS) })
    ).json()) as readonly Row[];
    await end([opened.receiver], host);
    watch.read();
    const evidence: Evidence = {
      plan,
      timing: { leaseMs, clockErrorMs, brokerDelayMs },
      entries: watch.entries,
      writes: watch.writes.all,
      faults,
      records: await recordsOf(plan, stores),
      deadLetters: await stores.deadLetters(),
      rows,
      left: await stores.left(),
    };
    return { evidence, troubles };
  } finally {
    clearInterval(telling);
    await fleet.end();
    await Promise.all((places?.links ?? []).map((link) => link.close()));
    await backend?.close();
    watch.close();
  }
}

/** Waits until every task has ended and the queue is empty, or nothing moves any more. */
async function settled(parts: {
  readonly plan: TaskPlan;
  readonly watch: Watch;
  readonly backend: Backend;
  readonly places: Places;
  readonly signal: AbortSignal;
  readonly stallMs: number;
  readonly trouble: (violation: Violation) => void;
}): Promise<void> {
  const { plan, watch, backend, places, signal, stallMs } = parts;
  watch.movedAt = moment();
  for (;;) {
    await pause(LOOK_MS, undefined, { signal });
    for (const place of places.all) if (place.child.ended !== undefined && !place.finished) place.next();
    watch.read();
    const open = openTasks(plan, watch.writes.ended);
    // An answer may have been lost with its process: the ledger knows.
    if (open.length > 0 && moment() - watch.movedAt > LOOK_MS * 4) await lookUp(open, backend, watch);
    if (openTasks(plan, watch.writes.ended).length === 0 && places.producer.finished && (await backend.left()) === 0)
      return;
    if (moment() - watch.movedAt < stallMs) continue;
    const what = `nothing moves any more: ${open.length} tasks without an end, ${await backend.left()} messages in the queue`;
    return parts.trouble({
      of: 'liveness',
      what: `${what}${places.producer.finished ? '' : ', the producer has not finished'}`,
    });
  }
}

function openTasks(plan: TaskPlan, ended: ReadonlyMap<string, string>): readonly string[] {
  return plan.tasks
    .flatMap((task) => [task, ...(ended.get(task.taskId) === 'settled' ? childrenOf(task) : [])])
    .flatMap(({ taskId }) => (ended.has(taskId) ? [] : [taskId]));
}

async function lookUp(taskIds: readonly string[], backend: Backend, watch: Watch): Promise<void> {
  for (const taskId of taskIds) {
    const { record } = await backend.ledger.get(taskId, AbortSignal.timeout(CALL_MS));
    if (record && isTerminal(record.state)) watch.writes.ended.set(taskId, record.state);
  }
}

/** Asks processes to end, which they have to do by themselves. */
async function end(places: readonly Place[], host: FaultHost): Promise<void> {
  await Promise.all(
    places.map(async ({ child }) => {
      if (child.ended === undefined && !(await child.end(PATIENCE_MS))) host.stubborn(child.who);
    }),
  );
}

/** Every record there is: read one by one, and listed, so that one that nobody asked for shows. */
async function recordsOf(plan: TaskPlan, backend: Backend): Promise<ReadonlyMap<string, TaskRecord>> {
  const records = new Map<string, TaskRecord>();
  let cursor: string | undefined;
  do {
    const page = await backend.ledger.list(
      { limit: PAGE, ...(cursor !== undefined && { cursor }) },
      AbortSignal.timeout(CALL_MS),
    );
    for (const record of page.records) records.set(record.taskId, record);
    cursor = page.cursor;
  } while (cursor !== undefined);
  for (const { taskId } of plan.tasks.flatMap((task) => [task, ...childrenOf(task)])) {
    const { record } = await backend.ledger.get(taskId, AbortSignal.timeout(CALL_MS));
    if (record) records.set(taskId, record);
  }
  return records;
}
