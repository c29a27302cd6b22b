import { connect, createServer, type Server, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';

/** A network between one process and one server: everything goes through, late, or not at all. */
export interface Link {
  readonly name: string;
  readonly port: number;
  /** Nothing passes any more, either way, and nobody is told: what was sent arrives when the cut ends, if its connection still stands. */
  cut(): void;
  /** Everything takes `ms` longer, each way. */
  delay(ms: number): void;
  heal(): void;
  close(): Promise<void>;
}

/** Opens a link to a port of this machine. Connections made while it is cut wait. */
export async function openLink(name: string, target: number): Promise<Link> {
  const sockets = new Set<Socket>();
  const waiting = new Set<() => void>();
  const pairs = new Set<readonly [Socket, Socket]>();
  let isCut = false;
  let delayMs = 0;

  const forward = (from: Socket, to: Socket): void => {
    // In order, whatever the delay becomes meanwhile.
    let last = Promise.resolve();
    const later = (act: () => void): void => {
      const due = delayMs === 0 ? undefined : new Promise<void>((resolve) => setTimeout(resolve, delayMs));
      last = last.then(() => due).then(act);
    };
    from.on('data', (chunk: Buffer) => later(() => void (to.writable && to.write(chunk))));
    from.on('end', () => later(() => to.end()));
    from.on('close', () => later(() => to.destroy()));
    from.on('error', () => from.destroy());
  };
  const join = (client: Socket): void => {
    if (client.destroyed) return;
    const server = connect(target, '127.0.0.1');
    const pair = [client, server] as const;
    sockets.add(server);
    pairs.add(pair);
    server.on('close', () => {
      sockets.delete(server);
      pairs.delete(pair);
    });
    forward(client, server);
    forward(server, client);
    client.resume();
  };
  const listener: Server = createServer({ pauseOnConnect: true }, (client) => {
    sockets.add(client);
    client.on('close', () => sockets.delete(client));
    client.on('error', () => client.destroy());
    if (isCut) waiting.add(() => join(client));
    else join(client);
  });
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject);
    listener.listen(0, '127.0.0.1', resolve);
  });
  return {
    name,
    port: (listener.address() as AddressInfo).port,
    cut() {
      isCut = true;
      for (const pair of pairs) for (const socket of pair) socket.pause();
    },
    delay(ms) {
      delayMs = ms;
    },
    heal() {
      isCut = false;
      delayMs = 0;
      for (const pair of pairs) for (const socket of pair) socket.resume();
      for (const begin of waiting) begin();
      waiting.clear();
    },
    async close() {
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** A port of this machine that nobody listens on just now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
