import {
  boundedCall,
  LeaseholdError,
  PermanentError,
  RetryableError,
  hashJson,
  isPermanentError,
  sleep,
} from '@leasehold/core';
import type { ApplyOutcome, EffectRecord } from '@leasehold/core';
import type { EffectOptions, VerifiedEffect } from './effect-options.ts';
import { answered } from './human.ts';
import { readBack, refusedForGood, type ReadBackHost, type ReadBackResult } from './read-back.ts';

/** What the effect protocol needs of an attempt. */
export interface EffectHost extends ReadBackHost {
  readonly signal: AbortSignal;
  /** The task is being closed: read back, never commit. */
  readonly closing: boolean;
  /** False when only the broker's message id names the task and the type did not declare that this will do. */
  readonly identified: boolean;
  enter(stage: 'commit' | 'verify', reason: string): void;
  /** Resolves when the lease is held; rejects when it is lost or the attempt is aborted. */
  confirmed(): Promise<void>;
}

/** The handler reached what may not start any more: the attempt only closes what is open. */
export class ClosingSignal extends LeaseholdError {
  override readonly name: string = 'ClosingSignal';

  constructor() {
    super('closing', 'The task is being closed: no new effect starts.');
  }
}

/** It cannot be told whether the effect exists. Retried, then it goes to a person or is dead-lettered; it never becomes a second write. */
export class EffectInDoubt extends RetryableError {
  override readonly name: string = 'EffectInDoubt';
  readonly code = 'in-doubt' as const;
}

const VERIFY = { tries: 4, firstMs: 200 };
const CLOSING_TRIES = 3;
/** How long one call of a closing may take. Nothing aborts a closing, and no limit of a stage ends it. */
const CLOSING_CALL_MS = 30_000;

/** Intent, commit, read-back, receipt: an irreversible call that a retry reads back before it would make it again. */
export async function runEffect<Committed, Found>(
  host: EffectHost,
  name: string,
  options: EffectOptions<Committed, Found>,
): Promise<VerifiedEffect<Found>> {
  const { task } = host;
  if (!host.identified) {
    throw new PermanentError(
      `The message of this task names no task, so a copy of it would make effect "${name}" twice. Send an id with it, or declare identity: 'message-id' on the task.`,
    );
  }
  const key = options.key ?? `${task.record.idempotencyKey}:${name}`;
  if (!/^[\x20-\x7e]{1,512}$/.test(key)) {
    throw new PermanentError(
      `The key of effect "${name.slice(0, 40)}" has to be 1 to 512 printable ASCII characters, since it travels in a header; name the effect so, or give a key.`,
    );
  }
  const known = Object.hasOwn(task.record.effects, name) ? task.record.effects[name] : undefined;
  if (known && known.key !== key) {
    throw new PermanentError(
      `Effect "${name}" was intended with the key ${known.key} and now has ${key}: one name cannot have two keys.`,
    );
  }
  if (known?.targetId !== undefined && options.targetId !== undefined && known.targetId !== options.targetId) {
    throw new PermanentError(
      `Effect "${name}" was intended for another target of this task: give the effect of each target a name of its own.`,
    );
  }
  const earlier = fromRecord<Found>(host, name, options, key, known);
  if (earlier) return earlier;
  if (known) {
    // Intended by any attempt, this one included: read before writing.
    await host.confirmed();
    host.enter('commit', `reading back ${name}`);
    if (options.readBack === 'human' && !host.closing) return toldByHuman(host, name, options, key);
    const result = await attemptReadBack(host, name, (signal) => readBack(host, options, key, known, signal));
    if (result.state === 'found') return await verified(host, name, options, key, result.found, 'read-back');
    if (host.closing) {
      // A call that is answered by replaying cannot be read back without making it. What could not tell is asked again, a few times, by the closing.
      if (options.readBack === 'provider-replays-key') task.carryFinding(name, { status: 'in_doubt' });
      else if (result.state !== 'unknown') task.carryFinding(name, { status: 'absent' });
      throw new ClosingSignal();
    }
    if (result.state === 'refused') throw refusedForGood(name, result.status);
    if (result.state === 'unknown') throw inDoubt(host, name, result);
  }
  if (host.closing) throw new ClosingSignal();
  return commitAndVerify(host, name, options, key);
}

