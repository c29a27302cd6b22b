import { badOption, type GuardAsk, type GuardStore, type GuardVerdict, type StoredResponse } from '@leasehold/core';
import { outcomeUnknown, refusalOf, storeUnavailable, type Refusal } from './admission.ts';
import type { FencedContext, KeyedContext } from './context.ts';
import { errorClass } from './events.ts';
import { announceFor, openGate, storeFailed, within, type Gate } from './gate.ts';
import { isLook, receive } from './guard.ts';
import { answerRefusal, nothingHappened } from './guard-request.ts';
import { identify, type Identified } from './identify.ts';
import { lookRequest } from './look.ts';
import { isNothingHappened } from './nothing-happened.ts';
import type { GuardOptions } from './options.ts';
import { saysWhatHappened, storableResponse } from './stored-response.ts';

/** What `transact` comes to: another verdict than permission, or what `apply` did. */
export type TransactVerdict = Exclude<GuardVerdict, { readonly new: string }> | { readonly done: StoredResponse };

/** What `transact` is asked: no hold, since nothing can be seen half done. */
export type TransactAsk = Omit<GuardAsk, 'hold' | 'holdMs'>;

/** A guard store in the receiver's own database. */
export interface TransactionalGuardStore<Db> extends GuardStore {
  /**
   * Fence check, key check, `apply` and the stored response in one transaction. When `apply` throws, what it wrote is rolled back, the key
   * stays free and what it threw comes out; a raised token may stay raised. May call `apply` again when the transaction has to be repeated.
   */
  transact(ask: TransactAsk, apply: (db: Db) => StoredResponse, signal: AbortSignal): Promise<TransactVerdict>;
}

/** A response as data, made inside the transaction. Text bodies are sent as UTF-8. */
export interface PlainResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

/** What `prepare` is told beside request and body. */
export type PrepareContext<Options> = Options extends { readonly require: 'fence+key' }
  ? Pick<FencedContext, 'scope' | 'token' | 'key'>
  : Pick<KeyedContext, 'scope' | 'token' | 'key'>;

/** A guard in the strong form has no holds, so no doubts; and it cannot merely observe, as its effect needs the transaction. */
export interface TransactionalGuardOptions extends Omit<GuardOptions, 'mode' | 'require' | 'hold' | 'resolve'> {
  readonly mode?: 'enforce';
  readonly require: 'fence+key' | 'key';
}

/** Does everything asynchronous (reads, checks, calls), changes nothing, and returns the effect. */
export type Prepare<Db, Context> = (
  request: Request,
  body: Uint8Array,
  context: Context,
) => ((db: Db) => PlainResponse) | Promise<(db: Db) => PlainResponse>;

/**
 * The strong form: the effect and its key commit together, so the outcome is never in doubt, whatever is killed. The function that
 * `prepare` returns runs inside the transaction, synchronously; if it throws, or answers 5xx or 429, the transaction is rolled back and
 * the key stays free. `prepare` runs only for a key that is new at that moment, but two requests at once may both prepare: one applies.
 *
 * @throws LeaseholdError `bad-option` naming the option that cannot be used.
 */
