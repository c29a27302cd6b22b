import { COMMON_ERRORS, errorField, isOffTheClock } from '@leasehold/aws';
import {
  isLeaseholdError,
  isNetworkError,
  ownErrorCode,
  type BrokerErrorCode,
  type HandleOutcome,
} from '@leasehold/core';

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html and the errors of each operation there.
const CODES: Readonly<Record<string, BrokerErrorCode>> = {
  ...COMMON_ERRORS,
  // The queue or the account is asked too much, or (OverLimit) too many of its messages are in flight.
  OverLimit: 'throttled',
  RequestThrottled: 'throttled',
  RequestThrottledException: 'throttled',
  ThrottledException: 'throttled',
  SlowDown: 'throttled',
  BandwidthLimitExceeded: 'throttled',
  KmsThrottled: 'throttled',
  // Entries of a batch that failed are named in the words of the query protocol.
  'KMS.ThrottlingException': 'throttled',

  InternalError: 'unavailable',
  RequestTimeout: 'unavailable',
  RequestTimeoutException: 'unavailable',

  QueueDoesNotExist: 'not-found',
  NonExistentQueue: 'not-found',
  QueueDeletedRecently: 'not-found',
  InvalidAddress: 'not-found',

  AuthFailure: 'denied',
  IncompleteSignature: 'denied',
  InvalidAccessKeyId: 'denied',
  InvalidSecurity: 'denied',
  KmsAccessDenied: 'denied',
  KmsDisabled: 'denied',
  KmsInvalidKeyUsage: 'denied',
  KmsInvalidState: 'denied',
  KmsNotFound: 'denied',
  KmsOptInRequired: 'denied',
  'KMS.AccessDeniedException': 'denied',
  'KMS.DisabledException': 'denied',
  'KMS.InvalidKeyUsageException': 'denied',
  'KMS.InvalidStateException': 'denied',
  'KMS.NotFoundException': 'denied',
  'KMS.OptInRequired': 'denied',
  NotAuthorized: 'denied',
};

const PREFIX = /^(com\.amazonaws\.sqs#|AWS\.SimpleQueueService\.)/;

/** What an error of the SDK, or one of ours, comes down to. Pure; never throws. */
export function classifySqsError(error: unknown): BrokerErrorCode {
  if (isLeaseholdError(error)) return error.code === 'timeout' ? 'unknown' : ownErrorCode(error);
  const name = nameOf(errorField(error, 'name'));
  if (isOffTheClock(error, name)) return 'unavailable';
  const named = codeOf(name) ?? codeOf(nameOf(errorField(error, 'Code')));
  if (named) return named;
  if (isNetworkError(error)) return 'unavailable';
  const status = Number(errorField(errorField(error, '$metadata'), 'httpStatusCode'));
  if (status === 429) return 'throttled';
  if (status >= 500 || status === 408) return 'unavailable';
  if (status === 403 || status === 401) return 'denied';
  if (status >= 400 || errorField(error, '$fault') === 'client') return 'invalid';
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

function codeOf(name: string): BrokerErrorCode | undefined {
  return Object.hasOwn(CODES, name) ? CODES[name] : undefined;
}

function nameOf(code: unknown): string {
  return typeof code === 'string' ? code.replace(PREFIX, '') : '';
}
