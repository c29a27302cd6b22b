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
import { badOption } from '@leasehold/core';

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
export interface SqsConnection {
  readonly region?: string;
  readonly endpoint?: string;
  /** Credentials, or what gives them; the SDK asks again when they run out. */
  readonly credentials?: SqsCredentials | (() => Promise<SqsCredentials>);
}

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

/** All that the SDK says when it found none anywhere. */
const NO_REGION = 'Region is missing';
/** More than one process has polls, or other calls, under way at a time; the SDK's own default is 50. */
const SOCKETS = 256;

/**
 * The calls, over two clients: a poll keeps its connection for seconds, and nothing may queue behind it. A client is built at its first call.
 * Core repeats what failed, so the SDK does not (`maxAttempts: 1`).
 * See https://docs.aws.amazon.com/sdk-for-javascript/v3/developer-guide/node-configuring-maxsockets.html
 */
export function sqsCalls(connection: SqsConnection, given: { client?: SqsClient; pollClient?: SqsClient }): SqsCalls {
  const built: SqsClient[] = [];
  const lazily = (own: SqsClient | undefined): (() => SqsClient) => {
    let client = own;
    return () => {
      if (!client) built.push((client = buildClient(connection)));
      return client;
    };
  };
  const main = lazily(given.client);
  const poll = lazily(given.pollClient ?? given.client);
  const ask = async <Output>(client: () => SqsClient, command: object, abortSignal: AbortSignal): Promise<Output> => {
    try {
      return (await client().send(command, { abortSignal })) as Output;
    } catch (error) {
      throw error instanceof Error && error.message === NO_REGION
        ? badOption('region', undefined, "write a region such as 'eu-central-1', or set AWS_REGION.")
        : error;
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

function buildClient({ region, endpoint, credentials }: SqsConnection): SqsClient {
  const agent = { maxSockets: SOCKETS };
  return new SQSClient({
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    ...(credentials !== undefined && { credentials }),
    maxAttempts: 1,
    requestHandler: { httpAgent: agent, httpsAgent: agent },
  });
}
