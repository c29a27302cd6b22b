import { LeaseholdError, type GuardStore } from '@leasehold/core';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { openGate, type Gate } from './gate.ts';
import { isLook } from './guard.ts';
import { guardRequest } from './guard-request.ts';
import { putContext } from './handler-context.ts';
import { MIDDLEWARE_OPTIONS, parseAfterHangUp, type MiddlewareOptions } from './hang-up.ts';
import type { GuardedRequest } from './identify.ts';
import { lookRequest } from './look.ts';
import { headersOf, readAhead } from './node-request.ts';
import { isNothingHappened } from './nothing-happened.ts';
import { captureReply, type Patience, type ReplyCapture } from './reply-capture.ts';
import { bagOf } from './reply-methods.ts';
import { putHeaders } from './reply-head.ts';

export { guardContext } from './handler-context.ts';
export type { MiddlewareOptions } from './hang-up.ts';

/** What the guard needs of Express's request. */
export interface ExpressRequest extends IncomingMessage {
  readonly originalUrl: string;
  readonly body?: unknown;
}

/** Express's `next`. */
export type ExpressNext = (error?: unknown) => void;

/** A guard as Express middleware. */
export interface ExpressGuard<Request> {
  (request: Request, reply: ServerResponse, next: ExpressNext): void;
  /** The look endpoint, for routes: `app.post(LOOK_PATH, guarded.look)`. Where the guard itself is asked for that path it answers too. */
  readonly look: (request: Request, reply: ServerResponse, next: ExpressNext) => void;
}

// What the handlers behind a guard are writing, by request.
const captures = new WeakMap<object, ReplyCapture>();
// What a body parser read, by request.
const rawBodies = new WeakMap<object, Uint8Array>();

/**
 * A guard as Express middleware, before the handlers that have effects and behind authentication. The handlers' reply is kept back until it
 * is stored; one of 5xx or 429, which is also what becomes of an error, is not stored and leaves the key in doubt. The handler finds its
 * context with {@link guardContext}.
 *
 * The request hash needs the body as it came: mount the guard before the body parser, or give the parser `verify: keepRawBody`.
 *
 * @throws LeaseholdError `bad-option` naming the option that cannot be used.
 *
 * @example
 * const guarded = expressGuard(store, { mode: 'enforce', require: 'fence+key', retention: '30d' });
 * app.post('/.well-known/leasehold/look', guarded.look);
 * app.post('/tickets', guarded, express.json(), createTicket);
 * app.use(guardErrors);
 */
export function expressGuard<Request extends ExpressRequest = ExpressRequest>(
  store: GuardStore,
  options: MiddlewareOptions<Request>,
): ExpressGuard<Request> {
  const gate = openGate<Request, GuardStore>(store, options, MIDDLEWARE_OPTIONS);
  const { clock, holdMs } = gate.settings;
  const patience = { clock, beforeMs: parseAfterHangUp(options.afterHangUp), betweenMs: holdMs };
  const look = async (request: Request, reply: ServerResponse): Promise<void> => {
    await sendAnswer(reply, await lookRequest(gate, received(request)));
  };
  const serve = async (request: Request, reply: ServerResponse, next: ExpressNext): Promise<void> => {
    const guarded = received(request);
    await (isLook(gate, guarded) ? look(request, reply) : guardReply(gate, guarded, reply, next, patience));
  };
  const middleware = (request: Request, reply: ServerResponse, next: ExpressNext): void => {
    serve(request, reply, next).catch(next);
  };
  return Object.assign(middleware, {
    look: (request: Request, reply: ServerResponse, next: ExpressNext): void => {
      look(request, reply).catch(next);
    },
  });
}

/** Keeps the body as it came, for a parser that is mounted before the guard: `express.json({ verify: keepRawBody })`. */
export function keepRawBody(request: IncomingMessage, _reply: ServerResponse, body: Uint8Array): void {
  rawBodies.set(request, body);
}

/**
 * Error middleware, to be mounted after the guarded routes and before your own: makes of a thrown {@link NothingHappened} what `guard`
 * makes of it. Other errors pass.
 */
export function guardErrors(error: unknown, request: object, _reply: unknown, next: ExpressNext): void {
  const capture = captures.get(request);
  if (capture && !capture.begun && isNothingHappened(error)) capture.fail(error);
  else next(error);
}

async function guardReply<Request extends ExpressRequest>(
  gate: Gate<Request>,
  guarded: GuardedRequest<Request>,
  reply: ServerResponse,
  next: ExpressNext,
  patience: Patience,
): Promise<void> {
  let capture: ReplyCapture | undefined;
  let passed = false;
  try {
    const answer = await guardRequest(gate, guarded, (context, held) => {
      putContext(guarded.native, context);
      passed = !held;
      if (held) {
        capture = captureReply(reply, patience);
        captures.set(guarded.native, capture);
      }
      next();
      return capture ? capture.response : Promise.resolve(new Response(null));
    });
    if (!passed) await (capture ? capture.send(answer) : sendAnswer(reply, answer));
  } catch (error) {
    // The handler's own errors went through `next` and came back as a reply. This one is of the guard, its hooks or its caller's connection.
    if (!capture || capture.giveBack()) next(error);
  }
}

/** Answers in the handler's place. */
async function sendAnswer(reply: ServerResponse, answer: Response): Promise<void> {
  const bytes = Buffer.from(await answer.arrayBuffer());
  putHeaders(bagOf(reply), reply.getHeaders(), answer.headers);
  reply.statusCode = answer.status;
  reply.end(bytes);
}

function received<Request extends ExpressRequest>(request: Request): GuardedRequest<Request> {
  let read: Promise<Uint8Array | undefined> | undefined;
  return {
    method: request.method ?? 'GET',
    path: request.originalUrl,
    headers: headersOf(request.rawHeaders),
    body: (max) => (read ??= rawBody(request, max)),
    native: request,
  };
}

async function rawBody(request: ExpressRequest, max: number): Promise<Uint8Array | undefined> {
  const { body } = request;
  const raw = rawBodies.get(request) ?? (body instanceof Uint8Array ? body : undefined);
  if (raw) return raw.byteLength > max ? undefined : raw;
  if (request.readableDidRead) {
    const remedy =
      'The request body was read before the guard saw it. Mount the guard before the body parser, or give the parser verify: keepRawBody.';
    throw new LeaseholdError('bad-request', remedy, { field: 'body' });
  }
  return readAhead(request, max);
}
