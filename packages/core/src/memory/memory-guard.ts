import { isDeepStrictEqual } from 'node:util';
import type { GuardHold, GuardStore, HoldId, LookVerdict, StoredResponse } from '../driver.ts';
import type { Clock } from '../clock.ts';
import { badOption } from '../errors.ts';
import { checkNames, type OptionNames } from '../option-names.ts';
import { checkCall } from './memory-errors.ts';
import { memoryClock, type MemoryClock } from './memory-clock.ts';

/** What a test sees of one key. */
export interface MemoryGuardKey {
  readonly scope: string;
  readonly key: string;
  readonly state: 'in-progress' | 'in-doubt' | 'finished';
  readonly response?: StoredResponse;
}

/** The state of a guard in memory: several stores on one state are several processes on one table. */
export interface MemoryGuardState {
  /** Every key that is remembered. */
  readonly keys: readonly MemoryGuardKey[];
  /** The highest token seen in a scope. */
  highest(scope: string): number | undefined;
}

/** How a guard's memory behaves. */
export interface MemoryGuardOptions {
  /** The state to work on, for several stores on one state; default a new one. */
  readonly state?: MemoryGuardState;
  /** Where the state's time comes from. A state keeps the clock of its first store. Default the machine's. */
  readonly clock?: Clock;
  readonly name?: string;
}

const OPTIONS: OptionNames<MemoryGuardOptions> = {
  state: true,
  clock: true,
  name: true,
};

/** A guard's memory in this process. */
export interface MemoryGuard extends GuardStore {
  readonly state: MemoryGuardState;
}

/** How long a freed hold is remembered: a `begin` that was given up has that long to arrive. */
const FREED_MS = 600_000;

interface Entry {
  readonly key: string;
  readonly requestHash: string;
  readonly retentionMs: number;
  readonly hold: HoldId;
  heldUntil: number;
  finished?: Finished;
}

interface Finished {
  readonly response: StoredResponse;
  readonly keptUntil: number;
}

interface Scope {
  /** Never forgotten: a seal has to last longer than any call that is still on its way. */
  highest?: number;
  readonly keys: Map<string, Entry>;
}

class GuardState implements MemoryGuardState {
  readonly scopes = new Map<string, Scope>();
  /** Freed holds and until when they are remembered, oldest first. */
  readonly freed = new Map<HoldId, number>();
  readonly clock: (clock: Clock | undefined) => MemoryClock = memoryClock();

  get keys(): readonly MemoryGuardKey[] {
    const now = this.clock(undefined).now();
    const all = [...this.scopes].flatMap(([scope, { keys }]) => [...keys.values()].map((entry) => ({ scope, entry })));
    return all
      .filter(({ entry }) => !isForgotten(entry, now))
      .map(({ scope, entry }) => {
        const seen = { scope, key: entry.key };
        if (entry.finished) return { ...seen, state: 'finished', response: copy(entry.finished.response) };
        return { ...seen, state: entry.heldUntil > now ? 'in-progress' : 'in-doubt' };
      });
  }

  highest(scope: string): number | undefined {
    return this.scopes.get(scope)?.highest;
  }

  scope(name: string): Scope {
    const scope = this.scopes.get(name) ?? { keys: new Map<string, Entry>() };
    this.scopes.set(name, scope);
    return scope;
  }

  /** What is known of a key; a response past its retention is not. */
  entry(scope: string, key: string, now: number): Entry | undefined {
    const keys = this.scopes.get(scope)?.keys;
    const entry = keys?.get(key);
    if (!entry || !isForgotten(entry, now)) return entry;
    keys?.delete(key);
    return undefined;
  }

  /** The entry of a hold, however it ended; undefined once another has the key or nobody. */
  held({ scope, key, hold }: GuardHold, now: number): Entry | undefined {
    const entry = this.entry(scope, key, now);
    return entry?.hold === hold ? entry : undefined;
  }

  free({ scope, key, hold }: GuardHold, now: number): void {
    const keys = this.scopes.get(scope)?.keys;
    if (keys?.get(key)?.hold === hold) keys.delete(key);
    for (const [old, until] of this.freed) {
      if (until > now) break;
      this.freed.delete(old);
    }
    this.freed.delete(hold);
    this.freed.set(hold, now + FREED_MS);
  }
}

