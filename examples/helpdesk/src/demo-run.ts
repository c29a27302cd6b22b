import { setTimeout as pause } from 'node:timers/promises';
import {
  cloudEvents,
  createLeaseBroker,
  createTaskClient,
  type Json,
  type NewTask,
  type OutgoingMessage,
  type TaskClient,
  type TaskRecord,
} from '@leasehold/core';
import { audit, type Violation } from './audit.ts';
import type { FaultPlan, ServiceSays, WorkerSays } from './child-messages.ts';
import type { EffectRow } from './effects.ts';
import { Gathering } from './evidence.ts';
import { createFleet, type Child, type Fleet } from './fleet.ts';
import type { Ground } from './place.ts';
import { missingEnd, progressOf, type DemoProgress } from './progress.ts';
import { HIT, playScenario } from './scenario.ts';
import { readToolCalls, taskOf } from './tool-calls.ts';

/** What a run is made of. */
export interface RunParts {
  readonly ground: Ground;
  readonly lookEveryMs: number;
  /** On the clock of `performance.now`. */
  readonly startedAt: number;
  /** Aborted, it ends the run; the run aborts it itself when a process of it ends. */
  readonly stopping: AbortController;
  /** Aborted, nobody wants to know how far it came. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: DemoProgress) => void;
  readonly onNote?: (note: string) => void;
}

const WORKERS = 3;
const ALL_ENDED = 'every task to end';
const LAST_LOOK_MS = 10_000;
/** What a producer sent whose connection broke in the middle. */
const POISON = '{"specversion":"1.0","type":"open_case","source":"leasehold","data":{"customer":"C-205';
const POISON_PLACE = 20;

/** One run of the demo, from the first process to the last. */
export class DemoRun {
  readonly #parts: RunParts;
  readonly #stopping: AbortController;
  readonly #gathering: Gathering;
  readonly #fleet: Fleet;
  readonly #client: TaskClient;
  readonly #calls: readonly (NewTask & { readonly taskId: string })[] = readToolCalls().map(taskOf);
  readonly #troubles: Violation[] = [];
  readonly #close: () => Promise<void>;
  #service: Child | undefined;
  #url = '';