/** Reads an open effect back for a closing: what cannot tell after a few tries stays in doubt. Starts nothing once the lease is lost. */
export async function findForClosing(
  host: EffectHost,
  name: string,
  record: EffectRecord,
  options: EffectOptions<unknown, unknown> | undefined,
  read: (signal: AbortSignal) => Promise<ReadBackResult<unknown>>,
): Promise<void> {
  const { task } = host;
  for (let tries = 1; tries <= CLOSING_TRIES && !task.lost; tries++) {
    const result = await attemptReadBack(host, name, read);
    if (result.state === 'found') {
      const receipt = await receiptIfAny(host, name, options, result.found, record);
      task.carryFinding(name, { status: 'verified', ...receipt });
      return;
    }
    if (result.state !== 'unknown') {
      task.carryFinding(name, { status: options?.readBack === 'provider-replays-key' ? 'in_doubt' : 'absent' });
      return;
    }
    await sleep(host.clock, VERIFY.firstMs * tries);
  }
  if (task.lost) return;
  task.announce('effect_in_doubt', { effect: name });
  task.carryFinding(name, { status: 'in_doubt' });
}

/** Only a person can tell: a yes says that the effect exists, a no ends the task. */
function toldByHuman<Found>(
  host: EffectHost,
  name: string,
  options: { readonly system: string },
  key: string,
): VerifiedEffect<Found> {
  const answer = answered(
    host.task.record,
    `Does effect "${name}" exist at ${options.system} (key ${key})? Approve if it does; give its id as the reason.`,
  );
  const id = answer.reason === '' ? `key:${key}` : answer.reason;
  host.task.carryFinding(name, { status: 'verified', externalId: id, externalStatus: 'confirmed-by-human' });
  host.task.announce('effect_verified', {
    effect: name,
    externalSystem: options.system,
    externalId: id,
    cause: 'human',
  });
  return { name, system: options.system, id, status: 'confirmed-by-human', idempotencyKey: key, via: 'read-back' };
}

/** Stands for the id of an effect that is known to exist by its key alone. */
function unread(key: string): string {
  return `key:${key}`;
}

/** What was found exists, whether its receipt can be made or not. */
async function receiptIfAny(
  host: EffectHost,
  name: string,
  options: EffectOptions<unknown, unknown> | undefined,
  found: unknown,
  record: EffectRecord,
): Promise<Receipt> {
  try {
    if (options) return await receiptOf(host, name, options, found);
  } catch {
    // As without one.
  }
  return { externalId: record.externalId ?? unread(record.key), externalStatus: 'exists' };
}

interface Receipt {
  readonly externalId: string;
  readonly externalStatus: string;
}

async function receiptOf<Found>(
  host: EffectHost,
  name: string,
  options: Pick<EffectOptions<unknown, Found>, 'receipt'>,
  found: Found,
): Promise<Receipt> {
  const receipt = await inTime(host, 'making a receipt', async () => options.receipt(found));
  if (typeof receipt?.externalId !== 'string' || typeof receipt.status !== 'string') {
    throw new PermanentError(`receipt of effect "${name}" has to answer {externalId, status}, both text.`);
  }
  return { externalId: receipt.externalId, externalStatus: receipt.status };
}

function fromRecord<Found>(
  host: EffectHost,
  name: string,
  options: { readonly system: string },
  key: string,
  known: EffectRecord | undefined,
): VerifiedEffect<Found> | undefined {
  const found = host.task.carriedFinding(name);
  const proof = found?.status === 'verified' ? found : known?.status === 'verified' ? known : undefined;
  // It exists, but whoever found it could not tell the handler what it is: read it back.
  if (!proof || proof.externalId === unread(key)) return undefined;
  return {
    name,
    system: options.system,
    id: proof.externalId ?? '',
    status: proof.externalStatus ?? '',
    idempotencyKey: key,
    via: 'record',
  };
}

async function commitAndVerify<Committed, Found>(
  host: EffectHost,
  name: string,
  options: EffectOptions<Committed, Found>,
  key: string,
): Promise<VerifiedEffect<Found>> {
  const { task } = host;
  await host.confirmed();
  host.enter('commit', `committing ${name}`);
  const way = options.readBack;
  const details = {
    key,
    system: options.system,
    requestHash: hashJson([options.system, key, options.targetId ?? null, task.record.payloadHash ?? null]),
    ...(options.targetId !== undefined && { targetId: options.targetId }),
    ...(typeof way === 'object' && { lookUrl: way.url }),
  };
  const intent = await task.apply(
    { type: 'intend', leaseMs: task.timing.leaseMs, effect: name, details },
    { repeat: true },
  );
  intended(name, intent);
  task.announce('effect_intended', { effect: name, externalSystem: options.system });
  // Confirmed once more if the margin was reached meanwhile. Nothing may come between the check and the call.
  while (task.ownership() !== 'held') await host.confirmed();
  host.signal.throwIfAborted();
  let committed: Committed;
  try {
    committed = await options.commit(host.context(key, host.signal));
  } catch (error) {
    return await afterFailedCommit(host, name, options, key, error);
  }
  const committedAt = await host.storeNow();
  if (way === 'provider-replays-key' || way === 'human') {
    // Their answer is all there is to read.
    return await verified(host, name, options, key, committed as unknown as Found, 'commit', committedAt);
  }
  host.enter('verify', `verifying ${name}`);
  for (let tries = 1; ; tries++) {
    const result = await attemptReadBack(host, name, (signal) => readBack(host, options, key, undefined, signal));
    if (result.state === 'found') return await verified(host, name, options, key, result.found, 'commit', committedAt);
    if (result.state === 'refused') throw refusedForGood(name, result.status);
    if (tries >= VERIFY.tries) throw inDoubt(host, name, result.state === 'unknown' ? result : {});
    await sleep(host.clock, VERIFY.firstMs * 2 ** (tries - 1), host.signal);
  }
}

