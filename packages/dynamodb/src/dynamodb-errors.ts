import { isLeaseholdError, isNetworkError, ownErrorCode, type LedgerErrorCode } from '@leasehold/core';

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html and the SDK's own errors.
const CODES: Readonly<Record<string, LedgerErrorCode>> = {
  ProvisionedThroughputExceededException: 'throttled',
  ThrottlingException: 'throttled',
  Throttling: 'throttled',
  RequestLimitExceeded: 'throttled',
  LimitExceededException: 'throttled',
  TooManyRequestsException: 'throttled',
  // Somebody's transaction, or another Region of a strongly consistent global table, is on the item: it passes.
  TransactionConflictException: 'throttled',
  ReplicatedWriteConflictException: 'throttled',
  ResourceNotFoundException: 'not-found',
  TableNotFoundException: 'not-found',
  AccessDeniedException: 'denied',
  AccessDenied: 'denied',
  UnrecognizedClientException: 'denied',
  InvalidClientTokenId: 'denied',
  ExpiredTokenException: 'denied',
  ExpiredToken: 'denied',
  IncompleteSignatureException: 'denied',
  InvalidSignatureException: 'denied',
  SignatureDoesNotMatch: 'denied',
  MissingAuthenticationTokenException: 'denied',
  MissingAuthenticationToken: 'denied',
  OptInRequired: 'denied',
  CredentialsProviderError: 'denied',
  TokenProviderError: 'denied',
  KMSAccessDeniedException: 'denied',
  ValidationException: 'invalid',
  ItemCollectionSizeLimitExceededException: 'invalid',
  SerializationException: 'invalid',
  UnknownOperationException: 'invalid',
  InternalServerError: 'unavailable',
  InternalFailure: 'unavailable',
  ServiceUnavailable: 'unavailable',
  ServiceUnavailableException: 'unavailable',
  // Signed at a wrong time; see isOffTheClock.
  RequestExpired: 'unavailable',
  RequestInTheFuture: 'unavailable',
  RequestTimeTooSkewed: 'unavailable',
  ResourceInUseException: 'unavailable',
  TimeoutError: 'unavailable',
  AbortError: 'unavailable',
  NetworkingError: 'unavailable',
};

/** What a request gets whose signature does not hold: wrong keys, or the right ones at a wrong time. */
const SIGNATURES: readonly string[] = ['InvalidSignatureException', 'SignatureDoesNotMatch'];
/** How the service says that it was the time. */
const WRONG_TIME = /^Signature (?:expired|not yet current)/i;

/** A field of an error, whatever it is. */
function field(error: unknown, name: string): unknown {
  return typeof error === 'object' && error !== null ? (error as Readonly<Record<string, unknown>>)[name] : undefined;
}

/** The name of an SDK error, without a prefix some servers add. */
export function errorName(error: unknown): string {
  const name = field(error, 'name');
  return typeof name === 'string' ? name.slice(name.lastIndexOf('#') + 1) : '';
}

/** What an error of the DynamoDB client, or one of ours, comes down to. Pure; never throws. */
export function classifyDynamoDbError(error: unknown): LedgerErrorCode {
  if (isLeaseholdError(error)) return error.code === 'timeout' ? 'unavailable' : ownErrorCode(error);
  const name = errorName(error);
  if (SIGNATURES.includes(name) && isOffTheClock(error)) return 'unavailable';
  if (Object.hasOwn(CODES, name)) return CODES[name] as LedgerErrorCode;
  if (isNetworkError(error)) return 'unavailable';
  const status = field(field(error, '$metadata'), 'httpStatusCode');
  if (typeof status !== 'number') return 'unknown';
  if (status === 429) return 'throttled';
  if (status === 401 || status === 403) return 'denied';
  return status >= 500 ? 'unavailable' : 'unknown';
}

/**
 * The container's clock is off, or was and has just been set right: the SDK takes the time from the refusal and signs the next request by it. It
 * marks such an error only where it has to go on correcting, so the service's words count as well.
 */
function isOffTheClock(error: unknown): boolean {
  const message = field(error, 'message');
  if (typeof message === 'string' && WRONG_TIME.test(message)) return true;
  return field(field(error, '$metadata'), 'clockSkewCorrected') === true;
}
