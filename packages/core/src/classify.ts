import type { BrokerErrorCode } from './driver.ts';
import type { LeaseholdError } from './errors.ts';

// https://nodejs.org/api/errors.html#nodejs-error-codes and the errno of the operating system.
const NETWORK: ReadonlySet<unknown> = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'EPROTO',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ETIMEDOUT',
]);

/** Whether an error says, itself or by its cause, that the network did not carry a call. For the `classify` of drivers. */
export function isNetworkError(error: unknown): boolean {
  const { code, cause } = Object(error) as { readonly code?: unknown; readonly cause?: unknown };
  return NETWORK.has(code) || NETWORK.has((Object(cause) as { readonly code?: unknown }).code);
}

/** What to do about a backend that cannot be used, in a sentence after a space; empty where there is nothing to say. */
export function remedyFor(code: BrokerErrorCode): string {
  switch (code) {
    case 'denied':
      return ' Check that this process finds credentials, that they have not run out, and what they may do.';
    case 'not-found':
      return ' Check its name, the account and the region.';
    case 'unavailable':
      return ' Check its address and the network.';
    default:
      return '';
  }
}

/** What an error of Leasehold's own, thrown inside a driver, comes down to. For the `classify` of drivers. */
export function ownErrorCode({ code }: LeaseholdError): BrokerErrorCode {
  switch (code) {
    case 'unavailable':
    case 'closed':
      return 'unavailable';
    case 'refused':
      return 'denied';
    case 'not-found':
      return 'not-found';
    default:
      return 'invalid';
  }
}
