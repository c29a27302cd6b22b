import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { EmulatorError } from './emulator-error.ts';
import type { ThreadAsk, ThreadSays, ThreadStart } from './thread/thread-messages.ts';
import type { EmulatorTime } from './timetable.ts';

/** A server in a thread of its own, whose time is ours. */
export interface ServerThread {
  /** `http://127.0.0.1:port` of the server itself. */
  readonly target: string;
  /** Polls that wait at the server, as of now. */
  readonly parked: number;
  /** Resolves when the thread has handled what it had got before, and, by hand-moved time, goes by the present time. */
  sync(): Promise<void>;
  /** As `sync`, but at once when the thread goes by the present time already. */
  tell(): Promise<void> | undefined;
  close(): Promise<void>;
}

type ServerName = 'sqs' | 'dynamodb';

const THREADS: Readonly<Record<ServerName, URL>> = {
  sqs: new URL('./thread/sqs-thread.ts', import.meta.url),
  dynamodb: new URL('./thread/dynamodb-thread.ts', import.meta.url),
};

/** Rejects when the server does not start. */
export async function startServerThread(name: ServerName, time: EmulatorTime | undefined): Promise<ServerThread> {
  const parked = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const count = new Int32Array(parked);
  let told = time?.wall();
  // In a build they are next to this file under another ending.
  const module = new URL(THREADS[name].href.replace(/\.ts$/, extname(import.meta.url)));
  const start: ThreadStart = { parked, ...(told === undefined ? {} : { now: told }) };
  const worker = new Worker(module, {
    name: `leasehold ${name} emulator`,
    workerData: start,
    // Nothing of the environment reaches a server: it would read a region, an account or a data directory from it. And package
    // conditions given to this process would make a CommonJS server load ES modules.
    env: {},
    execArgv: ['--disable-warning=ExperimentalWarning'],
  });
  const asked = new Map<number, { resolve: () => void; reject: (error: unknown) => void }>();
  let sequence = 0;
  let dead: EmulatorError | undefined;

  const port = await new Promise<number>((resolve, reject) => {
    const die = (what: string, cause?: unknown): void => {
      dead ??= new EmulatorError('server', `the ${name} server ${what}`, 'start another one', cause);
      reject(dead);
      for (const { reject: refuse } of asked.values()) refuse(dead);
      asked.clear();
    };
    worker.on('message', (says: ThreadSays) => {
      if ('port' in says) {
        resolve(says.port);
        return;
      }
      asked.get(says.id)?.resolve();
      asked.delete(says.id);
    });
    worker.on('error', (error) => die(`failed: ${error instanceof Error ? error.message : String(error)}`, error));
    worker.on('exit', () => die('has ended'));
  });

  const ask = (now: number | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      if (dead) {
        reject(dead);
        return;
      }
      const id = ++sequence;
      asked.set(id, { resolve, reject });
      const message: ThreadAsk = { id, ...(now === undefined ? {} : { now }) };
      worker.postMessage(message, []);
    });
  let telling: { started: boolean; done: Promise<void> } | undefined;
  const sync = (): Promise<void> => {
    if (!time) return ask(undefined);
    const before = telling?.done;
    const mine = { started: false, done: Promise.resolve() };
    const move = async (): Promise<void> => {
      // One move after another, or a thread's time would go back between two of them.
      await before?.catch(() => undefined);
      mine.started = true;
      told = time.wall();
      await ask(told).finally(() => {
        if (telling === mine) telling = undefined;
      });
    };
    mine.done = move();
    telling = mine;
    return mine.done;
  };
  const tell = (): Promise<void> | undefined => {
    if (!time) return undefined;
    if (telling) return !telling.started || told === time.wall() ? telling.done : sync();
    return told === time.wall() ? undefined : sync();
  };
  return {
    target: `http://127.0.0.1:${port}`,
    get parked() {
      return Atomics.load(count, 0);
    },
    sync,
    tell,
    async close() {
      await worker.terminate();
    },
  };
}
