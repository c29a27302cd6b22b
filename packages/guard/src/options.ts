import {
  badOption,
  checkNames,
  parseDuration,
  systemClock,
  type Clock,
  type Duration,
  type Json,
  type OptionNames,
  type StoredResponse,
} from '@leasehold/core';

/** Which fields a request has to bear. What is optional is still checked when it is there. */
export type Requirement = 'fence+key' | 'key' | 'none';

/** What an `extract` hook found in a body. */
export interface Extracted {
  /** The task id; without it the key is the scope. */
  readonly scope?: string;
  readonly fence?: number | string;
  readonly key?: string;
  /**
   * The part of the body that says what is asked for; the request hash covers it instead of the whole body. Required with a fence in the
   * body: the next owner repeats the request with another fence, and must not be told that its key belongs to another request.
   */
  readonly content?: Json | Uint8Array;
}

/** A key in doubt, as it is put to the `resolve` hook. */
export interface Doubt<Native> {
  /** As the caller named it, without the caller's namespace. */
  readonly scope: string;
  readonly key: string;
  readonly token?: number;
  /** The request (or the look) that met the doubt, its body already read. */
  readonly request: Native;
  /** Aborts when nobody waits for the answer any more: after the length of one hold. */
  readonly signal: AbortSignal;
}

/** What a `resolve` hook may say. */
export type DoubtAnswer = StoredResponse | Response | 'absent' | 'unknown';

/** How a guard works. `Native` is the request type of the server it is mounted in. */
export interface GuardOptions<Native = Request> {
  /** `observe` runs every request and only reports what `enforce` would have answered. */
  readonly mode: 'observe' | 'enforce';
  readonly require: Requirement;
  /** How long keys and responses are kept. At least the ledger's retention, which is at least the broker's. */
  readonly retention: Duration;
  /** How long a request in progress survives its process; extended every third of it while the handler runs. Default 30 s. */
  readonly hold?: Duration;
  /** Who is calling, from what authentication has put on the request: a namespace for scopes and keys. Stored as a hash. */
  readonly identity?: (request: Native) => string;
  /** Takes scope, fence and key from a JSON body instead of the headers. */
  readonly extract?: (request: Native, body: Json) => Extracted;
  /**
   * Reads the receiver's own state for a key whose hold ended without an outcome. `absent` frees the key and lets the request run, so it has
   * to mean *has not happened and cannot happen any more*: a handler that was only paused may still be on its way, unless a unique
   * constraint on the key stops it. `unknown`, a throw or no answer in time leave the key in doubt.
   */
  readonly resolve?: (doubt: Doubt<Native>) => DoubtAnswer | Promise<DoubtAnswer>;
  /** The longest request body. Default 1 MiB. */
  readonly maxBodyBytes?: number;
  /** The longest response body that is kept for replays. Default 64 KiB. */
  readonly maxStoredBytes?: number;
  /** The longest scope or key, in characters. Default 512. */
  readonly maxHeaderLength?: number;
  /** Where the look endpoint answers; `false` for nowhere. Default `/.well-known/leasehold/look`. */
  readonly lookPath?: string | false;
  readonly clock?: Clock;
}

/** The look endpoint's path unless `lookPath` says otherwise. */
export const LOOK_PATH = '/.well-known/leasehold/look';

/** Options with every default filled in and every value checked. */
export interface GuardSettings<Native> {
  readonly mode: 'observe' | 'enforce';
  readonly require: Requirement;
  readonly retentionMs: number;
  readonly holdMs: number;
  /** The longest one call to the store may take before it counts as unanswered. */
  readonly callMs: number;
  readonly maxBodyBytes: number;
  readonly maxStoredBytes: number;
  readonly maxHeaderLength: number;
  readonly lookPath: string | undefined;
  readonly clock: Clock;
  readonly identity: ((request: Native) => string) | undefined;
  readonly extract: ((request: Native, body: Json) => Extracted) | undefined;
  readonly resolve: GuardOptions<Native>['resolve'];
}

/** What {@link GuardOptions} may hold. */
export const GUARD_OPTIONS: OptionNames<GuardOptions> = {
  mode: true,
  require: true,
  retention: true,
  hold: true,
  identity: true,
  extract: true,
  resolve: true,
  maxBodyBytes: true,
  maxStoredBytes: true,
  maxHeaderLength: true,
  lookPath: true,
  clock: true,
};

/** @throws LeaseholdError `bad-option` naming the option that cannot be used, also one that is not among `names`. */
export function parseOptions<Native>(
  options: GuardOptions<Native>,
  names: OptionNames<GuardOptions> = GUARD_OPTIONS,
): GuardSettings<Native> {
  checkNames(options, names);
  const { mode, require, lookPath = LOOK_PATH } = options;
  if (mode !== 'observe' && mode !== 'enforce') throw badOption('mode', mode, "write 'observe' or 'enforce'.");
  if (require !== 'fence+key' && require !== 'key' && require !== 'none') {
    throw badOption('require', require, "write 'fence+key', 'key' or 'none'.");
  }
  const holdMs = parseDuration(options.hold ?? '30s', 'hold', { min: 1_000 });
  const retentionMs = parseDuration(options.retention, 'retention', { min: holdMs });
  if (lookPath !== false && !lookPath.startsWith('/'))
    throw badOption('lookPath', lookPath, "write a path such as '/look', or false.");
  return {
    mode,
    require,
    retentionMs,
    holdMs,
    // Six unanswered calls fit into one hold: two missed extensions are survived, and settling has time to repeat.
    callMs: Math.min(mode === 'observe' ? 1_000 : 5_000, Math.floor(holdMs / 6)),
    maxBodyBytes: count(options.maxBodyBytes, 1024 * 1024, 'maxBodyBytes', 0),
    maxStoredBytes: count(options.maxStoredBytes, 64 * 1024, 'maxStoredBytes', 0),
    maxHeaderLength: count(options.maxHeaderLength, 512, 'maxHeaderLength', 1),
    lookPath: lookPath === false ? undefined : lookPath,
    clock: options.clock ?? systemClock(),
    identity: options.identity,
    extract: options.extract,
    resolve: options.resolve,
  };
}

function count(value: number | undefined, fallback: number, field: string, min: number): number {
  const found = value ?? fallback;
  if (!Number.isSafeInteger(found) || found < min)
    throw badOption(field, found, `write a whole number of at least ${min}.`);
  return found;
}
