import { badOption, type GuardStore } from '@leasehold/core';
import { rereadable, type RereadableRequest } from './body.ts';
import type { ContextFor, GuardContext } from './context.ts';
import { openGate, type Gate } from './gate.ts';
import { guardRequest, type GuardedRun } from './guard-request.ts';
import type { GuardedRequest } from './identify.ts';
import { lookRequest } from './look.ts';
import type { GuardOptions } from './options.ts';

/** A handler behind a guard. Its request can be read as if nobody had read it before. */
export type GuardHandler<Context> = (request: Request, context: Context) => Response | Promise<Response>;

/**
 * Puts a guard before a Fetch-API handler. Whatever reaches the wrapped handler is guarded, whatever its method: mount it on the routes
 * that have effects, behind authentication. The look endpoint answers on its path.
 *
 * The wrapper answers the request hash's conflicts, stale tokens and replays itself, and rejects with what the handler threw: the key is
 * then in doubt, unless the handler said that nothing happened.
 *
 * @throws LeaseholdError `bad-option` naming the option that cannot be used.
 */
export function guard<const Options extends GuardOptions>(
  store: GuardStore,
  options: Options,
  handler: GuardHandler<ContextFor<Options>>,
): (request: Request) => Promise<Response> {
  if (typeof handler !== 'function')
    throw badOption('handler', handler, 'pass the function that answers requests, after the options.');
  const gate = openGate<Request, GuardStore>(store, options);
  return async (request) => {
    const { guarded, rebuild } = receive(request);
    if (isLook(gate, guarded)) return lookRequest(gate, guarded);
    // A caller that hangs up must not stop a handler half way: it goes on, its response is stored, and the retry finds it.
    const signalFor = (context: GuardContext): AbortSignal | undefined =>
      gate.settings.mode === 'enforce' ? context.signal : undefined;
    const run: GuardedRun = async (context) => handler(rebuild(signalFor(context)), context as ContextFor<Options>);
    return guardRequest(gate, guarded, run);
  };
}

/** A Fetch request as a guard takes it. */
export function receive(request: Request): {
  guarded: GuardedRequest<Request>;
  rebuild: RereadableRequest['rebuild'];
} {
  const url = new URL(request.url);
  const { body, rebuild } = rereadable(request);
  return {
    guarded: {
      method: request.method,
      path: url.pathname + url.search,
      headers: request.headers,
      body,
      native: request,
    },
    rebuild,
  };
}

/** Whether a request is meant for the look endpoint. */
export function isLook<Native>(gate: Gate<Native>, request: GuardedRequest<Native>): boolean {
  return gate.settings.lookPath !== undefined && request.path.split('?', 1)[0] === gate.settings.lookPath;
}
