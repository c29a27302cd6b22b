/** What each service can be asked for: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Operations.html and DynamoDB's. */
export const OPERATIONS: Readonly<Record<'sqs' | 'dynamodb', readonly string[]>> = {
  sqs: [
    ...[
      'AddPermission',
      'CancelMessageMoveTask',
      'ChangeMessageVisibility',
      'ChangeMessageVisibilityBatch',
      'CreateQueue',
    ],
    ...['DeleteMessage', 'DeleteMessageBatch', 'DeleteQueue', 'GetQueueAttributes', 'GetQueueUrl'],
    ...[
      'ListDeadLetterSourceQueues',
      'ListMessageMoveTasks',
      'ListQueues',
      'ListQueueTags',
      'PurgeQueue',
      'ReceiveMessage',
    ],
    ...[
      'RemovePermission',
      'SendMessage',
      'SendMessageBatch',
      'SetQueueAttributes',
      'StartMessageMoveTask',
      'TagQueue',
      'UntagQueue',
    ],
  ],
  dynamodb: [
    ...['BatchExecuteStatement', 'BatchGetItem', 'BatchWriteItem', 'CreateTable', 'DeleteItem', 'DeleteTable'],
    ...[
      'DescribeContinuousBackups',
      'DescribeEndpoints',
      'DescribeLimits',
      'DescribeTable',
      'DescribeTimeToLive',
      'ExecuteStatement',
    ],
    ...['ExecuteTransaction', 'GetItem', 'ListTables', 'ListTagsOfResource', 'PutItem', 'Query', 'Scan', 'TagResource'],
    ...[
      'TransactGetItems',
      'TransactWriteItems',
      'UntagResource',
      'UpdateContinuousBackups',
      'UpdateItem',
      'UpdateTable',
      'UpdateTimeToLive',
    ],
  ],
};
