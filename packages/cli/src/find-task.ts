import type { TaskClient, TaskRecord } from '@leasehold/core';
import { CliFailure } from './failure.ts';
import { shortId } from './wording.ts';

/**
 * The record of a task that was named by its id or the beginning of it. Of an id with colons (`<parent>:next:0`) every part may be cut short,
 * and a name with as many parts as an id is taken before one with fewer. Nothing when no record fits; fails when several do, and for an empty name.
 */
export async function findTask(client: TaskClient, name: string): Promise<TaskRecord | undefined> {
  checkTaskName(name);
  const exact = (await client.status(name)).record;
  if (exact) return exact;
  const found = await tasksBeginning(client, name);
  const whole = found.filter(({ taskId }) => parts(taskId).length === parts(name).length);
  const [only, ...others] = whole.length > 0 ? whole : found;
  if (only && others.length > 0) {
    const several = [only, ...others].slice(0, 5).map(({ taskId, taskType }) => `  ${shortId(taskId)}  ${taskType}`);
    throw new CliFailure(1, `${name} fits ${others.length + 1} tasks; write more of the id:\n${several.join('\n')}`);
  }
  return only;
}

/** Refuses a name that says nothing, which a shell makes of a variable that is not set: every id begins like it. */
export function checkTaskName(name: string): void {
  if (/^[\s:]*$/.test(name)) throw new CliFailure(2, 'task is empty: give its id.');
}

/** Like {@link findTask}, but having none is a failure. */
export async function needTask(client: TaskClient, name: string): Promise<TaskRecord> {
  const record = await findTask(client, name);
  if (record) return record;
  throw new CliFailure(
    1,
    `no task is known as ${name}: "leasehold list" shows those that were claimed; what still waits in the queue has no record yet.`,
  );
}

/** Every record whose id begins with `name`, part by part. */
export async function tasksBeginning(client: TaskClient, name: string): Promise<readonly TaskRecord[]> {
  const found: TaskRecord[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.list({ limit: 500, ...(cursor !== undefined && { cursor }) });
    found.push(...page.records.filter(({ taskId }) => begins(taskId, name)));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
}

function begins(taskId: string, name: string): boolean {
  const own = parts(taskId);
  return parts(name).every((part, index) => own[index]?.startsWith(part));
}

function parts(id: string): readonly string[] {
  return id.split(':');
}
