import type { Servers } from './side.ts';
import { startChild } from './side-process.ts';

/** SQS and DynamoDB servers in a process of their own, shared by both sides of every row. */
export interface ServerProcess {
  readonly servers: Servers;
  /** Makes a queue and gives its URL. */
  queue(name: string): Promise<string>;
  /** Milliseconds of CPU that the servers have used. */
  cpu(): Promise<number>;
  close(): Promise<void>;
}

export async function startServers(): Promise<ServerProcess> {
  const child = startChild('./servers-main.ts');
  const servers = (await child.ask('start')) as Servers;
  return {
    servers,
    queue: (name) => child.ask('queue', name) as Promise<string>,
    cpu: () => child.ask('cpu') as Promise<number>,
    async close() {
      await child.ask('close');
      await child.close();
    },
  };
}
