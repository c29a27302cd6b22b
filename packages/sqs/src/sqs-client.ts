import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
  type ChangeMessageVisibilityBatchCommandInput,
  type ChangeMessageVisibilityBatchCommandOutput,
  type DeleteMessageBatchCommandInput,
  type DeleteMessageBatchCommandOutput,
  type GetQueueAttributesCommandInput,
  type GetQueueAttributesCommandOutput,
  type ReceiveMessageCommandInput,
  type ReceiveMessageCommandOutput,
  type SendMessageBatchCommandInput,
  type SendMessageBatchCommandOutput,
} from '@aws-sdk/client-sqs';
import { buildClient, namedRegion, type AwsConnection } from '@leasehold/aws';

/** What the driver needs of a client. `SQSClient` fits, of whatever installed copy of the SDK. */
export interface SqsClient {
  /** Makes one call; rejects with the SDK's own error, and when the signal aborts. */
  send(command: object, options?: { readonly abortSignal?: AbortSignal }): Promise<unknown>;
  /** Closes its connections. Called on clients that the driver built, never on one that it was given. */
  destroy?(): void;
}

/** Credentials as the SDK takes them. */
export interface SqsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  readonly expiration?: Date;
}

/** How a client is reached that the driver builds itself. What is left out, the SDK looks up as it always does. */
export type SqsConnection = AwsConnection<SqsCredentials | (() => Promise<SqsCredentials>)>;

/** The operations of SQS that the driver uses. Each rejects with the SDK's own error. */
export interface SqsCalls {
  attributes(input: GetQueueAttributesCommandInput, signal: AbortSignal): Promise<GetQueueAttributesCommandOutput>;
  send(input: SendMessageBatchCommandInput, signal: AbortSignal): Promise<SendMessageBatchCommandOutput>;
  /** Over connections of its own. */
  receive(input: ReceiveMessageCommandInput, signal: AbortSignal): Promise<ReceiveMessageCommandOutput>;
  changeVisibility(
    input: ChangeMessageVisibilityBatchCommandInput,
    signal: AbortSignal,
  ): Promise<ChangeMessageVisibilityBatchCommandOutput>;
  remove(input: DeleteMessageBatchCommandInput, signal: AbortSignal): Promise<DeleteMessageBatchCommandOutput>;
  /** Destroys the clients built here; one that was given is its owner's. */
  destroy(): void;
}

/**
 * The calls, over two clients: a poll keeps its connection for seconds, and nothing may queue behind it. A client is built at its first call.
 */
export function sqsCalls(connection: SqsConnection, given: { client?: SqsClient; pollClient?: SqsClient }): SqsCalls {
  const built: SqsClient[] = [];
  const lazily = (own: SqsClient | undefined): (() => SqsClient) => {
    let client = own;
    return () => {
      if (!client) built.push((client = buildClient(SQSClient, connection)));
      return client;
    };
  };
  const main = lazily(given.client);
  const poll = lazily(given.pollClient ?? given.client);
  const ask = async <Output>(client: () => SqsClient, command: object, abortSignal: AbortSignal): Promise<Output> => {
    try {
      return (await client().send(command, { abortSignal })) as Output;
    } catch (error) {
      throw namedRegion(error);
    }
  };
  return {
    attributes: (input, signal) => ask(main, new GetQueueAttributesCommand(input), signal),
    send: (input, signal) => ask(main, new SendMessageBatchCommand(input), signal),
    receive: (input, signal) => ask(poll, new ReceiveMessageCommand(input), signal),
    changeVisibility: (input, signal) => ask(main, new ChangeMessageVisibilityBatchCommand(input), signal),
    remove: (input, signal) => ask(main, new DeleteMessageBatchCommand(input), signal),
    destroy() {
      for (const client of built) client.destroy?.();
    },
  };
}
