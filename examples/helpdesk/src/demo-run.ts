import { setTimeout as pause } from 'node:timers/promises';
import {
  cloudEvents,
  createLeaseBroker,
  createTaskClient,
  type Json,
  type NewTask,
  type TaskClient,
  type TaskRecord,
} from '@leasehold/core';
import { sqliteBroker, sqliteLedger, type SqliteBroker, type SqliteDeadLetter } from '@leasehold/sqlite';
import { audit, type Violation } from './audit.ts';
import type { FaultPlan, ServiceSays, WorkerSays } from './child-messages.ts';
import type { EffectRow } from './effects.ts';
import { Gathering } from './evidence.ts';
import { createFleet, type Child, type Fleet } from './fleet.ts';
import { progressOf, type DemoProgress } from './progress.ts';
import { HIT, playScenario } from './scenario.ts';
import { readToolCalls, taskOf } from './tool-calls.ts';

/** What a run is made of. */
export interface RunParts {
  readonly file: string;
  /** On the clock of `performance.now`. */
  readonly startedAt: number;
  /** Aborted, it ends the run; the run aborts it itself when a process of it ends. */
  readonly stopping: AbortController;
  readonly onProgress?: (progress: DemoProgress) => void;
  readonly onNote?: (note: string) => void;
}

const QUEUE = 'helpdesk';
const WORKERS = 3;
const POLL_MS = 150;
/** What a producer sent whose connection broke in the middle. */
const POISON = '{"specversion":"1.0","type":"open_case","source":"leasehold","data":{"customer":"C-205';
const POISON_PLACE = 20;

/** One run of the demo, from the first process to the last. */
export class DemoRun {
  readonly #parts: RunParts;
  readonly #stopping: AbortController;
  readonly #gathering: Gathering;
  readonly #fleet: Fleet;
  readonly #driver: SqliteBroker;
  readonly #client: TaskClient;
  readonly #calls: readonly (NewTask & { readonly taskId: string })[] = readToolCalls().map(taskOf);
  readonly #troubles: Violation[] = [];
  readonly #close: () => Promise<void>;
  #service: Child | undefined;
  #url = '';

  constructor(parts: RunParts) {
    const { file, stopping } = parts;
    this.#parts = parts;
    this.#stopping = stopping;
    this.#gathering = new Gathering(stopping.signal);
    this.#fleet = createFleet((what) => {
      this.#troubles.push({ of: 'process', what });
      stopping.abort(new Error(what));
    });
    this.#driver = sqliteBroker({ file, queue: QUEUE });
    const ledger = sqliteLedger({ file });
    const broker = createLeaseBroker({ driver: this.#driver, ledger });
    this.#client = createTaskClient({ broker, ledger });
    this.#close = () => broker.close();
  }

  async play(): Promise<ReturnType<typeof audit> & { readonly records: readonly TaskRecord[] }> {
    const ended = new AbortController();
    let polling: Promise<void> | undefined;
    let effects: readonly EffectRow[] = [];
    try {
      await this.#driver.open(this.#stopping.signal);
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
      try {
        // What the workers have still to say comes before their end; the service answers last.
        await Promise.all(
          this.#fleet.children.filter((child) => child !== this.#service).map((child) => child.end(5_000)),
        );
        effects = await this.#effects();
        await this.#look();
      } catch (error) {
        this.#troubles.push({ of: 'demo', what: describe(error) });
      }
      await this.#fleet.end();
      await this.#close();
    }
    const { workers, service, caught, tokenHistory, records, depth, deadLetters } = this.#gathering;
    const all = [...records.values()];
    const found = audit({
      enqueued: this.#calls.map(({ taskId }) => taskId),
      poison: 1,
      records: all,
      tokenHistory,
      deadLetters,
      depth: depth ?? { visible: 0, inFlight: 0, delayed: 0, blocked: 0, deadLetters: 0 },
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
    const options = { file: this.#parts.file, faults: this.#plan };
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
    const options = { file: this.#parts.file, queue: QUEUE, url: this.#url, name };
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
    await this.#driver.send([{ body: new TextEncoder().encode(POISON), attributes: {} }], this.#stopping.signal);
    await send(this.#calls.slice(POISON_PLACE));
  }

  #scenario(): Promise<void> {
    return playScenario({
      file: this.#parts.file,
      plan: this.#plan,
      gathering: this.#gathering,
      client: this.#client,
      signal: this.#stopping.signal,
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
    await this.#driver.send([message], this.#stopping.signal);
  }

  /** Every task that is known of has ended, and the queue is empty. */
  async #allEnded(): Promise<void> {
    await this.#gathering.until('every task to end', () => {
      const { records, depth, deadLetters } = this.#gathering;
      if (!depth || !this.#calls.every(({ taskId }) => records.has(taskId))) return false;
      if (depth.visible + depth.inFlight + depth.delayed + depth.blocked > 0) return false;
      const open = [...records.values()].some(
        ({ state, next }) => next !== undefined || !['settled', 'cancelled', 'dead_lettered'].includes(state),
      );
      return !open && deadLetters.some(({ reason }) => reason === 'undecodable');
    });
  }

  async #poll(ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      try {
        await this.#look();
      } catch (error) {
        // Looked at again soon; a database that stays unreadable ends the demo by its time limit.
        this.#parts.onNote?.(`the ledger could not be read: ${describe(error)}`);
      }
      await pause(POLL_MS);
    }
  }

  async #look(): Promise<void> {
    // The queue first: a message that is gone from it has its outcome in the ledger already.
    const depth = await this.#driver.depth();
    const deadLetters: SqliteDeadLetter[] = [];
    let page = await this.#driver.deadLetters({ limit: 1_000 });
    for (deadLetters.push(...page.letters); page.cursor !== undefined; deadLetters.push(...page.letters)) {
      page = await this.#driver.deadLetters({ limit: 1_000, cursor: page.cursor });
    }
    const { records, now } = await this.#client.list({ limit: 1_000 });
    this.#gathering.polled(records, depth, deadLetters);
    this.#parts.onProgress?.(
      progressOf(records, now, this.#fleet.children, {
        elapsedMs: performance.now() - this.#parts.startedAt,
        waiting: depth.visible + depth.delayed + depth.blocked,
        undecodable: deadLetters.filter(({ reason }) => reason === 'undecodable').length,
      }),
    );
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
