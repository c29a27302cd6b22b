import { expect, test } from 'vitest';
import { LeaseholdError } from '@leasehold/core';
import { dynamoDbLedger } from '@leasehold/dynamodb';

const { classify } = dynamoDbLedger({ table: 'never-opened' });
const named = (name: string, more: object = {}): Error => Object.assign(new Error('x'), { name, ...more });

test('every kind of error of the service, the SDK and the network has its code', () => {
  const codes = {
    throttled: [
      'ProvisionedThroughputExceededException',
      'ThrottlingException',
      'RequestLimitExceeded',
      'TransactionConflictException',
    ],
    denied: [
      'UnrecognizedClientException',
      'ExpiredTokenException',
      'AccessDeniedException',
      'MissingAuthenticationToken',
      'CredentialsProviderError',
    ],
    'not-found': ['ResourceNotFoundException'],
    invalid: ['ValidationException', 'ItemCollectionSizeLimitExceededException'],
    unavailable: ['InternalServerError', 'ServiceUnavailable', 'TimeoutError', 'AbortError'],
  };
  for (const [code, names] of Object.entries(codes))
    for (const name of names) expect(classify(named(name)), name).toBe(code);
  for (const code of ['ECONNRESET', 'ECONNREFUSED', 'ENOTFOUND', 'ETIMEDOUT', 'EPIPE']) {
    expect(classify(named('Error', { code })), code).toBe('unavailable');
  }
  for (const [httpStatusCode, code] of [
    [500, 'unavailable'],
    [503, 'unavailable'],
    [429, 'throttled'],
    [403, 'denied'],
    [418, 'unknown'],
  ]) {
    expect(classify(named('Unheard', { $metadata: { httpStatusCode } }))).toBe(code);
  }
});

test('I8: a signature that was refused for the container’s clock is tried again, since the SDK has corrected it', () => {
  const error = named('InvalidSignatureException', { $metadata: { httpStatusCode: 400 } });
  expect(classify(error)).toBe('denied');
  expect(classify(Object.assign(error, { $metadata: { clockSkewCorrected: true } }))).toBe('unavailable');
  // Set right again, the clock is no longer off enough to be marked; the service says what it was.
  for (const message of ['Signature expired: 20260101T000000Z is now earlier than …', 'Signature not yet current: …'])
    expect(classify(named('InvalidSignatureException', { message, $metadata: { httpStatusCode: 400 } }))).toBe(
      'unavailable',
    );
  for (const name of ['RequestExpired', 'RequestInTheFuture', 'RequestTimeTooSkewed'])
    expect(classify(named(name))).toBe('unavailable');
  // The SDK marks whatever error it saw the clock by.
  expect(classify(named('AccessDeniedException', { $metadata: { clockSkewCorrected: true } }))).toBe('denied');
});

test('a prefix that some servers put before the name changes nothing', () => {
  expect(classify(named('com.amazonaws.dynamodb.v20120810#ThrottlingException'))).toBe('throttled');
});

test('errors of our own have their codes', () => {
  const codes = {
    'bad-option': 'invalid',
    'record-corrupt': 'invalid',
    'record-too-large': 'invalid',
    closed: 'unavailable',
    unavailable: 'unavailable',
    timeout: 'unavailable',
    'not-found': 'not-found',
    refused: 'denied',
  } as const;
  for (const [code, expected] of Object.entries(codes))
    expect(classify(new LeaseholdError(code as keyof typeof codes, 'x'))).toBe(expected);
});

test('a region that is nowhere to be found is named', async () => {
  const client = { send: () => Promise.reject(new Error('Region is missing')) };
  const signal = new AbortController().signal;
  for (const call of [
    () => dynamoDbLedger({ table: 'abc', client }).open(signal),
    () => dynamoDbLedger({ table: 'abc', client }).get('t', signal),
  ])
    await expect(call()).rejects.toMatchObject({ code: 'bad-option', field: 'region' });
});
