import {
  checkPart,
  isLeaseholdError,
  LeaseholdError,
  type GuardStore,
  type HoldId,
  type OptionNames,
} from '@leasehold/core';
import type { Claim } from './claim.ts';
import { announce, errorClass, type GuardEvent } from './events.ts';
import { parseOptions, type GuardOptions, type GuardSettings } from './options.ts';

/** A guard's store and settings, and what this process knows of the requests it is running. Make one per guarded handler. */
export interface Gate<Native, Store extends GuardStore = GuardStore> {
  readonly store: Store;
  readonly settings: GuardSettings<Native>;
  /** Scope and key of the handlers that run here. */
  readonly running: Map<string, number>;
  /** Doubts being resolved here, by the hold that is in doubt. */
  readonly resolving: Map<HoldId, Promise<DoubtOutcome>>;
}

/** What became of a doubt: settled one way or the other; still running here; not to be told; or the store did not answer. */
export type DoubtOutcome = 'settled' | 'running' | 'unknown' | 'unanswered';

/**
 * @throws LeaseholdError `bad-option` naming the option that cannot be used.
 */
export function openGate<Native, Store extends GuardStore>(
  store: Store,
  options: GuardOptions<Native>,
  names?: OptionNames<GuardOptions>,
): Gate<Native, Store> {
  checkPart('store', store, 'a guard store');
  return { store, settings: parseOptions(options, names), running: new Map(), resolving: new Map() };
}

/** Stands for the answer that did not come: the call failed or took too long, and whether it was applied is not known. */
export const UNANSWERED: unique symbol = Symbol('unanswered');

/** One call to the store, for at most `callMs` (or `limitMs`, if that is shorter). */
export async function callStore<Native, Answer>(
  gate: Gate<Native>,
  operation: keyof GuardStore | 'transact',
  call: (signal: AbortSignal) => Promise<Answer>,
  limitMs: number = gate.settings.callMs,
): Promise<Answer | typeof UNANSWERED> {
  try {
    return await within(gate, Math.min(gate.settings.callMs, limitMs), call);
  } catch (error) {
    storeFailed(gate, operation, error);
    return UNANSWERED;
  }
}

/**
 * Announces a failed call. An option that the store cannot work with comes out instead: it never gets better by repeating, and only a
 * thrown error shows its remedy. Observing never stands in the way of a request, whatever is wrong.
 */
export function storeFailed<Native>(gate: Gate<Native>, operation: string, error: unknown): void {
  const code = isLeaseholdError(error) ? error.code : undefined;
  announce({
    name: 'guard_store_failed',
    at: gate.settings.clock.wall(),
    operation,
    errorClass: errorClass(error),
    ...(code === undefined ? {} : { errorCode: code }),
  });
  if (code === 'bad-option' && gate.settings.mode === 'enforce') throw error;
}

/** Runs `call` for at most `limitMs`, then aborts its signal and rejects with a `timeout`. A late rejection is never an unhandled one. */
export function within<Native, Answer>(
  gate: Gate<Native>,
  limitMs: number,
  call: (signal: AbortSignal) => Answer | Promise<Answer>,
): Promise<Answer> {
  const controller = new AbortController();
  return new Promise<Answer>((resolve, reject) => {
    let open = true;
    const timer = gate.settings.clock.timer(limitMs, () => {
      open = false;
      const error = new LeaseholdError(
        'timeout',
        `No answer within ${limitMs} ms; whether it was applied is not known.`,
      );
      reject(error);
      controller.abort(error);
    });
    const close = (): boolean => {
      timer.cancel();
      const first = open;
      open = false;
      return first;
    };
    // The async function turns a synchronous throw into a rejection.
    void (async (): Promise<Answer> => call(controller.signal))().then(
      (answer) => (close() ? resolve(answer) : undefined),
      (error: unknown) => (close() ? reject(error as Error) : undefined),
    );
  });
}

/** Announces an event about a claim, with its time. */
export function announceFor<Native>(gate: Gate<Native>, claim: Claim | undefined, event: Omit<GuardEvent, 'at'>): void {
  announce({ at: gate.settings.clock.wall(), ...(claim ? idsOf(claim) : {}), ...event });
}

function idsOf(claim: Claim): Pick<GuardEvent, 'scope' | 'token' | 'key'> {
  const { scope, token, key } = claim;
  return { scope, key, ...(token === undefined ? {} : { token }) };
}

/** The name of a key within this process. Neither part can hold a line break. */
export function keyId(ask: { readonly scope: string; readonly key: string }): string {
  return `${ask.scope}\n${ask.key}`;
}
