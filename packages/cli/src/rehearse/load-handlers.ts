import { existsSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { TaskDefinition } from '@leasehold/worker';
import { CliFailure } from '../failure.ts';

/** A module with tasks, loaded anew for every process of a rehearsal. */
export interface Handlers {
  /** The task as one more process would load it: with variables of its own. */
  load(): Promise<TaskDefinition>;
  stop(): void;
}

/** Names the process that a module was loaded for. */
const MARK = 'leasehold-process';

/**
 * Opens the module of `--handlers` and finds the task of `--task` in it (any, where it has only one). The module and what it imports by
 * relative paths are evaluated once per process; packages are shared, and so is what CommonJS modules keep.
 */
export async function openHandlers(file: string, type: string | undefined): Promise<Handlers> {
  const path = resolve(file);
  if (!existsSync(path))
    throw new CliFailure(2, `--handlers ${file} does not exist: give the module that exports your tasks.`);
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const mark = context.parentURL === undefined ? null : markOf(context.parentURL);
      if (mark === null || !/^\.{0,2}\//.test(specifier) || !found.url.startsWith('file:')) return found;
      return { ...found, url: marked(found.url, mark) };
    },
  });
  let loads = 0;
  const handlers = {
    load: async () => pick(await importTasks(file, marked(pathToFileURL(path).href, String(++loads))), file, type),
    stop: () => hooks.deregister(),
  };
  try {
    await handlers.load();
    return handlers;
  } catch (error) {
    handlers.stop();
    throw error;
  }
}

function markOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).searchParams.get(MARK) : null;
}

function marked(url: string, mark: string): string {
  const own = new URL(url);
  own.searchParams.set(MARK, mark);
  return own.href;
}

/** Workers refuse to run while this is set: a module that starts one on import would take real tasks. */
const REHEARSAL = Symbol.for('leasehold.rehearsal');

async function importTasks(file: string, url: string): Promise<readonly TaskDefinition[]> {
  let module: Record<string, unknown>;
  const flags = globalThis as Record<symbol, unknown>;
  flags[REHEARSAL] = true;
  try {
    module = (await import(url)) as Record<string, unknown>;
  } catch (cause) {
    throw new CliFailure(
      2,
      `--handlers ${file} cannot be imported: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  } finally {
    delete flags[REHEARSAL];
  }
  // A default export may repeat a named one.
  return [...new Set(Object.values(module).flat())].filter((value) => isTask(value));
}

function isTask(value: unknown): value is TaskDefinition {
  if (typeof value !== 'object' || value === null) return false;
  const { type, run, timing } = value as Partial<Record<keyof TaskDefinition, unknown>>;
  return typeof type === 'string' && typeof run === 'function' && typeof timing === 'object';
}

function pick(tasks: readonly TaskDefinition[], file: string, type: string | undefined): TaskDefinition {
  const types = tasks.map((task) => task.type).join(', ');
  if (tasks.length === 0) {
    throw new CliFailure(
      2,
      `--handlers ${file} exports no task: export what defineTask answers, as default or by name.`,
    );
  }
  const [only, other] = type === undefined ? tasks : tasks.filter((task) => task.type === type);
  if (only && !other) return only;
  if (type === undefined)
    throw new CliFailure(2, `--task is missing, and ${file} exports several: name one of ${types}.`);
  if (other) throw new CliFailure(2, `--task ${type} is exported twice by ${file}: export each type once.`);
  throw new CliFailure(2, `--task ${type} is not exported by ${file}: name one of ${types}.`);
}
