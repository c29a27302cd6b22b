import type expressModule from 'express';
import fastify from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer, type Server } from 'node:http';
import { registerHooks } from 'node:module';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import type { GuardStore } from '@leasehold/core';
import type { GuardContext } from '@leasehold/guard';
import { expressGuard, guardContext, guardErrors, type MiddlewareOptions } from '@leasehold/guard/express';
import { fastifyGuard, guardContext as fastifyContext } from '@leasehold/guard/fastify';

/** What a handler is given, and what it answers. `body`: an object is sent as JSON, a stream is streamed, none is none. */
export interface Incoming {
  readonly body: unknown;
  readonly context: GuardContext;
}
export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object | string;
}
export type Handle = (incoming: Incoming) => Reply | Promise<Reply>;
export type Options = MiddlewareOptions<{ readonly headers: IncomingHttpHeaders }>;

/** A real server with one guarded route, `/tickets`, and a header of the application's own on everything. */
export interface Framework {
  readonly name: string;
  serve(store: GuardStore, options: Options, handle: Handle): Promise<string>;
}

/** Express, whose dependencies are required with the conditions of a require: the test runner gives Node those of an import for everything. */
export async function loadExpress(): Promise<typeof expressModule> {
  registerHooks({
    resolve(specifier, context, next) {
      if (!context.conditions.includes('require')) return next(specifier, context);
      return next(specifier, { ...context, conditions: context.conditions.filter((one) => one !== 'import') });
    },
  });
  const { default: express } = await import('express');
  return express;
}

let requests = 0;

export const FRAMEWORKS: readonly Framework[] = [
  {
    name: 'Express',
    async serve(store, options, handle) {
      const express = await loadExpress();
      const app = express();
      app.use((_request, reply, next) => {
        reply.set('X-Request-Id', String(++requests));
        next();
      });
      const guarded = expressGuard(store, options);
      app.post('/.well-known/leasehold/look', guarded.look);
      app.all('/tickets', guarded, express.json(), async (request, reply) => {
        const {
          status = 201,
          headers = {},
          body,
        } = await handle({ body: request.body, context: guardContext(request) });
        reply.status(status).set(headers);
        if (body instanceof Readable) body.pipe(reply);
        else if (body === undefined) reply.end();
        else reply.send(body);
      });
      app.use(guardErrors);
      return listen(createServer(app));
    },
  },
  {
    name: 'Fastify',
    async serve(store, options, handle) {
      const app = fastify();
      app.addHook('onRequest', async (_request, reply) => {
        reply.header('X-Request-Id', String(++requests));
      });
      await app.register(async (tickets) => {
        await tickets.register(fastifyGuard(store, options));
        tickets.all('/tickets', async (request, reply) => {
          const {
            status = 201,
            headers = {},
            body,
          } = await handle({ body: request.body, context: fastifyContext(request) });
          return reply.code(status).headers(headers).send(body);
        });
      });
      await app.ready();
      onTestFinished(() => app.close());
      await app.listen({ port: 0, host: '127.0.0.1' });
      return origin(app.server);
    },
  },
];

/** Serves until the test ends. */
export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return origin(server);
}

function origin(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
