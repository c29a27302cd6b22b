import type { Claim } from './claim.ts';
import type { KeptHold } from './hold.ts';

/** What a guarded handler is told beside its request. */
export interface GuardContext {
  /** The task, as the caller named it. Undefined where no claim was required or, observing, none could be read. */
  readonly scope: string | undefined;
  /** The fencing token. */
  readonly token: number | undefined;
  /** The idempotency key: pass it on, or put a unique constraint on it. */
  readonly key: string | undefined;
  /**
   * Aborts when this request has lost its hold, so that another may be allowed to run. The caller hanging up does not abort it. The
   * handler's `request.signal` is this signal too.
   */
  readonly signal: AbortSignal;
  /** Whether the hold is certainly still there, by the clock and right now: ask it just before a step that cannot be undone. */
  readonly held: boolean;
  /**
   * Says that nothing was changed and nothing will be: whatever is thrown or returned next frees the key instead of leaving it in doubt.
   * Without effect on a 2xx answer, which says the opposite.
   */
  nothingHappened(): void;
}

/** The context where a key is required and enforced. */
export interface KeyedContext extends GuardContext {
  readonly scope: string;
  readonly key: string;
}

/** The context where a fence and a key are required and enforced. */
export interface FencedContext extends KeyedContext {
  readonly token: number;
}

/** The context that follows from a guard's options. */
export type ContextFor<Options> = Options extends { readonly mode: 'enforce'; readonly require: 'fence+key' }
  ? FencedContext
  : Options extends { readonly mode: 'enforce'; readonly require: 'key' }
    ? KeyedContext
    : GuardContext;

/** A context, and whether its handler has said that nothing happened. */
export interface TrackedContext {
  readonly context: GuardContext;
  readonly marked: () => boolean;
}

/** The context of one run; without a hold nothing can be lost. */
export function trackContext(claim: Claim | undefined, kept: KeptHold | undefined): TrackedContext {
  let marked = false;
  const signal = kept?.signal ?? new AbortController().signal;
  return {
    marked: () => marked,
    context: {
      scope: claim?.scope,
      token: claim?.token,
      key: claim?.key,
      signal,
      get held() {
        return kept?.held ?? true;
      },
      nothingHappened() {
        marked = true;
      },
    },
  };
}
