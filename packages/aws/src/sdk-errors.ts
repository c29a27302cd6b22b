import { badOption } from '@leasehold/core';

/**
 * Errors that every service has, by name, and those of the SDK itself.
 * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html and
 * https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html
 */
export const COMMON_ERRORS = {
  RequestLimitExceeded: 'throttled',
  Throttling: 'throttled',
  ThrottlingException: 'throttled',
  TooManyRequestsException: 'throttled',

  InternalFailure: 'unavailable',
  InternalServerError: 'unavailable',
  ServiceUnavailable: 'unavailable',
  ServiceUnavailableException: 'unavailable',
  TimeoutError: 'unavailable',
  // Signed at a wrong time; see isOffTheClock.
  RequestExpired: 'unavailable',
  RequestInTheFuture: 'unavailable',
  RequestTimeTooSkewed: 'unavailable',

  AccessDenied: 'denied',
  AccessDeniedException: 'denied',
  CredentialsProviderError: 'denied',
  ExpiredToken: 'denied',
  ExpiredTokenException: 'denied',
  InvalidClientTokenId: 'denied',
  InvalidSignatureException: 'denied',
  MissingAuthenticationToken: 'denied',
  OptInRequired: 'denied',
  SignatureDoesNotMatch: 'denied',
  TokenProviderError: 'denied',
  UnrecognizedClientException: 'denied',
} as const;

/** What a request gets whose signature does not hold: wrong keys, or the right ones at a wrong time. */
const SIGNATURES: readonly string[] = ['InvalidSignatureException', 'SignatureDoesNotMatch'];
/** How the service says that it was the time. */
const WRONG_TIME = /^Signature (?:expired|not yet current)/i;
/** All that the SDK says when it found none anywhere. */
const NO_REGION = 'Region is missing';

/** A field of an error, whatever it is. */
export function errorField(error: unknown, name: string): unknown {
  return typeof error === 'object' && error !== null ? (error as Readonly<Record<string, unknown>>)[name] : undefined;
}

/**
 * True of a signature that was refused because the container's clock is off, or was and has just been set right: the SDK takes the time from the
 * refusal and signs the next request by it. It marks such an error only where it has to go on correcting, so the service's words count as well.
 *
 * @param name of the error, without what some servers put before it.
 */
export function isOffTheClock(error: unknown, name: string): boolean {
  if (!SIGNATURES.includes(name)) return false;
  const message = errorField(error, 'message');
  if (typeof message === 'string' && WRONG_TIME.test(message)) return true;
  return errorField(errorField(error, '$metadata'), 'clockSkewCorrected') === true;
}

/** The error of a call; where the SDK found no Region, what to do about it. */
export function namedRegion(error: unknown): unknown {
  return error instanceof Error && error.message === NO_REGION
    ? badOption('region', undefined, "write a region such as 'eu-central-1', or set AWS_REGION.")
    : error;
}