/** A guard's state in memory, empty. Pass it to several `memoryGuard` to let them share it. */
export function memoryGuardState(): MemoryGuardState {
  return new GuardState();
}

/**
 * A guard's memory in this process: for tests, and for a receiver that is one process and may forget when it ends.
 * Highest tokens and keys in doubt are kept as long as the state; responses for their retention.
 */
export function memoryGuard(options: MemoryGuardOptions = {}): MemoryGuard {
  checkNames(options, OPTIONS);
  const { state = memoryGuardState(), clock, name = 'memory' } = options;
  if (!(state instanceof GuardState)) throw badOption('state', state, 'pass what memoryGuardState() gave.');
  const time = state.clock(clock);
  let closed = false;
  const start = (signal: AbortSignal): number => {
    checkCall(name, closed, signal);
    return time.now();
  };

  return {
    specVersion: 1,
    name,
    state,
    async begin(ask, signal) {
      const now = start(signal);
      const scope = state.scope(ask.scope);
      const stale = fence(scope, ask.token);
      if (stale) return stale;
      const { key, hold, requestHash, retentionMs } = ask;
      const entry = state.entry(ask.scope, key, now);
      if (entry) {
        if (entry.requestHash !== requestHash) return 'key-reused';
        const found = known(entry, now);
        // Its own hold: the answer to an earlier sending was lost.
        return found === 'in-progress' && entry.hold === hold ? { new: hold } : found;
      }
      if ((state.freed.get(hold) ?? 0) > now) return 'in-progress';
      scope.keys.set(key, { key, requestHash, retentionMs, hold, heldUntil: now + ask.holdMs });
      return { new: hold };
    },
    async extend(hold, holdMs, signal) {
      const now = start(signal);
      const entry = state.held(hold, now);
      if (!entry || entry.finished || entry.heldUntil <= now) return false;
      entry.heldUntil = now + holdMs;
      return true;
    },
    async finish(hold, response, signal) {
      const now = start(signal);
      const entry = state.held(hold, now);
      if (response === 'free') {
        if (entry?.finished) return false;
        state.free(hold, now);
        return true;
      }
      if (!entry) return false;
      // A bearer whose answer was lost says the same again.
      if (entry.finished) return isSame(entry.finished.response, response);
      entry.finished = stored(entry, response, now);
      return true;
    },
    async look(ask, signal) {
      const now = start(signal);
      const stale = fence(state.scope(ask.scope), ask.token);
      if (stale) return stale;
      const entry = state.entry(ask.scope, ask.key, now);
      return entry ? known(entry, now) : 'absent';
    },
    async resolve(hold, response, signal) {
      const now = start(signal);
      const entry = state.held(hold, now);
      if (!entry || entry.finished || entry.heldUntil > now) return false;
      if (response === 'free') state.free(hold, now);
      else entry.finished = stored(entry, response, now);
      return true;
    },
    async close() {
      closed = true;
    },
  };
}

/** Raises the highest token, or says that this one is below it. */
function fence(scope: Scope, token: number | undefined): { readonly stale: number } | undefined {
  if (token === undefined) return undefined;
  if (scope.highest !== undefined && token < scope.highest) return { stale: scope.highest };
  scope.highest = token;
  return undefined;
}

function known(entry: Entry, now: number): Exclude<LookVerdict, 'absent' | { readonly stale: number }> {
  if (entry.finished) return { previous: copy(entry.finished.response) };
  return entry.heldUntil > now ? 'in-progress' : { inDoubt: entry.hold };
}

function stored(entry: Entry, response: StoredResponse, now: number): Finished {
  return { response: copy(response), keptUntil: now + entry.retentionMs };
}

function isForgotten(entry: Entry, now: number): boolean {
  return entry.finished !== undefined && entry.finished.keptUntil <= now;
}

function copy(response: StoredResponse): StoredResponse {
  return { status: response.status, headers: { ...response.headers }, body: response.body.slice() };
}

function isSame(one: StoredResponse, other: StoredResponse): boolean {
  return isDeepStrictEqual(copy(one), copy(other));
}
