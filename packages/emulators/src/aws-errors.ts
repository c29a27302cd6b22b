import { jsonAnswer, type ProxyAnswer, type ProxyRequest } from './exchange.ts';

/** An error in the AWS JSON protocol. */
export interface AwsError {
  /** `ThrottlingException`: the `name` of the SDK's error. */
  readonly type: string;
  readonly message?: string;
  /** HTTP; default 400. */
  readonly status?: number;
}

/** What a failure comes down to, whatever the service calls it. */
export type AwsFailure = 'throttled' | 'unavailable' | 'expired' | 'denied' | 'not-found' | 'invalid';

type Service = 'sqs' | 'dynamodb';

const ERRORS: Readonly<Record<AwsFailure, Readonly<Record<Service, AwsError>>>> = {
  throttled: {
    sqs: { type: 'RequestThrottled', message: 'Request is throttled.', status: 403 },
    dynamodb: {
      type: 'ProvisionedThroughputExceededException',
      message: 'The level of configured provisioned throughput for the table was exceeded.',
    },
  },
  unavailable: {
    sqs: { type: 'ServiceUnavailable', message: 'Service Unavailable', status: 503 },
    dynamodb: { type: 'InternalServerError', message: 'Internal server error', status: 500 },
  },
  expired: {
    sqs: {
      type: 'ExpiredTokenException',
      message: 'The security token included in the request is expired',
      status: 403,
    },
    dynamodb: { type: 'ExpiredTokenException', message: 'The security token included in the request is expired' },
  },
  denied: {
    sqs: { type: 'AccessDeniedException', message: 'User is not authorized to perform this action.', status: 403 },
    dynamodb: { type: 'AccessDeniedException', message: 'User is not authorized to perform this action.' },
  },
  'not-found': {
    sqs: { type: 'QueueDoesNotExist', message: 'The specified queue does not exist.' },
    dynamodb: { type: 'ResourceNotFoundException', message: 'Requested resource not found' },
  },
  invalid: {
    sqs: { type: 'InvalidParameterValue', message: 'A parameter is invalid.' },
    dynamodb: { type: 'ValidationException', message: 'A parameter is invalid.' },
  },
};

/** The service's own error for a failure; an `AwsError` as it is. */
export function awsError(request: ProxyRequest, failure: AwsFailure | AwsError): AwsError {
  return typeof failure === 'string' ? ERRORS[failure][isSqs(request) ? 'sqs' : 'dynamodb'] : failure;
}

/** The answer that says so. */
export function errorAnswer(request: ProxyRequest, { type, message = type, status = 400 }: AwsError): ProxyAnswer {
  if (!isSqs(request)) return jsonAnswer({ __type: type, message }, status);
  const queryError = type === 'QueueDoesNotExist' ? 'AWS.SimpleQueueService.NonExistentQueue' : type;
  const fault = status < 500 ? 'Sender' : 'Receiver';
  return jsonAnswer({ __type: `com.amazonaws.sqs#${type}`, message }, status, {
    'x-amzn-query-error': `${queryError};${fault}`,
  });
}

function isSqs(request: ProxyRequest): boolean {
  const target = request.headers['x-amz-target'];
  return typeof target === 'string' && target.startsWith('AmazonSQS.');
}