export function transactionalGuard<Db, const Options extends TransactionalGuardOptions>(
  store: TransactionalGuardStore<Db>,
  options: Options,
  prepare: Prepare<Db, PrepareContext<Options>>,
): (request: Request) => Promise<Response> {
  // `none` is not in the type; a JavaScript caller finds out here rather than at the first request without a key.
  if ((options.require as string) === 'none') throw badOption('require', 'none', "write 'fence+key' or 'key'.");
  const gate = openGate<Request, TransactionalGuardStore<Db>>(store, { ...options, mode: 'enforce' });
  return async (request) => {
    const { guarded, rebuild } = receive(request);
    if (isLook(gate, guarded)) return lookRequest(gate, guarded);
    const found = await identify(gate, guarded);
    if (!found) throw new TypeError('identify gave no claim although a key is required.');
    if ('problem' in found) return answerRefusal(gate, undefined, found);
    // `prepare` may be slow, and is not to run for a stale owner or a known key.
    const known = await transact(gate, found, probe);
    if ('refusal' in known) return answerRefusal(gate, found.claim, known.refusal);
    if ('unanswered' in known) return answerRefusal(gate, found.claim, { problem: storeUnavailable() });
    const body = (await guarded.body(gate.settings.maxBodyBytes)) ?? new Uint8Array(0);
    const { scope, token, key } = found.claim;
    const context = { scope, token, key } as PrepareContext<Options>;
    try {
      const effect = await prepare(rebuild(new AbortController().signal), body, context);
      return await applyOnce(gate, found, effect);
    } catch (error) {
      if (isNothingHappened(error)) return answerRefusal(gate, found.claim, { problem: nothingHappened() });
      throw error;
    }
  };
}

async function applyOnce<Db>(
  gate: TransactionalGate<Db>,
  found: Identified,
  effect: (db: Db) => PlainResponse,
): Promise<Response> {
  const { claim } = found;
  const outcome = await transact(gate, found, effect);
  if ('refusal' in outcome) return answerRefusal(gate, claim, outcome.refusal);
  if ('done' in outcome) {
    announceFor(gate, claim, { name: 'guard_stored', status: outcome.done.status });
    return responseOf(outcome.done);
  }
  if ('unanswered' in outcome) {
    // Committed or not, both are whole: the caller repeats the request and is told, or it runs for the first time.
    announceFor(gate, claim, { name: 'guard_outcome_unknown' });
    return answerRefusal(gate, claim, { problem: outcomeUnknown() });
  }
  announceFor(gate, claim, { name: 'guard_freed', errorClass: errorClass(outcome.threw) });
  if (outcome.threw instanceof RolledBack) return responseOf(outcome.threw.response);
  throw outcome.threw;
}

type TransactionalGate<Db> = Gate<Request, TransactionalGuardStore<Db>>;

type Outcome =
  | { readonly done: PlainResponse }
  | { readonly refusal: Refusal }
  | { readonly threw: unknown }
  | { readonly unanswered: true };

async function transact<Db>(
  gate: TransactionalGate<Db>,
  found: Identified,
  effect: (db: Db) => PlainResponse,
): Promise<Outcome> {
  const { callMs, maxStoredBytes } = gate.settings;
  let thrown: { readonly threw: unknown } | undefined;
  let done: PlainResponse | undefined;
  const apply = (db: Db): StoredResponse => {
    thrown = undefined;
    try {
      done = effect(db);
      if (!saysWhatHappened(done.status)) throw new RolledBack(done);
      const { status, headers = {}, body = '' } = done;
      return storableResponse(
        { status, headers, body: typeof body === 'string' ? Buffer.from(body) : body },
        maxStoredBytes,
      );
    } catch (error) {
      thrown = { threw: error };
      throw error;
    }
  };
  try {
    const verdict = await within(gate, callMs, (signal) => gate.store.transact(found.ask, apply, signal));
    if (typeof verdict === 'string' || !('done' in verdict)) return { refusal: refusalOf(verdict) };
    return { done: done ?? verdict.done };
  } catch (error) {
    if (thrown) return thrown;
    storeFailed(gate, 'transact', error);
    return { unanswered: true };
  }
}

function responseOf(plain: PlainResponse): Response {
  const { status, headers = {}, body = '' } = plain;
  const bytes = typeof body === 'string' ? body : Uint8Array.from(body);
  return new Response(bytes.length === 0 ? null : bytes, { status, headers: { ...headers } });
}

/** Asks whether the key is new, without taking it. */
function probe(): never {
  throw new RolledBack({ status: 503 });
}

/** Thrown to roll the transaction back: its response says that nothing happened. */
class RolledBack extends Error {
  readonly response: PlainResponse;

  constructor(response: PlainResponse) {
    super('rolled back');
    this.response = response;
  }
}
