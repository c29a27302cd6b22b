import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LeaseholdError, type BrokerErrorCode } from '@leasehold/core';
import { kinds, startSqs, type SqsEmulator } from '@leasehold/emulators';
import { sqsBroker } from '@leasehold/sqs';
import { failedEntry, failedHandle } from '../src/sqs-errors.ts';
import { never } from './machine.ts';

let server: SqsEmulator;
beforeAll(async () => {
  server = await startSqs();
});
afterAll(() => server.close());

const queueUrl = (): string => `${server.endpoint}/000000000000/q`;
const connection = () => ({ endpoint: server.endpoint, region: server.region, credentials: server.credentials });
const asked = { max: 1, leaseMs: 30_000, waitMs: 0 };

/** What a receive that fails so comes down to. */
async function classified(options: object = connection()): Promise<BrokerErrorCode> {
  const broker = sqsBroker({ queueUrl: queueUrl(), settings: {}, ...options });
  try {
    await broker.receive(asked, never());
    throw new Error('the receive succeeded');
  } catch (error) {
    return broker.classify(error);
  } finally {
    await broker.close();
  }
}

describe('errors as the SDK raises them', () => {
  const REFUSALS: readonly (readonly [code: BrokerErrorCode, type: string, status: number])[] = [
    ['throttled', 'RequestThrottled', 403],
    ['throttled', 'ThrottlingException', 400],
    ['throttled', 'OverLimit', 403],
    ['unavailable', 'InternalFailure', 500],
    ['unavailable', 'NeverHeardOf', 503],
    ['denied', 'ExpiredToken', 403],
    ['denied', 'InvalidClientTokenId', 403],
    ['denied', 'AccessDenied', 403],
    ['denied', 'NeverHeardOf', 403],
    ['not-found', 'QueueDoesNotExist', 400],
    ['invalid', 'InvalidParameterValue', 400],
    ['invalid', 'NeverHeardOf', 400],
    ['throttled', 'NeverHeardOf', 429],
  ];
  test.each(REFUSALS)('%s: %s with status %i', async (code, type, status) => {
    server.faults.on('ReceiveMessage', kinds.failBefore({ type, status }));
    expect(await classified()).toBe(code);
  });

  test('a queue that is not there is not-found', async () => {
    expect(await classified()).toBe('not-found');
  });

  test('a connection that ends, or is refused, or a name that does not resolve, is unavailable', async () => {
    server.faults.on('ReceiveMessage', kinds.dropAnswer());
    expect(await classified()).toBe('unavailable');
    server.faults.cut();
    expect(await classified()).toBe('unavailable');
    server.faults.restore();
    expect(await classified({ ...connection(), endpoint: 'http://nowhere.invalid' })).toBe('unavailable');
  });

  test('field case 46: credentials that cannot be had are denied, and the provider is asked again at the next call', async () => {
    let times = 0;
    const credentials = (): Promise<never> => {
      times++;
      return Promise.reject(Object.assign(new Error('none'), { name: 'CredentialsProviderError' }));
    };
    const broker = sqsBroker({ ...connection(), queueUrl: queueUrl(), settings: {}, credentials });
    for (let call = 1; call <= 2; call++) {
      const error = await broker.receive(asked, never()).catch((reason: unknown) => reason);
      expect(broker.classify(error)).toBe('denied');
    }
    expect(times).toBeGreaterThanOrEqual(2);
    await broker.close();
  });

  test('an aborted call is unknown: it may have been applied', async () => {
    server.faults.on('DeleteMessageBatch', kinds.hang());
    const broker = sqsBroker({ ...connection(), queueUrl: queueUrl(), settings: {} });
    const handle = { receipt: 'r', messageId: 'm', body: new Uint8Array(), attributes: {}, receivedAt: 0 };
    const stop = new AbortController();
    const deleting = broker.complete([handle], stop.signal).catch((reason: unknown) => reason);
    await new Promise((resolve) => setTimeout(resolve, 20));
    stop.abort();
    expect(broker.classify(await deleting)).toBe('unknown');
    await broker.close();
  });
});