  constructor(parts: RunParts) {
    const { ground, stopping } = parts;
    this.#parts = parts;
    this.#stopping = stopping;
    this.#gathering = new Gathering(stopping.signal);
    this.#fleet = createFleet((what) => {
      this.#troubles.push({ of: 'process', what });
      stopping.abort(new Error(what));
    });
    const broker = createLeaseBroker(ground.stores);
    this.#client = createTaskClient({ broker, ledger: ground.stores.ledger });
    this.#close = () => broker.close();
  }

  async play(): Promise<ReturnType<typeof audit> & { readonly records: readonly TaskRecord[] }> {
    const ended = new AbortController();
    let polling: Promise<void> | undefined;
    let effects: readonly EffectRow[] = [];
    try {
      await this.#startService();
      await Promise.all(Array.from({ length: WORKERS }, (_, index) => this.#startWorker(`worker-${index + 1}`)));
      polling = this.#poll(ended.signal);
      await this.#enqueue();
      await Promise.all([this.#scenario(), this.#allEnded()]);
    } catch (error) {
      this.#troubles.push({ of: 'demo', what: describe(error) });
    } finally {
      ended.abort();
      await polling;
      // Of a run that was interrupted nothing is to be said.
      if (!this.#parts.signal?.aborted) effects = await this.#evidence();
      await this.#fleet.end();
      await this.#close();
    }
    const { workers, service, caught, tokenHistory, records, queue } = this.#gathering;
    const all = [...records.values()];
    const found = audit({
      enqueued: this.#calls.map(({ taskId }) => taskId),
      poison: 1,
      records: all,
      tokenHistory,
      queue: queue ?? { waiting: 0, held: 0, deadLetters: [] },
      workers,
      service,
      effects,
      caught,
      resent: this.#plan.drop,
    });
    return { tally: found.tally, violations: [...this.#troubles, ...found.violations], records: all };
  }

  get #plan(): FaultPlan {
    const taskOfKey = (key: string): string => {
      const task = this.#calls.find(({ idempotencyKey }) => idempotencyKey === key);
      if (!task) throw new Error(`no call has the key ${key}`);
      return task.taskId;
    };
    return {
      kill: taskOfKey(HIT.kill),
      stop: taskOfKey(HIT.stop),
      drop: taskOfKey(HIT.drop),
      cancel: taskOfKey(HIT.cancel),
    };
  }

  async #startService(): Promise<void> {
    const options = { file: this.#parts.ground.serviceFile, faults: this.#plan };
    this.#service = this.#fleet.start('service-process', 'service', options, (message) => {
      const said = message as ServiceSays;
      if (said.kind === 'listening') this.#url = said.url;
      else if (said.kind === 'caught') this.#gathering.caught.push(said);
      else this.#gathering.service.push(said);
      this.#gathering.changed();
    });
    await this.#gathering.until('the service to listen', () => this.#url !== '');
  }

  async #startWorker(name: string): Promise<void> {
    let ready = false;
    const options = { place: this.#parts.ground.place, url: this.#url, name };
    this.#fleet.start('worker-process', name, options, (message, { pid }) => {
      const said = message as WorkerSays;
      if (said.kind === 'ready') ready = true;
      if (said.kind === 'warning') this.#parts.onNote?.(`${name} warns: ${said.text}`);
      if (said.kind === 'event') this.#gathering.workers.push({ pid, event: said.event });
      this.#gathering.changed();
    });
    await this.#gathering.until(`${name} to be ready`, () => ready);
  }

  async #enqueue(): Promise<void> {
    const send = async (tasks: readonly NewTask[]): Promise<void> => {
      const failed = (await this.#client.enqueue(tasks)).find((outcome) => !outcome.ok);
      if (failed) throw new Error(`a call could not be enqueued: ${JSON.stringify(failed)}`);
    };
    await send(this.#calls.slice(0, POISON_PLACE));
    await this.#send({ body: new TextEncoder().encode(POISON), attributes: {} });
    await send(this.#calls.slice(POISON_PLACE));
  }

  #scenario(): Promise<void> {
    return playScenario({
      plan: this.#plan,
      gathering: this.#gathering,
      client: this.#client,
      signal: this.#stopping.signal,
      isFree: () => this.#parts.ground.isFree(),
      childAt: (pid) => {
        const child = this.#fleet.children.find((one) => one.pid === pid);
        if (!child) throw new Error(`process ${pid} is none of the demo's`);
        return child;
      },
      letGo: (message) => this.#service?.tell(message),
      replace: ({ name }) => this.#startWorker(name),
      resend: (taskId) => this.#resend(taskId),
      note: (text) => this.#parts.onNote?.(text),
    });
  }

  async #resend(taskId: string): Promise<void> {
    const task = this.#calls.find((call) => call.taskId === taskId);
    if (!task) throw new Error(`no call has the task id ${taskId}`);
    const { type, idempotencyKey = taskId, agentRunId, input } = task;
    const message = cloudEvents().encode({
      type,
      taskId,
      idempotencyKey,
      payload: input as Json,
      ...(agentRunId !== undefined && { agentRunId }),
    });
    await this.#send(message);
  }

  /** Sends what is no task of its own, past the lease broker. */
  async #send(message: OutgoingMessage): Promise<void> {
    const [outcome] = await this.#parts.ground.stores.driver.send([message], this.#stopping.signal);
    if (!outcome || 'failed' in outcome)
      throw new Error(`a message could not be sent: ${outcome?.failed ?? 'no answer'}`);
  }

  /** Every task that is known of has ended, and the queue is empty. */
  async #allEnded(): Promise<void> {
    await this.#gathering.until(ALL_ENDED, () => this.#missingEnd() === undefined);
  }

  #missingEnd(): string | undefined {
    const { records, queue } = this.#gathering;
    return missingEnd(
      this.#calls.map(({ taskId }) => taskId),
      records,
      queue,
    );
  }

  async #poll(ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      try {
        await this.#look(this.#stopping.signal);
      } catch (error) {
        // Looked at again soon; a store that stays unreadable ends the demo by its time limit.
        if (!this.#stopping.signal.aborted) this.#parts.onNote?.(`the ledger could not be read: ${describe(error)}`);
      }
      await pause(this.#parts.lookEveryMs);
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    // The queue first: a message that is gone from it has its outcome in the ledger already.
    const queue = await this.#parts.ground.look(signal);
    const records: TaskRecord[] = [];
    let page = await this.#client.list({ limit: 1_000 });
    records.push(...page.records);
    while (page.cursor !== undefined) {
      page = await this.#client.list({ limit: 1_000, cursor: page.cursor });
      records.push(...page.records);
    }
    this.#gathering.polled(records, queue);
    this.#parts.onProgress?.(
      progressOf(records, page.now, this.#fleet.children, {
        elapsedMs: performance.now() - this.#parts.startedAt,
        waiting: queue.waiting,
        undecodable: new Set(queue.deadLetters.flatMap(({ of, reason }) => (reason === 'undecodable' ? [of] : [])))
          .size,
        awaited: this.#missingEnd() ?? this.#gathering.awaited.find((what) => what !== ALL_ENDED),
      }),
    );
  }

  /** What is known only at the end: the last words of the workers, the service's rows, queue and ledger as they were left. */
  async #evidence(): Promise<readonly EffectRow[]> {
    try {
      // What the workers have still to say comes before their end; the service answers last.
      await Promise.all(
        this.#fleet.children.filter((child) => child !== this.#service).map((child) => child.end(5_000)),
      );
      const effects = await this.#effects();
      // Also of a run whose time was over.
      await this.#look(AbortSignal.timeout(LAST_LOOK_MS));
      return effects;
    } catch (error) {
      this.#troubles.push({ of: 'demo', what: describe(error) });
      return [];
    }
  }

  async #effects(): Promise<readonly EffectRow[]> {
    const response = await fetch(new URL('/effects', this.#url), { signal: AbortSignal.timeout(10_000) });
    return (await response.json()) as readonly EffectRow[];
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}
