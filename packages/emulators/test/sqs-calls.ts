import {
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  type Message,
  type SQSClient,
} from '@aws-sdk/client-sqs';

/** The calls of one queue, as short as a test wants them. */
export class QueueCalls {
  readonly client: SQSClient;
  readonly url: string;

  constructor(client: SQSClient, url: string) {
    this.client = client;
    this.url = url;
  }

  async send(
    body: string,
    more: { DelaySeconds?: number; group?: string } = {},
    abortSignal = new AbortController().signal,
  ): Promise<void> {
    const { group, ...rest } = more;
    const fifo = group === undefined ? {} : { MessageGroupId: group, MessageDeduplicationId: body };
    const command = new SendMessageCommand({ QueueUrl: this.url, MessageBody: body, ...rest, ...fifo });
    await this.client.send(command, { abortSignal });
  }

  async sendAll(bodies: readonly string[]): Promise<void> {
    const Entries = bodies.map((body, index) => ({ Id: `e${index}`, MessageBody: body }));
    await this.client.send(new SendMessageBatchCommand({ QueueUrl: this.url, Entries }));
  }

  async receive(
    waitSeconds = 0,
    max = 10,
    visibility?: number,
    abortSignal = new AbortController().signal,
  ): Promise<Message[]> {
    const { Messages = [] } = await this.client.send(
      new ReceiveMessageCommand({
        QueueUrl: this.url,
        WaitTimeSeconds: waitSeconds,
        MaxNumberOfMessages: max,
        MessageSystemAttributeNames: ['All'],
        ...(visibility === undefined ? {} : { VisibilityTimeout: visibility }),
      }),
      { abortSignal },
    );
    return Messages;
  }

  async bodies(waitSeconds = 0): Promise<string[]> {
    const messages = await this.receive(waitSeconds);
    return messages.map(({ Body }) => Body ?? '');
  }

  /** Exactly one message. */
  async one(visibility?: number): Promise<string> {
    const messages = await this.receive(0, 1, visibility);
    const handle = messages[0]?.ReceiptHandle;
    if (messages.length !== 1 || handle === undefined) throw new Error(`${messages.length} messages came`);
    return handle;
  }

  async extend(handle: string, seconds: number): Promise<unknown> {
    return this.client.send(
      new ChangeMessageVisibilityCommand({ QueueUrl: this.url, ReceiptHandle: handle, VisibilityTimeout: seconds }),
    );
  }

  async remove(handle: string): Promise<unknown> {
    return this.client.send(new DeleteMessageCommand({ QueueUrl: this.url, ReceiptHandle: handle }));
  }

  /** Per entry `ok`, its error code, or `none` where the answer says nothing of it. */
  async extendAll(handles: readonly string[], seconds: number): Promise<string[]> {
    const Entries = handles.map((ReceiptHandle, index) => ({
      Id: `e${index}`,
      ReceiptHandle,
      VisibilityTimeout: seconds,
    }));
    return outcomes(
      handles,
      await this.client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: this.url, Entries })),
    );
  }

  async removeAll(handles: readonly string[]): Promise<string[]> {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: `e${index}`, ReceiptHandle }));
    return outcomes(handles, await this.client.send(new DeleteMessageBatchCommand({ QueueUrl: this.url, Entries })));
  }
}

interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined;
  readonly Failed?: readonly { readonly Id?: string | undefined; readonly Code?: string | undefined }[] | undefined;
}

function outcomes(handles: readonly string[], { Successful = [], Failed = [] }: BatchAnswer): string[] {
  return handles.map((_, index) => {
    if (Successful.some(({ Id }) => Id === `e${index}`)) return 'ok';
    return Failed.find(({ Id }) => Id === `e${index}`)?.Code ?? 'none';
  });
}
