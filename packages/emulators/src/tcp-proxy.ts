import { connect, createServer, type Socket } from 'node:net';
import { listen } from './listen.ts';

// Bytes of one direction that are read and not yet passed on.
const MOST_ON_THE_WAY = 4 * 1024 * 1024;

/** Stands between clients and any TCP server, and knows nothing of what is said. */
export interface TcpProxy {
  /** On 127.0.0.1. */
  readonly port: number;
  /** Connections of clients that are open now. */
  readonly connections: number;
  /** Connections end and no new one is accepted (`reset`), or no byte passes any more and nothing says so (`silent`). */
  cut(how?: 'reset' | 'silent'): void;
  /** The network is back. What was said during a silent cut passes now, as TCP would send it again. */
  restore(): void;
  /** Existing connections end, new ones are accepted. */
  dropConnections(): void;
  /** From now on every byte takes `ms` longer, in either direction. Real time. */
  delay(ms: number): void;
  /** Ends every connection; what is delayed or held back is lost. */
  close(): Promise<void>;
}

/** Where the bytes go. */
export interface TcpProxyOptions {
  /** Own port on 127.0.0.1; default a free one. */
  readonly port?: number;
  /** Of the server; default `127.0.0.1`. */
  readonly host?: string;
}

/** Starts a proxy before a server's port, for servers that do not speak HTTP. Rejects when its own port is taken. */
export async function tcpProxy(targetPort: number, options: TcpProxyOptions = {}): Promise<TcpProxy> {
  const { host = '127.0.0.1', port: wanted = 0 } = options;
  const clients = new Set<Socket>();
  const all = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  let link: 'whole' | 'reset' | 'silent' = 'whole';
  let delayMs = 0;
  let closed = false;
  let waiting: (() => void)[] = [];

  // One step after another, or a shorter delay would overtake a longer one.
  const inTurn = (): ((step: () => void) => void) => {
    let last = Promise.resolve();
    return (step) => {
      const due = performance.now() + delayMs;
      last = last.then(async () => {
        const ms = due - performance.now();
        if (ms > 0 && !closed) {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(() => {
              timers.delete(timer);
              resolve();
            }, ms);
            timers.add(timer);
          });
        }
        if (link === 'silent' && !closed) await new Promise<void>((resolve) => waiting.push(resolve));
        step();
      });
    };
  };
  const pass = (from: Socket, to: Socket): void => {
    const turn = inTurn();
    let onTheWay = 0;
    from.on('data', (chunk: Buffer) => {
      onTheWay += chunk.length;
      if (onTheWay > MOST_ON_THE_WAY) from.pause();
      turn(() => {
        onTheWay -= chunk.length;
        if (to.writable && !to.write(chunk)) to.once('drain', () => from.resume());
        else from.resume();
      });
    });
    from.on('end', () => turn(() => to.end()));
    from.on('error', () => undefined);
    from.on('close', () => {
      all.delete(from);
      turn(() => to.destroy());
    });
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    if (link === 'reset') {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({ host, port: targetPort, allowHalfOpen: true });
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      all.add(socket);
    }
    clients.add(client);
    client.on('close', () => clients.delete(client));
    pass(client, upstream);
    pass(upstream, client);
  });
  const dropConnections = (): void => {
    for (const socket of all) socket.resetAndDestroy();
  };
  const release = (): void => {
    const woken = waiting;
    waiting = [];
    for (const wake of woken) wake();
  };
  const port = await listen(server, wanted);
  return {
    port,
    get connections() {
      return clients.size;
    },
    cut(how = 'reset') {
      link = how;
      if (how === 'reset') {
        dropConnections();
        release();
      }
    },
    restore() {
      link = 'whole';
      release();
    },
    dropConnections,
    delay(ms) {
      delayMs = ms;
    },
    async close() {
      closed = true;
      link = 'reset';
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const timer of timers) clearTimeout(timer);
      dropConnections();
      waiting = [];
      await ended;
    },
  };
}
