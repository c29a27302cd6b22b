const BRAND = Symbol.for('leasehold.error');
const RETRYABLE = Symbol.for('leasehold.error.retryable');
const PERMANENT = Symbol.for('leasehold.error.permanent');

/** What an error of Leasehold is about; stable, meant for programs. */
export type ErrorCode =
  | 'bad-option'
  | 'bad-task'
  | 'bad-message'
  | 'bad-request'
  | 'not-json'
  | 'record-corrupt'
  | 'record-too-large'
  | 'content-too-large'
  | 'lease-timing'
  | 'closed'
  | 'timeout'
  | 'not-found'
  | 'refused'
  | 'ownership'
  | 'in-doubt'
  | 'effect-key-changed'
  | 'closing'
  | 'hand-off'
  | 'ask-human'
  | 'aborted'
  | 'schema-too-new'
  | 'unavailable';

/** The base of every error Leasehold raises. Two installed copies recognise each other's errors: test with {@link isLeaseholdError}. */
export class LeaseholdError extends Error {
  override readonly name: string = 'LeaseholdError';
  readonly code: ErrorCode;
  /** The option, header or field at fault, where one is. */
  readonly field?: string;

  constructor(code: ErrorCode, message: string, detail: { field?: string; cause?: unknown } = {}) {
    super(message, 'cause' in detail ? { cause: detail.cause } : undefined);
    this.code = code;
    if (detail.field !== undefined) this.field = detail.field;
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/** Thrown by a handler: try again, after `delayMs` if given, else after the usual backoff. */
export class RetryableError extends Error {
  override readonly name: string = 'RetryableError';
  readonly delayMs?: number;

  constructor(message: string, detail: { delayMs?: number; cause?: unknown } = {}) {
    super(message, 'cause' in detail ? { cause: detail.cause } : undefined);
    // Not of NaN, such as a date in a `Retry-After` that was taken for a number: that would be no pause at all.
    if (detail.delayMs !== undefined && Number.isFinite(detail.delayMs)) this.delayMs = detail.delayMs;
    Object.defineProperty(this, RETRYABLE, { value: true });
  }
}

/** Thrown by a handler: trying again cannot help; the task is dead-lettered with this message. */
export class PermanentError extends Error {
  override readonly name: string = 'PermanentError';

  constructor(message: string, detail: { cause?: unknown } = {}) {
    super(message, 'cause' in detail ? { cause: detail.cause } : undefined);
    Object.defineProperty(this, PERMANENT, { value: true });
  }
}

function branded(error: unknown, brand: symbol): boolean {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true;
}

/** True for a {@link LeaseholdError} of any installed copy of the library. */
export function isLeaseholdError(error: unknown): error is LeaseholdError {
  return branded(error, BRAND);
}

/** True for a {@link RetryableError} of any installed copy of the library. */
export function isRetryableError(error: unknown): error is RetryableError {
  return branded(error, RETRYABLE);
}

/** True for a {@link PermanentError} of any installed copy of the library. */
export function isPermanentError(error: unknown): error is PermanentError {
  return branded(error, PERMANENT);
}

/**
 * What somebody else's error may be called in an event or a line of a log: its name, or its code where the name says nothing (`ECONNREFUSED`).
 * Never its message, which may hold content.
 */
export function errorLabel(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const { code } = error as { readonly code?: unknown };
  const plain = error.name === 'Error' || error.name === 'AggregateError';
  return plain && typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,40}$/.test(code) ? code : error.name;
}

/** Builds the error for an option that cannot be used: names it, says what was found and what to write instead. */
export function badOption(field: string, found: unknown, remedy: string): LeaseholdError {
  return new LeaseholdError('bad-option', `${field} is ${show(found)}: ${remedy}`, { field });
}

const LONGEST_SHOWN = 60;

function show(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > LONGEST_SHOWN ? `${value.slice(0, LONGEST_SHOWN)}…` : value);
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object';
  if (typeof value === 'function') return 'a function';
  return String(value);
}
