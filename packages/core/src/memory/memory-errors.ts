import { isLeaseholdError, LeaseholdError } from '../errors.ts';
import type { BrokerErrorCode } from '../driver.ts';

/** What a store in memory answers to a call it cannot take. */
export function badRequest(field: string, message: string): LeaseholdError {
  return new LeaseholdError('bad-request', `${field} ${message}`, { field });
}

/** Throws when the driver was closed or the signal aborted: before anything is applied. */
export function checkCall(name: string, closed: boolean, signal: AbortSignal): void {
  if (closed) throw new LeaseholdError('closed', `${name} was closed; open another driver on the same state to go on.`);
  signal.throwIfAborted();
}

/** The code of an error that a store in memory raised. */
export function classifyMemoryError(error: unknown): BrokerErrorCode {
  if (!isLeaseholdError(error)) return 'unknown';
  switch (error.code) {
    case 'bad-request':
    case 'record-too-large':
    case 'not-json':
      return 'invalid';
    case 'closed':
      return 'unavailable';
    default:
      return 'unknown';
  }
}