describe('errors by themselves', () => {
  const { classify } = sqsBroker({ queueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/q' });

  test('the prefixes of older protocols do not matter', () => {
    expect(classify({ name: 'Error', Code: 'AWS.SimpleQueueService.NonExistentQueue' })).toBe('not-found');
    expect(classify({ name: 'AWS.SimpleQueueService.QueueDoesNotExist' })).toBe('not-found');
    expect(classify({ name: 'com.amazonaws.sqs#RequestThrottled' })).toBe('throttled');
  });

  test('I8: a signature that was refused for the container’s clock may be tried again, for another reason it may not', () => {
    for (const name of ['InvalidSignatureException', 'SignatureDoesNotMatch']) {
      const error = (message: string, clockSkewCorrected = false) =>
        Object.assign(new Error(message), { name, $metadata: { httpStatusCode: 403, clockSkewCorrected } });
      expect(classify(error('Signature expired: 20260101T000000Z is now earlier than …'))).toBe('unavailable');
      expect(classify(error('Signature not yet current: 20260101T000000Z is still later than …'))).toBe('unavailable');
      expect(classify(error('…', true))).toBe('unavailable');
      expect(classify(error('The request signature we calculated does not match the signature you provided.'))).toBe(
        'denied',
      );
    }
    for (const name of ['RequestExpired', 'RequestInTheFuture', 'RequestTimeTooSkewed'])
      expect(classify({ name })).toBe('unavailable');
    // The SDK marks whatever error it saw the clock by.
    expect(classify({ name: 'AccessDenied', $metadata: { clockSkewCorrected: true } })).toBe('denied');
  });

  test('names that every object has say nothing', () => {
    expect(classify({ name: 'constructor', Code: 'toString' })).toBe('unknown');
    expect(failedEntry({ Code: 'constructor', SenderFault: false })).toEqual({ failed: 'unavailable' });
  });

  test('our own say what they are', () => {
    const codes = {
      closed: 'unavailable',
      refused: 'denied',
      'not-found': 'not-found',
      timeout: 'unknown',
      'bad-option': 'invalid',
    } as const;
    for (const [own, code] of Object.entries(codes)) {
      expect(classify(new LeaseholdError(own as keyof typeof codes, 'x'))).toBe(code);
    }
  });

  test('an entry whose handle is over is gone, in all the words that SQS has for it', () => {
    for (const [Code, Message] of [
      ['ReceiptHandleIsInvalid', 'The receipt handle has expired'],
      ['AWS.SimpleQueueService.MessageNotInflight', ''],
      [
        'InvalidParameterValue',
        'Value x for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.',
      ],
      ['InvalidParameterValue', 'Reason: Message does not exist or is not available for visibility timeout change.'],
    ] as const) {
      expect(failedHandle({ Code, Message, SenderFault: true })).toBe('gone');
    }
  });

  test('it is gone as well on a server that names the class of the error and calls it its own fault', () => {
    const Message = 'Reason: Message does not exist or is not available for visibility timeout change.';
    const entry = { Code: 'InvalidParameterValueException', SenderFault: false };
    expect(failedHandle({ ...entry, Message })).toBe('gone');
    expect(failedHandle({ ...entry, Message: 'Reason: Must be between 0 and 43200.' })).toEqual({
      failed: 'unavailable',
    });
  });

  test('an entry beyond the total is invalid, one that failed at the server may be tried again', () => {
    const Message =
      'Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]';
    expect(failedHandle({ Code: 'InvalidParameterValue', Message, SenderFault: true })).toEqual({ failed: 'invalid' });
    expect(failedHandle({ Code: 'InternalError', SenderFault: false })).toEqual({ failed: 'unavailable' });
    expect(failedEntry({ Code: 'NeverHeardOf', SenderFault: false })).toEqual({ failed: 'unavailable' });
    expect(failedEntry({ Code: 'NeverHeardOf' })).toEqual({ failed: 'invalid' });
    expect(failedEntry({ Code: 'ThrottlingException', SenderFault: true })).toEqual({ failed: 'throttled' });
    // Of an encrypted queue, in the words of the query protocol.
    expect(failedEntry({ Code: 'KMS.ThrottlingException', SenderFault: true })).toEqual({ failed: 'throttled' });
    expect(failedEntry({ Code: 'KMS.AccessDeniedException', SenderFault: true })).toEqual({ failed: 'denied' });
  });
});
