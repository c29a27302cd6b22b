import type { GuardStore } from '@leasehold/core';
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream as NodeReadableStream } from 'node:stream/web';
import { collectBody } from './body.ts';
import { sendAnswer, startRun, type FastifyReply, type FastifyRun } from './fastify-reply.ts';
import { openGate } from './gate.ts';
import { guardRequest } from './guard-request.ts';
import { putContext } from './handler-context.ts';
import { MIDDLEWARE_OPTIONS, parseAfterHangUp, type MiddlewareOptions } from './hang-up.ts';
import type { GuardedRequest } from './identify.ts';
import { lookRequest } from './look.ts';
import { headersOf, readAhead, type IncomingBody } from './node-request.ts';
import { isNothingHappened } from './nothing-happened.ts';

export { guardContext } from './handler-context.ts';
export type { MiddlewareOptions } from './hang-up.ts';

/** What the guard needs of Fastify's request. */
export interface FastifyRequest {
  readonly raw: IncomingBody & { readonly rawHeaders: readonly string[] };
  readonly method: string;
  readonly originalUrl: string;
  readonly headers: IncomingHttpHeaders;
}

/** A guard as a Fastify plugin. It takes any instance: the type says no more of it, so that it needs no types of Fastify's. */
export type FastifyGuard = (instance: { addHook(name: never, hook: never): unknown }) => Promise<void>;

type Handler<Request> = (request: Request, reply: FastifyReply) => unknown;
type Done = (error?: unknown) => void;

/** What is used of an instance. */
interface Instance<Request> {
  addHook(name: 'onRoute', hook: (route: { handler: Handler<Request> }) => void): unknown;
  addHook(name: 'preParsing', hook: (request: Request, reply: unknown, payload: Readable) => Promise<unknown>): unknown;
  addHook(name: 'preHandler', hook: (request: Request, reply: FastifyReply, done: Done) => void): unknown;
  addHook(name: 'onSend', hook: (request: Request, reply: FastifyReply, payload: unknown) => Promise<unknown>): unknown;
  register(plugin: (child: LookInstance) => Promise<void>): unknown;
}

interface LookInstance {
  addHook(name: 'onRequest', hook: (request: FastifyRequest) => Promise<void>): unknown;
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: '*',
    options: { readonly parseAs: 'buffer' },
    parse: (request: unknown, body: Uint8Array, done: (error: null, body: Uint8Array) => void) => void,
  ): unknown;
  route(route: { readonly method: readonly string[]; readonly url: string; readonly handler: () => null }): unknown;
}

/**
 * A guard as a Fastify plugin, for the routes of the context it is registered in: register it before them, and behind authentication (an
 * `onRequest` hook, or a `preHandler` hook that was added earlier). A reply is kept back until it is stored; one of 5xx or 429, which is
 * also what becomes of an error, is not stored and leaves the key in doubt. The handler finds its context with {@link guardContext}.
 *
 * Body parsers work as ever: the guard reads the body ahead of them. The look endpoint is a route of the same context, so that a prefix
 * goes before its path.
 *
 * @throws LeaseholdError `bad-option` naming the option that cannot be used.
 *
 * @example
 * app.register(async (tickets) => {
 *   await tickets.register(fastifyGuard(store, { mode: 'enforce', require: 'fence+key', retention: '30d' }));
 *   tickets.post('/tickets', createTicket);
 * });
 */
