import type { Clock } from '@leasehold/core';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { hangUp } from './hang-up.ts';
import { headersSince, putHeaders, type HeaderValues } from './reply-head.ts';
import { NULL_BODY } from './stored-response.ts';

/** What is used of Fastify's reply. */
export interface FastifyReply {
  readonly raw: ServerResponse;
  readonly statusCode: number;
  code(status: number): unknown;
  getHeaders(): HeaderValues;
  header(name: string, value: unknown): unknown;
  removeHeader(name: string): unknown;
  send(payload: unknown): unknown;
}

/** A handler that runs under a hold. */
export interface FastifyRun {
  /** Its reply. */
  readonly replied: Promise<Response>;
  /** What to send, once the reply is stored. */
  answered?: Promise<Response>;
  /** Set when it threw NothingHappened. */
  thrown?: unknown;
  /** Whether the reply was taken, or is not waited for any more. */
  readonly over: boolean;
  /** Takes the reply as it reaches `onSend`; gives the payload to send instead. */
  end(payload: unknown): Promise<unknown>;
}

/** Waits for the reply of a handler, for `afterHangUpMs` where its caller is gone. */
export function startRun(reply: FastifyReply, clock: Clock, afterHangUpMs: number): FastifyRun {
  const before = { ...reply.getHeaders() };
  let resolve!: (response: Response) => void;
  let reject!: (error: unknown) => void;
  let over = false;
  const replied = new Promise<Response>((...both) => ([resolve, reject] = both));
  const fail = (error: unknown): void => {
    over = true;
    waiting.stop();
    reject(error);
  };
  const waiting = hangUp(clock, fail);
  const onClose = (): void => {
    if (over) return;
    if (reply.raw.writableFinished)
      fail(new Error('The handler answered past Fastify (hijack, reply.raw), where nothing can be stored.'));
    else waiting.wait(afterHangUpMs);
  };
  if (reply.raw.destroyed) onClose();
  else reply.raw.once('close', onClose);
  return {
    replied,
    get over() {
      return over;
    },
    async end(payload) {
      over = true;
      waiting.stop();
      try {
        if (this.thrown === undefined) resolve(responseOf(reply, before, payload));
        else reject(this.thrown);
      } catch (error) {
        // Not a final status: no answer at all.
        reject(error);
      }
      const answer = (await this.answered) as Response;
      putHead(reply, before, answer);
      if (answer.body === null) return null;
      // What was a stream may be one still; anything else is in memory, and Fastify names its length.
      return isStream(payload) ? Readable.fromWeb(answer.body) : Buffer.from(await answer.arrayBuffer());
    },
  };
}

/** Answers in the handler's place. */
export async function sendAnswer(reply: FastifyReply, answer: Response): Promise<void> {
  const bytes = Buffer.from(await answer.arrayBuffer());
  putHead(reply, reply.getHeaders(), answer);
  reply.send(answer.body === null ? undefined : bytes);
}

/** What the handler answers: a payload as it reaches `onSend`, and the headers set since it was started. */
function responseOf(reply: FastifyReply, before: HeaderValues, payload: unknown): Response {
  const headers = headersSince(before, reply.getHeaders());
  if (payload instanceof Response) {
    for (const [name, value] of payload.headers) {
      if (name === 'set-cookie') headers.append(name, value);
      else headers.set(name, value);
    }
    return new Response(payload.body, { status: payload.status, headers });
  }
  const status = reply.statusCode;
  if (!NULL_BODY.has(status)) return new Response(bodyOf(payload), { status, headers });
  if (payload instanceof Readable) payload.destroy();
  return new Response(null, { status, headers });
}

function putHead(reply: FastifyReply, before: HeaderValues, answer: Response): void {
  const bag = {
    getHeaders: () => reply.getHeaders(),
    set: (name: string, value: unknown) => void reply.header(name, value),
    remove: (name: string) => void reply.removeHeader(name),
  };
  putHeaders(bag, before, answer.headers);
  reply.code(answer.status);
}

function isStream(payload: unknown): payload is object {
  return typeof payload === 'object' && payload !== null && !(payload instanceof Uint8Array);
}

function bodyOf(payload: unknown): ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | null {
  if (payload === undefined || payload === null) return null;
  if (typeof payload === 'string') return Buffer.from(payload);
  if (payload instanceof Uint8Array) return Uint8Array.from(payload);
  if (payload instanceof ReadableStream) return bytesOf(payload as ReadableStream<unknown>);
  // Also a stream that only behaves like Node's.
  const readable = payload instanceof Readable ? payload : new Readable().wrap(payload as NodeJS.ReadableStream);
  return bytesOf(Readable.toWeb(readable) as ReadableStream<unknown>);
}

/** A stream of Node's may give text. */
function bytesOf(stream: ReadableStream<unknown>): ReadableStream<Uint8Array> {
  const encoder = new TransformStream<unknown, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Uint8Array));
    },
  });
  return stream.pipeThrough(encoder);
}
