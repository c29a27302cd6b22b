import { backoffDelay } from './backoff.ts';
import { statusOf, type TaskStatus } from './task-status.ts';
import { sleep, systemClock, type Clock } from './clock.ts';
import { readContent, type ContentStore } from './content.ts';
import { decide, isRefusal } from './decide.ts';
import type { LedgerDriver, LedgerQuery } from './driver.ts';
import { taskIdOf } from './envelope.ts';
import { badOption, LeaseholdError } from './errors.ts';
import type { RefusalCause, TaskEvent } from './events.ts';
import { hashJson, type Json } from './json.ts';
import type { EnqueueOutcome, NewTask } from './lease.ts';
import { DEFAULT_RETENTION_MS, type LeaseBroker } from './lease-broker.ts';
import { ledgerSession, type LedgerSession } from './ledger-session.ts';
import { isTerminal, type EffectRecord, type SettlementReceipt, type TaskRecord, type TaskState } from './record.ts';
import { keepsMessage } from './parked-message.ts';
import { checkPart } from './parts.ts';
import { checkNames, type OptionNames } from './option-names.ts';
import { newOpId } from './task-lease.ts';

/** How a task ended: the trustworthy answer, with its receipt. */
export interface TaskEnd {
  readonly state: Extract<TaskState, 'settled' | 'dead_lettered' | 'cancelled'>;
  readonly result?: Json;
  readonly receipt?: SettlementReceipt;
  readonly effects: Readonly<Record<string, EffectRecord>>;
  readonly record: TaskRecord;
}

/** What became of a cancellation. `requested`: an effect is open, the owner or the next one closes the task. */
export type CancelOutcome =
  | { readonly taskId: string; readonly outcome: 'cancelled' | 'requested' }
  | { readonly taskId: string; readonly outcome: 'refused'; readonly cause: RefusalCause; readonly message: string };

/** What became of an answer or a reopening. `sent`: the task's own message is on its way again. */
export interface AnswerOutcome {
  readonly done: boolean;
  readonly sent: boolean;
  readonly message: string;
}

/** One step of a plan: a registered task type and its input. */
export interface PlanStep {
  readonly step: string;
  readonly type: string;
  readonly input: unknown;
}

/** The requester's side. Made by {@link createTaskClient}. */
export interface TaskClient {
  /** Sends tasks; one outcome per task, in order. */
  enqueue(tasks: readonly NewTask[]): Promise<readonly EnqueueOutcome[]>;
  /** Enqueues the steps of a plan. The key of each is run + step, so dispatching a plan again starts nothing twice; a plan sets no timing. */
  dispatch(agentRunId: string, steps: readonly PlanStep[]): Promise<readonly EnqueueOutcome[]>;
  /** `unclaimed` when the ledger has no record (yet): enqueueing writes none. */
  status(taskId: string): Promise<TaskStatus>;
  /** The status, and again whenever it changed, until the task has ended. */
  watch(taskId: string, options?: { readonly signal?: AbortSignal }): AsyncIterable<TaskStatus>;
  /** Resolves when the task has ended. Rejects with `timeout` after `timeoutMs`. */
  wait(taskId: string, options?: { readonly timeoutMs?: number; readonly signal?: AbortSignal }): Promise<TaskEnd>;
  /** Cancels one task, recorded or not, or all recorded tasks of a run. */
  cancel(target: string | { readonly agentRunId: string }, reason?: string): Promise<readonly CancelOutcome[]>;
  /** A person's answer to a task that waits for one. `yes` sends its message again; `no` dead-letters it. Answering again repeats the sending. */
  answer(taskId: string, answer: { readonly approve: boolean; readonly reason: string }): Promise<AnswerOutcome>;
  /** Allows a dead-lettered task to run again. A parked message is sent again; any other is in the dead-letter queue, the broker's to move back. */
  reopen(taskId: string): Promise<AnswerOutcome>;
  /** Records, a page at a time. */
  list(query: LedgerQuery): ReturnType<LedgerDriver['list']>;
}

/** Reasons of people are kept in the record. */
const LONGEST_REASON = 200;
const CALL_TIMEOUT_MS = 10_000;
const POLL = { firstMs: 100, maxMs: 2_000 };
/** Reads in a row that may fail before watching ends with the error. */
const MOST_FAILURES = 5;
/** What has ended has nothing to cancel, and a store may have to read everything to list it. */
const OPEN: readonly TaskState[] = ['queued', 'running', 'waiting_human'];

/** The parts of a task client. */
export interface TaskClientParts {
  readonly broker?: Pick<LeaseBroker, 'enqueue' | 'resend'>;
  readonly ledger: LedgerDriver;
  readonly clock?: Clock;
  readonly contentStore?: ContentStore;
  /** Task types that may be dispatched; a plan that names another is refused. Absent = any. */
  readonly types?: readonly string[];
  readonly retentionMs?: number;
}

