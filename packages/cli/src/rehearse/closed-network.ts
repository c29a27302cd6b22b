import { Socket } from 'node:net';
import { format } from 'node:util';

/** The network, as long as a rehearsal keeps it closed. */
export interface ClosedNetwork {
  /** Where something wanted to connect to. */
  readonly refused: readonly string[];
  open(): void;
}

/**
 * Refuses every connection of this process: what is not a `fetch` is answered by no double, and must not go out once per fault. Databases,
 * `node:http` and SDKs that bring their own client end here.
 */
export function closeNetwork(): ClosedNetwork {
  const refused = new Set<string>();
  const connect = Socket.prototype.connect;
  Socket.prototype.connect = function refuse(this: Socket, ...args: readonly unknown[]): Socket {
    const where = addressOf(args);
    refused.add(where);
    const error = new Error(
      `a rehearsal answers fetch alone, and lets nothing out: the connection to ${where} was refused. Use fetch, or rehearse with --live.`,
    );
    queueMicrotask(() => this.destroy(error));
    return this;
  };
  return {
    get refused() {
      return [...refused];
    },
    open() {
      Socket.prototype.connect = connect;
    },
  };
}

function addressOf(args: readonly unknown[]): string {
  // Node passes on its own calls as one array.
  const [first, second] = Array.isArray(args[0]) ? (args[0] as readonly unknown[]) : args;
  if (typeof first === 'number') return `${typeof second === 'string' ? second : 'localhost'}:${first}`;
  if (typeof first !== 'object' || first === null) return format('%s', first);
  const { host = 'localhost', port, path } = first as Readonly<Record<string, unknown>>;
  return port === undefined ? format('%s', path) : format('%s:%s', host, port);
}
