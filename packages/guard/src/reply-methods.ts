import type { ServerResponse } from 'node:http';
import type { HeaderBag } from './reply-head.ts';

/** The methods of a response through which a handler answers. */
export type ReplyMethods = Pick<ServerResponse, 'writeHead' | 'flushHeaders' | 'write' | 'end' | 'emit'>;

/**
 * Puts methods and flags of ours over those of a response, unless `sending` says that it is we who call. The returned function takes them
 * away again.
 */
export function coverReply(
  reply: ServerResponse,
  methods: Readonly<Record<keyof ReplyMethods, (...args: never[]) => unknown>>,
  flags: Readonly<Record<'headersSent' | 'writableEnded', () => boolean>>,
  sending: () => boolean,
): () => void {
  const undo: (() => void)[] = [];
  const cover = (name: string, descriptor: PropertyDescriptor): void => {
    const before = Object.getOwnPropertyDescriptor(reply, name);
    Object.defineProperty(reply, name, { configurable: true, ...descriptor });
    undo.push(() => {
      if (before) Object.defineProperty(reply, name, before);
      else Reflect.deleteProperty(reply, name);
    });
  };
  for (const [name, ours] of Object.entries(methods)) {
    const theirs = Reflect.get(reply, name) as (...args: unknown[]) => unknown;
    const either = (...args: unknown[]): unknown => Reflect.apply(sending() ? theirs : ours, reply, args);
    cover(name, { value: either, writable: true });
  }
  for (const [name, flag] of Object.entries(flags)) {
    const parent = Object.getPrototypeOf(reply) as object;
    cover(name, { get: () => (sending() ? (Reflect.get(parent, name, reply) as boolean) : flag()) });
  }
  return () => {
    for (const step of undo) step();
  };
}

/** What `write` and `end` are called with, all of it optional. */
export function bodyArguments(all: readonly unknown[]): {
  readonly chunk: unknown;
  readonly encoding: BufferEncoding | undefined;
  readonly callback: (() => void) | undefined;
} {
  const callback = all.find((one) => typeof one === 'function') as (() => void) | undefined;
  const [chunk, encoding] = all.filter((one) => typeof one !== 'function');
  return { chunk, encoding: typeof encoding === 'string' ? (encoding as BufferEncoding) : undefined, callback };
}

/** Does to status and headers what `writeHead(status, message?, headers?)` does, without sending them. */
export function putHead(reply: ServerResponse, status: number, more: readonly unknown[]): void {
  const message = more.find((one) => typeof one === 'string');
  const headers = more.find((one) => typeof one === 'object' && one !== null);
  Object.assign(reply, { statusCode: status, ...(message === undefined ? {} : { statusMessage: message }) });
  const pairs = Array.isArray(headers) ? pairsOf(headers as unknown[]) : Object.entries(headers ?? {});
  // Of one name several may come, which together replace what was there.
  for (const [name] of pairs) reply.removeHeader(name);
  for (const [name, value] of pairs) if (value !== undefined) reply.appendHeader(name, value as string);
}

/** Names and values by turns. */
function pairsOf(list: readonly unknown[]): [string, unknown][] {
  return list.flatMap((name, at) => (at % 2 === 0 ? [[String(name), list[at + 1]] as [string, unknown]] : []));
}

/** The headers of a response. */
export function bagOf(reply: ServerResponse): HeaderBag {
  return {
    getHeaders: () => reply.getHeaders(),
    set: (name, value) => void reply.setHeader(name, value),
    remove: (name) => reply.removeHeader(name),
  };
}
