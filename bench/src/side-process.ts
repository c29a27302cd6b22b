import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Side, SideOptions } from './side.ts';

/** What is said to a child: a method of what it holds, and its arguments. */
export interface Ask {
  readonly id: number;
  readonly method: string;
  readonly args: readonly unknown[];
}

/** What it answers. */
export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failed: string };

/** A module of this folder in a process of its own. */
export interface Child {
  ask(method: string, ...args: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Starts `module` with the flags that TypeScript sources need. Its output goes to stderr. */
export function startChild(module: string, flags: readonly string[] = []): Child {
  const child: ChildProcess = fork(fileURLToPath(new URL(module, import.meta.url)), {
    execArgv: ['--disable-warning=ExperimentalWarning', '--conditions=@leasehold/source', ...flags],
    stdio: ['ignore', 2, 2, 'ipc'],
    serialization: 'advanced',
  });
  const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let sent = 0;
  let over = false;
  child.on('message', (answer: Answer) => {
    const ask = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ('failed' in answer) ask?.reject(new Error(`${module}: ${answer.failed}`));
    else ask?.resolve(answer.value);
  });
  const exited = new Promise<void>((resolve) => {
    child.on('exit', (code, signal) => {
      over = true;
      for (const { reject } of waiting.values()) reject(new Error(`${module} ended (${signal ?? code}).`));
      waiting.clear();
      resolve();
    });
  });
  return {
    ask(method, ...args) {
      if (over) return Promise.reject(new Error(`${module} has ended.`));
      const id = ++sent;
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        child.send({ id, method, args } satisfies Ask);
      });
    },
    async close() {
      if (!over) child.disconnect();
      await exited;
    },
  };
}

/** Opens a side in a process of its own. */
export async function openSide(name: string, options: SideOptions, flags: readonly string[] = []): Promise<Side> {
  const child = startChild('./side-main.ts', flags);
  await child.ask('open', name, options);
  return {
    fill: async (count) => void (await child.ask('fill', count)),
    run: (count) => child.ask('run', count) as ReturnType<Side['run']>,
    async close() {
      await child.ask('close');
      await child.close();
    },
  };
}
