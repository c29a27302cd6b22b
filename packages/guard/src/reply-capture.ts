import type { Clock } from '@leasehold/core';
import type { ServerResponse } from 'node:http';
import { hangUp } from './hang-up.ts';
import { headersSince, putHeaders, type HeaderValues } from './reply-head.ts';
import { bagOf, bodyArguments, coverReply, putHead } from './reply-methods.ts';
import { NULL_BODY } from './stored-response.ts';
import { writtenBody } from './written-body.ts';

/** A reply that is kept back while its handler writes it. */
export interface ReplyCapture {
  /** What the handler answers, once it has begun to; its body follows as it is written. */
  readonly response: Promise<Response>;
  /** Whether the handler has begun to answer. */
  readonly begun: boolean;
  /** Sends this answer, be it the handler's own or another in its place. */
  send(answer: Response): Promise<void>;
  /** Ends the capture with an error: nothing of what the handler wrote, or will write, is an answer. */
  fail(error: unknown): void;
  /** Gives the reply back as it was before the handler. False when nobody would receive it any more. */
  giveBack(): boolean;
}

/** How long to wait for a handler whose caller is gone. */
export interface Patience {
  readonly clock: Clock;
  /** Before it has begun to answer. */
  readonly beforeMs: number;
  /** Between two pieces of its answer. */
  readonly betweenMs: number;
}

/**
 * Takes the place of a response's own methods, so that what a handler writes can be stored before it is sent. Until it has ended its reply
 * the handler does not see its connection close: a pipe would stop half way, and its answer is wanted all the same.
 */
export function captureReply(reply: ServerResponse, patience: Patience): ReplyCapture {
  const { emit, statusCode, statusMessage } = reply;
  const before: HeaderValues = { ...reply.getHeaders() };
  /** `begun`: its head is known. `over`: it has ended, or what it still writes is wanted by nobody. */
  let [begun, over] = [false, false];
  let closed = reply.destroyed;
  let closeHidden = false;
  /** It is we who write, not the handler. */
  let sending = false;
  let onDrain: (() => void) | undefined;
  let resolve!: (response: Response) => void;
  let reject!: (error: unknown) => void;
  const response = new Promise<Response>((...both) => ([resolve, reject] = both));
  const tell = (name: string, ...more: unknown[]): boolean => emit.call(reply, name, ...more);

  const end = (): void => {
    over = true;
    waiting.stop();
    if (closeHidden) queueMicrotask(() => tell('close'));
    closeHidden = false;
  };
  const fail = (error: unknown): void => {
    body.fail(error);
    reject(error);
    end();
  };
  const waiting = hangUp(patience.clock, fail);
  const body = writtenBody(() => tell('drain'), end);
  const waitIfClosed = (): void => {
    if (closed && !over) waiting.wait(begun ? patience.betweenMs : patience.beforeMs);
  };
  const push = (chunk: unknown, encoding: BufferEncoding | undefined): boolean => {
    // What is mounted between guard and handler may want to see the head before it is written.
    if (!begun) reply.writeHead(reply.statusCode);
    waitIfClosed();
    return body.write(chunk, encoding);
  };

  const methods = {
    writeHead(status: number, ...more: unknown[]): ServerResponse {
      if (begun || over) return reply;
      putHead(reply, status, more);
      begun = true;
      const headers = headersSince(before, reply.getHeaders());
      const bodiless = NULL_BODY.has(status);
      try {
        resolve(
          new Response(bodiless ? null : body.stream, { status, statusText: reply.statusMessage ?? '', headers }),
        );
      } catch (error) {
        // Not a final status, or a message that cannot be sent: no answer at all.
        fail(error);
      }
      if (bodiless) body.drop();
      return reply;
    },
    flushHeaders(): void {
      if (!begun) reply.writeHead(reply.statusCode);
    },
    write(...all: unknown[]): boolean {
      const { chunk, encoding, callback } = bodyArguments(all);
      if (callback) queueMicrotask(callback);
      return over || push(chunk, encoding);
    },
    end(...all: unknown[]): ServerResponse {
      const { chunk, encoding, callback } = bodyArguments(all);
      if (callback) reply.once('finish', callback);
      if (over) return reply;
      push(chunk, encoding);
      body.close();
      end();
      return reply;
    },
    emit(name: string, ...more: unknown[]): boolean {
      if (name === 'close') {
        closed = true;
        closeHidden = !over;
        onDrain?.();
        waitIfClosed();
        if (closeHidden) return true;
      }
      // The connection drains what we write; the handler hears when we have taken what it writes.
      if (name === 'drain' && (onDrain || !over)) {
        onDrain?.();
        return true;
      }
      return tell(name, ...more);
    },
  };
  const flags = { headersSent: () => begun, writableEnded: () => over };
  const uncover = coverReply(reply, methods, flags, () => sending);
  waitIfClosed();

  const natively = <Result>(call: () => Result): Result => {
    sending = true;
    try {
      return call();
    } finally {
      sending = false;
    }
  };
  /** Sends on what the handler is still writing. */
  const pump = async (rest: Response): Promise<void> => {
    const reader = (rest.body as ReadableStream<Uint8Array> | null)?.getReader();
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
      const { value } = next;
      if (!natively(() => reply.write(value)) && !closed) {
        await new Promise<void>((drained) => {
          onDrain = drained;
        });
        onDrain = undefined;
      }
      if (closed) return reader?.cancel();
    }
    natively(() => reply.end());
  };

  return {
    response,
    get begun() {
      return begun;
    },
    fail,
    giveBack() {
      uncover();
      if (closed || reply.headersSent) {
        // What was sent of it cannot be taken back; that it broke off has to be seen.
        reply.destroy();
        return false;
      }
      Object.assign(reply, { statusCode, statusMessage });
      putHeaders(bagOf(reply), before, new Headers());
      return true;
    },
    async send(answer) {
      if (closed) return answer.body?.cancel();
      putHeaders(bagOf(reply), before, answer.headers);
      Object.assign(reply, { statusCode: answer.status, statusMessage: answer.statusText });
      if (!over) return pump(answer);
      const bytes = Buffer.from(await answer.arrayBuffer());
      natively(() => reply.end(bytes));
    },
  };
}
