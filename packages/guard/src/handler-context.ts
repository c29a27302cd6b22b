import type { GuardContext } from './context.ts';

// By request, in this copy of the package: a framework's request object is not ours to add properties to.
const contexts = new WeakMap<object, GuardContext>();

/** Remembers the context of a request whose handler is about to run. */
export function putContext(request: object, context: GuardContext): void {
  contexts.set(request, context);
}

/**
 * What a guarded handler is told beside its request: scope, token and key, the signal of its hold, and `nothingHappened()`.
 *
 * @throws TypeError for a request that did not come through a guard.
 */
export function guardContext(request: object): GuardContext {
  const context = contexts.get(request);
  if (!context)
    throw new TypeError('guardContext(request): this request did not come through a guard; check where it is mounted.');
  return context;
}
