export { sqsBroker, type SqsBroker } from './broker.ts';
export type { SqsHandle } from './deliveries.ts';
export type { SqsBrokerOptions } from './options.ts';
export type { SqsQueueDepth, SqsQueueSettings } from './queue-settings.ts';
export type { SqsClient, SqsConnection, SqsCredentials } from './sqs-client.ts';
