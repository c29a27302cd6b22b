import { randomUUID } from 'node:crypto';
import { messageBytes, type BrokerSession } from './broker-session.ts';
import { remedyFor } from './classify.ts';
import type { OutgoingMessage } from './driver.ts';
import { readMessage, taskIdOf, TASK_ID_ATTRIBUTE, type TaskCodec } from './envelope.ts';
import { badOption, isLeaseholdError, LeaseholdError, type ErrorCode } from './errors.ts';
import { canonicalJson, type Json } from './json.ts';
import type { EnqueueOutcome, NewTask } from './lease.ts';
import type { FollowUp } from './record.ts';

const FIELDS: readonly string[] = [
  'type',
  'input',
  'taskId',
  'idempotencyKey',
  'agentRunId',
  'traceparent',
  'tracestate',
  'delayMs',
  'groupId',
] satisfies readonly (keyof NewTask)[];
const ID = /^[\x20-\x7e]{1,256}$/;

interface Prepared {
  readonly taskId: string;
  readonly message?: OutgoingMessage;
  readonly failed?: { readonly code: ErrorCode; readonly message: string };
}

/** The identity of a new task: what the producer gave, else a hash of its meaning, else a new one. */
export function identify(task: Pick<NewTask, 'type' | 'taskId' | 'idempotencyKey'>): {
  readonly taskId: string;
  readonly idempotencyKey: string;
} {
  for (const field of ['type', 'taskId', 'idempotencyKey'] as const) {
    const value = task[field];
    if ((field === 'type' || value !== undefined) && (typeof value !== 'string' || !ID.test(value))) {
      throw new LeaseholdError(
        'bad-task',
        `${field} has to be a text of 1 to 256 printable ASCII characters, since it travels in headers.`,
        { field },
      );
    }
  }
  const idempotencyKey = task.idempotencyKey ?? task.taskId ?? randomUUID();
  return { taskId: task.taskId ?? taskIdOf(task.type, idempotencyKey), idempotencyKey };
}

/** Sends tasks. One bad task fails alone; every outcome is reported in the order asked. */
export async function enqueueTasks(
  session: BrokerSession,
  codec: TaskCodec,
  tasks: readonly NewTask[],
): Promise<readonly EnqueueOutcome[]> {
  const given: unknown = tasks;
  if (!Array.isArray(given)) throw badOption('tasks', given, 'enqueue takes a list; write enqueue([task]).');
  try {
    // What the queue takes is known only then.
    await session.open();
  } catch (error) {
    const code = session.driver.classify(error);
    return tasks.map((task) => ({
      ok: false,
      taskId: (task as NewTask | null | undefined)?.taskId ?? '',
      code,
      message: `${session.driver.name} cannot be reached (${code}); nothing was sent.${remedyFor(code)}`,
    }));
  }
  const prepared = tasks.map((task) => prepare(session, codec, task));
  const good = prepared.filter((task) => task.message !== undefined);
  const answers = await session.send(good.map((task) => task.message as OutgoingMessage));
  let next = 0;
  return prepared.map((task) => {
    if (task.failed) return { ok: false, taskId: task.taskId, ...task.failed };
    const answer = answers[next++];
    if (answer && 'messageId' in answer) return { ok: true, taskId: task.taskId, messageId: answer.messageId };
    const code = answer?.failed ?? 'unknown';
    return {
      ok: false,
      taskId: task.taskId,
      code,
      message: `The broker did not confirm the message (${code}); enqueue the task again with the same id.`,
    };
  });
}

/** The follow-ups of a settled task, as new tasks. */
export function followUpTask(
  followUp: FollowUp,
  parent: { readonly agentRunId: string | undefined; readonly groupId: string | undefined },
): NewTask {
  return {
    type: followUp.type,
    input: followUp.input,
    taskId: followUp.taskId,
    idempotencyKey: followUp.idempotencyKey,
    ...(parent.agentRunId !== undefined && { agentRunId: parent.agentRunId }),
    ...(parent.groupId !== undefined && { groupId: parent.groupId }),
  };
}

/** Throws what {@link enqueueTasks} would say of a task that this queue never takes. */
export function checkTask(session: BrokerSession, codec: TaskCodec, task: NewTask): void {
  const { failed } = prepare(session, codec, task);
  if (failed) throw new LeaseholdError(failed.code, failed.message);
}

function prepare(session: BrokerSession, codec: TaskCodec, task: NewTask): Prepared {
  const given: unknown = task;
  let taskId = '';
  try {
    if (typeof given !== 'object' || given === null)
      throw new LeaseholdError(
        'bad-task',
        `A task is an object with type and input; this is ${given === null ? 'null' : `a ${typeof given}`}.`,
      );
    taskId = task.taskId ?? '';
    const stranger = Object.keys(task).find((field) => !FIELDS.includes(field));
    if (stranger !== undefined) {
      throw new LeaseholdError('bad-task', `${stranger} is no field of a task; there are ${FIELDS.join(', ')}.`, {
        field: stranger,
      });
    }
    const identity = identify(task);
    taskId = identity.taskId;
    const payload = JSON.parse(canonicalJson(task.input ?? null, 'input')) as Json;
    const encoded = codec.encode({
      ...identity,
      type: task.type,
      payload,
      ...(task.agentRunId !== undefined && { agentRunId: task.agentRunId }),
      ...(task.traceparent !== undefined && { traceparent: task.traceparent }),
      ...(task.tracestate !== undefined && { tracestate: task.tracestate }),
    });
    const { maxBodyBytes, sendDelayMs } = session.capabilities;
    const message: OutgoingMessage = {
      body: encoded.body,
      attributes: { ...encoded.attributes, [TASK_ID_ATTRIBUTE]: taskId },
      deduplicationId: taskId,
      ...(task.delayMs !== undefined && { delayMs: task.delayMs }),
      ...(task.groupId !== undefined && { groupId: task.groupId }),
    };
    checkReadable(codec, session.driver.name, message);
    const size = messageBytes(message);
    if (size > maxBodyBytes) {
      throw new LeaseholdError(
        'bad-task',
        `input makes a message of ${size} bytes; ${session.driver.name} takes ${maxBodyBytes}. Pass a reference instead.`,
        {
          field: 'input',
        },
      );
    }
    if (
      task.delayMs !== undefined &&
      !(Number.isInteger(task.delayMs) && task.delayMs >= 0 && task.delayMs <= sendDelayMs)
    ) {
      throw new LeaseholdError(
        'bad-task',
        `delayMs is ${task.delayMs}; ${session.driver.name} takes 0 to ${sendDelayMs} ms.`,
        { field: 'delayMs' },
      );
    }
    return { taskId, message };
  } catch (error) {
    // A codec or a `toJSON` of the user's may throw anything; its text may hold content, and the other tasks are not to suffer.
    if (!isLeaseholdError(error))
      return {
        taskId,
        failed: {
          code: 'bad-task',
          message: 'The codec of this queue, or the input itself, failed while it was written.',
        },
      };
    return { taskId, failed: { code: error.code, message: error.message } };
  }
}

/** What a worker could not read would be dead-lettered there; better to say so here. */
function checkReadable(codec: TaskCodec, entity: string, message: OutgoingMessage): void {
  try {
    readMessage(codec, entity, { messageId: 'new', body: message.body, attributes: message.attributes });
  } catch (cause) {
    if (!isLeaseholdError(cause)) throw cause;
    throw new LeaseholdError('bad-task', `A worker could not read this task: ${cause.message}`, {
      ...(cause.field !== undefined && { field: cause.field }),
      cause,
    });
  }
}
