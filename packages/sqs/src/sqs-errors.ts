import {
  isLeaseholdError,
  isNetworkError,
  ownErrorCode,
  type BrokerErrorCode,
  type HandleOutcome,
} from '@leasehold/core';

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html and the errors of each operation there.
const CODES: Readonly<Record<string, BrokerErrorCode>> = {
  // The queue or the account is asked too much, or (OverLimit) too many of its messages are in flight.
  OverLimit: 'throttled',
  RequestThrottled: 'throttled',
  RequestThrottledException: 'throttled',
  RequestLimitExceeded: 'throttled',
  Throttling: 'throttled',
  ThrottlingException: 'throttled',
  ThrottledException: 'throttled',
  TooManyRequestsException: 'throttled',
  SlowDown: 'throttled',
  BandwidthLimitExceeded: 'throttled',
  KmsThrottled: 'throttled',

  InternalError: 'unavailable',
  InternalFailure: 'unavailable',
  InternalServerError: 'unavailable',
  ServiceUnavailable: 'unavailable',
  ServiceUnavailableException: 'unavailable',
  RequestTimeout: 'unavailable',
  RequestTimeoutException: 'unavailable',
  TimeoutError: 'unavailable',
  // Signed at a wrong time; see isOffTheClock.
  RequestExpired: 'unavailable',
  RequestInTheFuture: 'unavailable',
  RequestTimeTooSkewed: 'unavailable',

  QueueDoesNotExist: 'not-found',
  NonExistentQueue: 'not-found',
  QueueDeletedRecently: 'not-found',
  InvalidAddress: 'not-found',

  AccessDenied: 'denied',
  AccessDeniedException: 'denied',
  AuthFailure: 'denied',
  CredentialsProviderError: 'denied',
  ExpiredToken: 'denied',
  ExpiredTokenException: 'denied',
  IncompleteSignature: 'denied',
  InvalidAccessKeyId: 'denied',
  InvalidClientTokenId: 'denied',
  InvalidSecurity: 'denied',
  InvalidSignatureException: 'denied',
  KmsAccessDenied: 'denied',
  KmsDisabled: 'denied',
  KmsInvalidState: 'denied',
  KmsNotFound: 'denied',
  MissingAuthenticationToken: 'denied',
  NotAuthorized: 'denied',
  OptInRequired: 'denied',
  SignatureDoesNotMatch: 'denied',
  TokenProviderError: 'denied',
  UnrecognizedClientException: 'denied',
};

/** What a request gets whose signature does not hold: wrong keys, or the right ones at a wrong time. */
const SIGNATURES: readonly string[] = ['InvalidSignatureException', 'SignatureDoesNotMatch'];
/** How the service says that it was the time. */
const WRONG_TIME = /^Signature (?:expired|not yet current)/i;
const PREFIX = /^(com\.amazonaws\.sqs#|AWS\.SimpleQueueService\.)/;

/** What an error of the SDK, or one of ours, comes down to. Pure; never throws. */
export function classifySqsError(error: unknown): BrokerErrorCode {
  if (isLeaseholdError(error)) return error.code === 'timeout' ? 'unknown' : ownErrorCode(error);
  const name = nameOf(field(error, 'name'));
  if (SIGNATURES.includes(name) && isOffTheClock(error)) return 'unavailable';
  const named = codeOf(name) ?? codeOf(nameOf(field(error, 'Code')));
  if (named) return named;
  if (isNetworkError(error)) return 'unavailable';
  const status = Number(field(field(error, '$metadata'), 'httpStatusCode'));
  if (status === 429) return 'throttled';
  if (status >= 500) return 'unavailable';
  if (status === 403 || status === 401) return 'denied';
  if (status >= 400 || field(error, '$fault') === 'client') return 'invalid';
  return 'unknown';
}

/** One entry of a batch that SQS did not carry out, as it names it. */
export interface FailedEntry {
  readonly Code?: string | undefined;
  readonly Message?: string | undefined;
  readonly SenderFault?: boolean | undefined;
}

/** What an entry that failed comes down to. */
export function failedEntry({ Code, SenderFault }: FailedEntry): { readonly failed: BrokerErrorCode } {
  return { failed: codeOf(nameOf(Code)) ?? (SenderFault === false ? 'unavailable' : 'invalid') };
}

/** The same for a receipt handle: one that SQS does not know, or whose time is over, is gone for good. */
export function failedHandle(entry: FailedEntry): HandleOutcome {
  const code = nameOf(entry.Code);
  if (code === 'ReceiptHandleIsInvalid' || code === 'MessageNotInflight') return 'gone';
  // One code for many things, and servers differ in how they write it; https://github.com/aws/aws-sdk-js/issues/1279 shows the words.
  if (
    /^InvalidParameterValue(Exception)?$/.test(code) &&
    /has expired|does not exist or is not available/i.test(entry.Message ?? '')
  )
    return 'gone';
  return failedEntry(entry);
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

function codeOf(name: string): BrokerErrorCode | undefined {
  return Object.hasOwn(CODES, name) ? CODES[name] : undefined;
}

function nameOf(code: unknown): string {
  return typeof code === 'string' ? code.replace(PREFIX, '') : '';
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