export function fastifyGuard<Request extends FastifyRequest = FastifyRequest>(
  store: GuardStore,
  options: MiddlewareOptions<Request>,
): FastifyGuard {
  const gate = openGate<Request, GuardStore>(store, options, MIDDLEWARE_OPTIONS);
  const { clock, lookPath, maxBodyBytes } = gate.settings;
  const afterHangUpMs = parseAfterHangUp(options.afterHangUp);
  // By the server's own request: hooks and handlers may be given others.
  const bodies = new WeakMap<object, Uint8Array>();
  const runs = new WeakMap<object, FastifyRun>();
  const looks = new WeakSet<object>();

  const received = (request: Request): GuardedRequest<Request> => ({
    method: request.method,
    path: request.originalUrl,
    headers: headersOf(request.raw.rawHeaders),
    body: async (max) => {
      const body = bodies.get(request.raw);
      return body && body.byteLength <= max ? body : undefined;
    },
    native: request,
  });

  /** Keeps the body for the hash; gives what the parsers are to read instead, if another plugin has put a stream of its own there. */
  const keepBody = async (request: Request, _reply: unknown, payload: Readable): Promise<Readable | undefined> => {
    // What `inject` makes of a request does not say when it is complete.
    if (payload === (request.raw as Readable) && typeof request.raw.complete === 'boolean') {
      const body = await readAhead(request.raw, maxBodyBytes);
      if (body) bodies.set(request.raw, body);
      return undefined;
    }
    const read = await collectBody(Readable.toWeb(payload) as ReadableStream<Uint8Array>, maxBodyBytes);
    if ('bytes' in read) bodies.set(request.raw, read.bytes);
    const again =
      'bytes' in read ? Readable.from([Buffer.from(read.bytes)]) : Readable.fromWeb(read.over as NodeReadableStream);
    const { receivedEncodedLength } = payload as { readonly receivedEncodedLength?: unknown };
    return Object.assign(again, { receivedEncodedLength });
  };

  /** Calls `goOn` when the handler is to run; otherwise sends the answer. Rejects only when it did neither. */
  const admit = async (request: Request, reply: FastifyReply, goOn: () => void): Promise<void> => {
    const guarded = received(request);
    if (looks.has(request.raw)) return sendAnswer(reply, await lookRequest(gate, guarded));
    let passed = false;
    const answered = guardRequest(gate, guarded, async (context, held) => {
      passed = true;
      putContext(request, context);
      const run = held ? startRun(reply, clock, afterHangUpMs) : undefined;
      if (run) runs.set(request.raw, Object.assign(run, { answered }));
      goOn();
      return run ? run.replied : new Response(null);
    });
    try {
      const answer = await answered;
      if (!passed) await sendAnswer(reply, answer);
    } catch (error) {
      // Once the handler runs, whoever waits for its reply to be stored is told.
      if (!passed) throw error;
    }
  };

  const storeReply = async (request: Request, _reply: FastifyReply, payload: unknown): Promise<unknown> => {
    const run = runs.get(request.raw);
    return run && !run.over ? run.end(payload) : payload;
  };

  /** Notes that a handler changed nothing, before Fastify makes an ordinary error of it. */
  const watched = (handler: Handler<Request>): Handler<Request> =>
    function watchedHandler(this: unknown, request, reply) {
      const note = (error: unknown): void => {
        const run = runs.get(request.raw);
        if (run && isNothingHappened(error)) run.thrown = error;
      };
      try {
        const result: unknown = Reflect.apply(handler, this, [request, reply]);
        if (result instanceof Promise) result.catch(note);
        return result;
      } catch (error) {
        note(error);
        throw error;
      }
    };

  const plugin = async (given: unknown): Promise<void> => {
    const instance = given as Instance<Request>;
    instance.addHook('onRoute', (route) => {
      route.handler = watched(route.handler);
    });
    instance.addHook('preParsing', keepBody);
    // With a callback, because a hook that has sent a reply must not go on.
    instance.addHook('preHandler', (request, reply, done) => {
      admit(request, reply, done).catch(done);
    });
    instance.addHook('onSend', storeReply);
    if (lookPath !== undefined) instance.register(lookRoute(lookPath, (request) => void looks.add(request.raw)));
  };
  // Its hooks are for the context it is registered in, not for one of its own.
  return Object.assign(plugin, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('plugin-meta')]: { name: '@leasehold/guard', fastify: '5.x' },
  });
}

/** A route for the look endpoint, with the parsers out of its way: what it is sent it reads by itself. The guard's own hook answers. */
function lookRoute(url: string, mark: (request: FastifyRequest) => void): (child: LookInstance) => Promise<void> {
  return async (child) => {
    child.removeAllContentTypeParsers();
    child.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    child.addHook('onRequest', async (request) => mark(request));
    child.route({ method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], url, handler: () => null });
  };
}
