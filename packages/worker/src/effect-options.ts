import type { Duration, OptionNames } from '@leasehold/core';
import type { GuardedLook, LookedUp } from './guarded.ts';

/** What an irreversible call gets. Pass `headers` to a guarded receiver, or build your own from the parts. */
export interface CommitContext {
  readonly idempotencyKey: string;
  /** The fencing token. */
  readonly fence: number;
  /** The fence's scope: the task id. */
  readonly scope: string;
  /** `X-Execution-Scope`, `X-Execution-Fence`, `Idempotency-Key`, and `traceparent` where there is one. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** What reading back gets: the same, so that a guarded receiver can be told the fence. */
export type ReadBackContext = CommitContext;

/** How to find out whether the effect exists. */
type ReadBack<Found> =
  /** Answers what exists, or nothing. Throws when it cannot tell. */
  | ((context: ReadBackContext) => Promise<Found | undefined | null> | Found | undefined | null)
  /** Asks the look endpoint of a guarded receiver. */
  | GuardedLook
  /** The provider answers the same call with the same key with its first answer: committing again is reading back. */
  | 'provider-replays-key'
  /** Only a person can tell. */
  | 'human';

/** What every irreversible call declares. */
export interface EffectParts<Committed, Found> {
  /** The outside system, for the receipt. */
  readonly system: string;
  /** The idempotency key; the task's key and the effect's name unless given. One effect cannot have two. */
  readonly key?: string;
  readonly targetId?: string;
  /** Makes the call. Started only while the lease is held and the intent is confirmed. */
  readonly commit: (context: CommitContext) => Promise<Committed> | Committed;
  /** The receipt from what was read back (from commit's answer where the read-back is `provider-replays-key` or `human`; from the response for `guarded`). */
  readonly receipt: (
    found: Found,
  ) =>
    | { readonly externalId: string; readonly status: string }
    | Promise<{ readonly externalId: string; readonly status: string }>;
  /**
   * What the receiver does for us, which says what a read-back function's "absent" is worth.
   * `guarded`: the read-back shows it the fence, so an older call still on its way is refused. `idempotent`: it knows the key, so a second call
   * with it does nothing. `plain` (default): "absent" counts only after `quiesce`; without one it never does, and the effect stays in doubt.
   */
  readonly receiver?: 'guarded' | 'idempotent' | 'plain';
  /** After the intent and one lease, no older call can be on its way any more once this has passed. */
  readonly quiesce?: Duration;
}

/** One irreversible call, read back in any way. */
export type EffectOptions<Committed, Found> = EffectParts<Committed, Found> & { readonly readBack: ReadBack<Found> };

/** What {@link EffectOptions} may hold. */
export const EFFECT_OPTIONS: OptionNames<EffectOptions<never, never>> = {
  system: true,
  key: true,
  targetId: true,
  commit: true,
  receipt: true,
  receiver: true,
  quiesce: true,
  readBack: true,
};

/** Read back by a function of your own. */
export type ReadableEffect<Committed, Found> = EffectParts<Committed, Found> & {
  readonly readBack: (context: ReadBackContext) => Promise<Found | undefined | null> | Found | undefined | null;
};

/** Read back through the look endpoint of a guarded receiver; the receipt comes from the response that it stored. */
export type GuardedEffect<Committed> = EffectParts<Committed, LookedUp> & { readonly readBack: GuardedLook };

/** Not readable: commit's own answer is the proof. */
export type AnsweredEffect<Committed> = EffectParts<Committed, Committed> & {
  readonly readBack: 'provider-replays-key' | 'human';
};

/** An effect that exists, with the proof of it. */
export interface VerifiedEffect<Found> {
  readonly name: string;
  readonly system: string;
  /** The id in the outside system. */
  readonly id: string;
  readonly status: string;
  readonly idempotencyKey: string;
  /** How we know: from the record of an earlier attempt, from reading back, or from the call just made and read back. */
  readonly via: 'record' | 'read-back' | 'commit';
  /** What was found; absent when it came from the record. */
  readonly found?: Found;
}