/** The call failed, or its answer was lost: if it can be found, it happened. */
async function afterFailedCommit<Committed, Found>(
  host: EffectHost,
  name: string,
  options: EffectOptions<Committed, Found>,
  key: string,
  error: unknown,
): Promise<VerifiedEffect<Found>> {
  if (host.signal.aborted || host.task.lost || typeof options.readBack === 'string') throw error;
  const record = host.task.record.effects[name];
  const result = await attemptReadBack(host, name, (signal) => readBack(host, options, key, record, signal));
  if (result.state === 'found') return await verified(host, name, options, key, result.found, 'read-back');
  if (result.state === 'refused') throw refusedForGood(name, result.status);
  throw error;
}

/** While the task is closed, a call has its time and no more; else it has what the attempt has. */
function inTime<Result>(
  host: EffectHost,
  what: string,
  call: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  return host.closing ? boundedCall(host.clock, what, CLOSING_CALL_MS, call) : call(host.signal);
}

/** A read-back that throws cannot tell, unless it was called off or says that asking again is no use. */
async function attemptReadBack<Found>(
  host: EffectHost,
  name: string,
  read: (signal: AbortSignal) => Promise<ReadBackResult<Found>>,
): Promise<ReadBackResult<Found>> {
  try {
    const result = await inTime(host, 'reading back', read);
    host.task.announce('effect_read_back', { effect: name, cause: result.state });
    return result;
  } catch (error) {
    host.task.announce('effect_read_back', {
      effect: name,
      cause: 'failed',
      errorCode: error instanceof Error ? error.name : 'unknown',
    });
    if (!host.closing && (host.signal.aborted || isPermanentError(error))) throw error;
    return { state: 'unknown', error };
  }
}

async function verified<Committed, Found>(
  host: EffectHost,
  name: string,
  options: EffectOptions<Committed, Found>,
  key: string,
  found: Found,
  via: 'read-back' | 'commit',
  committedAt?: number,
): Promise<VerifiedEffect<Found>> {
  const receipt = await receiptOf(host, name, options, found);
  host.task.carryFinding(name, { status: 'verified', ...receipt, ...(committedAt !== undefined && { committedAt }) });
  host.task.announce('effect_verified', {
    effect: name,
    externalSystem: options.system,
    externalId: receipt.externalId,
    cause: via,
  });
  return {
    name,
    system: options.system,
    id: receipt.externalId,
    status: receipt.externalStatus,
    idempotencyKey: key,
    via,
    found,
  };
}

function intended(name: string, answer: ApplyOutcome): void {
  if ('applied' in answer) return;
  if ('refused' in answer) {
    if (answer.refused.refused === 'cancel-requested' || answer.refused.refused === 'closing')
      throw new ClosingSignal();
    throw new LeaseholdError(
      'refused',
      `The intent of effect "${name}" was refused: ${answer.refused.message}. Nothing was started.`,
    );
  }
  const why = 'lost' in answer ? answer.message : 'the ledger did not answer';
  throw new LeaseholdError('ownership', `Effect "${name}" was not started: ${why}.`);
}

function inDoubt(
  host: EffectHost,
  name: string,
  result: { readonly retryAfterMs?: number; readonly error?: unknown },
): EffectInDoubt {
  host.task.announce('effect_in_doubt', { effect: name });
  return new EffectInDoubt(`It cannot be told whether effect "${name}" exists; it is not made again.`, {
    ...(result.retryAfterMs !== undefined && { delayMs: result.retryAfterMs }),
    ...(result.error !== undefined && { cause: result.error }),
  });
}
