import { COMMON_ERRORS, errorField, isOffTheClock } from '@leasehold/aws';
import { isLeaseholdError, isNetworkError, ownErrorCode, type LedgerErrorCode } from '@leasehold/core';

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html and the SDK's own errors.
const CODES: Readonly<Record<string, LedgerErrorCode>> = {
  ...COMMON_ERRORS,
  ProvisionedThroughputExceededException: 'throttled',
  LimitExceededException: 'throttled',
  // Somebody's transaction, or another Region of a strongly consistent global table, is on the item: it passes.
  TransactionConflictException: 'throttled',
  ReplicatedWriteConflictException: 'throttled',
  ResourceNotFoundException: 'not-found',
  TableNotFoundException: 'not-found',
  IncompleteSignatureException: 'denied',
  MissingAuthenticationTokenException: 'denied',
  KMSAccessDeniedException: 'denied',
  ValidationException: 'invalid',
  ItemCollectionSizeLimitExceededException: 'invalid',
  SerializationException: 'invalid',
  UnknownOperationException: 'invalid',
  ResourceInUseException: 'unavailable',
  AbortError: 'unavailable',
  NetworkingError: 'unavailable',
};

/** The name of an SDK error, without a prefix some servers add. */
export function errorName(error: unknown): string {
  const name = errorField(error, 'name');
  return typeof name === 'string' ? name.slice(name.lastIndexOf('#') + 1) : '';
}

/** What an error of the DynamoDB client, or one of ours, comes down to. Pure; never throws. */
export function classifyDynamoDbError(error: unknown): LedgerErrorCode {
  if (isLeaseholdError(error)) return error.code === 'timeout' ? 'unavailable' : ownErrorCode(error);
  const name = errorName(error);
  if (isOffTheClock(error, name)) return 'unavailable';
  if (Object.hasOwn(CODES, name)) return CODES[name] as LedgerErrorCode;
  if (isNetworkError(error)) return 'unavailable';
  const status = errorField(errorField(error, '$metadata'), 'httpStatusCode');
  if (typeof status !== 'number') return 'unknown';
  if (status === 429) return 'throttled';
  if (status === 401 || status === 403) return 'denied';
  return status >= 500 ? 'unavailable' : 'unknown';
}