const PARTS: OptionNames<TaskClientParts> = {
  broker: true,
  ledger: true,
  clock: true,
  contentStore: true,
  types: true,
  retentionMs: true,
};

const QUERY: OptionNames<LedgerQuery> = {
  states: true,
  stages: true,
  taskTypes: true,
  agentRunId: true,
  errorClass: true,
  lapsed: true,
  cursor: true,
  limit: true,
};

/** A client for those who ask for tasks. `broker` may be left out where nothing is enqueued. */
export function createTaskClient(parts: TaskClientParts): TaskClient {
  checkNames(parts, PARTS);
  checkPart('ledger', parts.ledger, 'a ledger driver');
  const clock = parts.clock ?? systemClock();
  const ledger = ledgerSession(parts.ledger, clock);
  const retentionMs = parts.retentionMs ?? DEFAULT_RETENTION_MS;

  const enqueue = (tasks: readonly NewTask[]): Promise<readonly EnqueueOutcome[]> => {
    if (!parts.broker)
      throw new LeaseholdError(
        'bad-option',
        'broker is missing: this client cannot enqueue. Pass one to createTaskClient.',
        { field: 'broker' },
      );
    return parts.broker.enqueue(tasks);
  };
  const status = async (taskId: string): Promise<TaskStatus> => {
    const answer = await ledger.get(taskId, CALL_TIMEOUT_MS);
    if ('unanswered' in answer) throw unavailable(answer.error);
    return statusOf(taskId, answer.record, answer.now);
  };
  async function* watch(taskId: string, options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<TaskStatus> {
    let seen = '';
    let failed = 0;
    for (let quiet = 1; ; quiet++) {
      let now: TaskStatus;
      try {
        now = await status(taskId);
        failed = 0;
      } catch (error) {
        // Whoever watches for hours is not to be sent away by one lost answer.
        if (++failed >= MOST_FAILURES) throw error;
        await sleep(clock, backoffDelay(POLL, failed), options.signal);
        continue;
      }
      const key = `${now.record?.version ?? 0}:${now.state}:${now.live}`;
      if (key !== seen) {
        seen = key;
        quiet = 1;
        yield now;
        if (now.record && isTerminal(now.record.state)) return;
      }
      await sleep(clock, backoffDelay(POLL, quiet), options.signal);
    }
  }
  const cancelOne = async (taskId: string, reason: string): Promise<CancelOutcome> => {
    const event: TaskEvent = {
      type: 'cancel',
      opId: newOpId(),
      taskId,
      reason: reason.slice(0, LONGEST_REASON),
      retentionMs,
    };
    const outcome = await write(ledger, taskId, event);
    // Asked for before, by this very call if its answer was lost and the owner wrote since.
    if ('refused' in outcome && outcome.refused === 'cancel-requested') {
      const { record } = await status(taskId);
      if (record?.state === 'queued' && keepsMessage(record)) await sendAgain(record);
      return { taskId, outcome: 'requested' };
    }
    if ('refused' in outcome) return { taskId, outcome: 'refused', cause: outcome.refused, message: outcome.message };
    const { record } = outcome;
    // Unconfirmed, the next sweep sends it.
    if (record.state === 'queued' && keepsMessage(record)) await sendAgain(record);
    return { taskId, outcome: record.state === 'cancelled' ? 'cancelled' : 'requested' };
  };

  /** Whoever answered first may have died before the message was sent: the same answer again completes it. */
  const answeredBefore = async (taskId: string, approve: boolean): Promise<TaskRecord | undefined> => {
    const { record } = await status(taskId);
    return approve && record?.state === 'queued' && record.human?.at(-1)?.approved === true && record.parked
      ? record
      : undefined;
  };
  const sendAgain = async (record: TaskRecord): Promise<AnswerOutcome> => {
    if (!parts.broker)
      return {
        done: true,
        sent: false,
        message: 'the task may run; this client has no broker to send its message with',
      };
    if (await parts.broker.resend(record)) return { done: true, sent: true, message: 'the task runs again' };
    return {
      done: true,
      sent: false,
      message: 'the broker did not confirm the message; answer again to send it once more',
    };
  };

  return {
    enqueue,
    dispatch(agentRunId, steps) {
      const unknown = parts.types && steps.find((step) => !parts.types?.includes(step.type));
      if (unknown) {
        throw new LeaseholdError(
          'bad-task',
          `step ${unknown.step} asks for the type ${unknown.type}, which is not registered (${parts.types?.join(', ')}).`,
          {
            field: 'type',
          },
        );
      }
      return enqueue(
        steps.map((step) => {
          const idempotencyKey = hashJson([agentRunId, step.step]);
          return {
            type: step.type,
            input: step.input,
            agentRunId,
            idempotencyKey,
            taskId: taskIdOf(step.type, idempotencyKey),
          };
        }),
      );
    },
    status,
    watch,
    async wait(taskId, options = {}) {
      checkNames(options, { timeoutMs: true, signal: true });
      const controller = new AbortController();
      const stop = (): void => controller.abort(options.signal?.reason);
      if (options.signal?.aborted) stop();
      options.signal?.addEventListener('abort', stop, { once: true });
      let claimed = false;
      const { timeoutMs } = options;
      const timer =
        timeoutMs === undefined
          ? undefined
          : clock.timer(timeoutMs, () => controller.abort(notEnded(taskId, timeoutMs, claimed)));
      try {
        for await (const now of watch(taskId, { signal: controller.signal })) {
          claimed = now.record !== undefined;
          if (!now.record || !isTerminal(now.record.state)) continue;
          const { record } = now;
          const result = await readContent(record.result, parts.contentStore, controller.signal);
          return {
            state: record.state as TaskEnd['state'],
            effects: record.effects,
            record,
            ...(result !== undefined && { result }),
            ...(record.settlementReceipt && { receipt: record.settlementReceipt }),
          };
        }
        throw new LeaseholdError('unavailable', `Watching task ${taskId} ended without an end of the task.`);
      } finally {
        timer?.cancel();
        options.signal?.removeEventListener('abort', stop);
      }
    },
    async cancel(target, reason = 'cancelled on request') {
      if (typeof target === 'string') return [await cancelOne(target, reason)];
      const outcomes = new Map<string, CancelOutcome>();
      // Pages are ordered by the last write: a record that is written while they are read can slip past, so they are read until nothing is new.
      for (let known = -1; known < outcomes.size;) {
        known = outcomes.size;
        let cursor: string | undefined;
        do {
          const page = await ledger.list(
            { agentRunId: target.agentRunId, states: OPEN, limit: 100, ...(cursor !== undefined && { cursor }) },
            CALL_TIMEOUT_MS,
          );
          for (const { taskId } of page.records) {
            if (!outcomes.has(taskId)) outcomes.set(taskId, await cancelOne(taskId, reason));
          }
          cursor = page.cursor;
        } while (cursor !== undefined);
      }
      return [...outcomes.values()];
    },
    async answer(taskId, answer) {
      checkNames(answer, { approve: true, reason: true });
      if (typeof answer.approve !== 'boolean')
        throw badOption('approve', answer.approve, 'write true for yes, false for no.');
      if (typeof answer.reason !== 'string')
        throw badOption('reason', answer.reason, 'write a text that says why; it is kept in the record.');
      const outcome = await write(ledger, taskId, {
        type: 'answer',
        opId: newOpId(),
        retentionMs,
        approve: answer.approve,
        reason: answer.reason.slice(0, LONGEST_REASON),
      });
      const record = 'record' in outcome ? outcome.record : await answeredBefore(taskId, answer.approve);
      if (!record) return { done: false, sent: false, message: 'refused' in outcome ? outcome.message : '' };
      if (!answer.approve) return { done: true, sent: false, message: 'the task is dead-lettered as rejected' };
      return sendAgain(record);
    },
    async reopen(taskId) {
      const outcome = await write(ledger, taskId, { type: 'reopen', opId: newOpId() });
      if ('refused' in outcome) return { done: false, sent: false, message: outcome.message };
      return keepsMessage(outcome.record)
        ? sendAgain(outcome.record)
        : { done: true, sent: false, message: 'the task may run again; move its message back' };
    },
    async list(query) {
      checkNames(query, QUERY);
      return ledger.list(query, CALL_TIMEOUT_MS);
    },
  };
}

/** An outsider's write: decides from what stands there, and again when somebody was faster. */
async function write(
  ledger: LedgerSession,
  taskId: string,
  event: TaskEvent,
): Promise<{ readonly record: TaskRecord } | { readonly refused: RefusalCause; readonly message: string }> {
  for (let tries = 0; tries < 20; tries++) {
    const read = await ledger.get(taskId, CALL_TIMEOUT_MS);
    if ('unanswered' in read) throw unavailable(read.error);
    // An earlier sending whose answer was lost.
    if (read.record?.opId === event.opId) return { record: read.record };
    const outcome = decide(read.record, event, read.now);
    if (isRefusal(outcome)) return outcome;
    const answer = await ledger.put(outcome.next, undefined, outcome.expect, CALL_TIMEOUT_MS);
    if (!('unanswered' in answer) && answer.ok) return { record: answer.record };
  }
  throw new LeaseholdError(
    'unavailable',
    `Task ${taskId} changed, or the ledger did not answer, at every try. Try again.`,
  );
}

function notEnded(taskId: string, timeoutMs: number, claimed: boolean): LeaseholdError {
  const text = claimed
    ? `Task ${taskId} has not ended after ${timeoutMs} ms. It goes on; ask again later.`
    : `Task ${taskId} has no record after ${timeoutMs} ms: it still waits in its queue, or nobody enqueued it. Check the id, or ask again later.`;
  return new LeaseholdError('timeout', text);
}

function unavailable(cause: unknown): LeaseholdError {
  return new LeaseholdError('unavailable', 'The ledger did not answer. Nothing is known to have changed; try again.', {
    cause,
  });
}
