import type { IamRole, IamStatement } from '@leasehold/dynamodb';
import { CliFailure } from '../failure.ts';

/** A queue as IAM names it. */
export interface QueueArn {
  readonly arn: string;
  readonly partition: string;
  readonly region: string;
  readonly account: string;
}

/**
 * The ARN of a queue, from its URL or as it is.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html
 */
export function queueArn(option: string, written: string): QueueArn {
  const found = fromArn(written) ?? fromUrl(written);
  if (found) return found;
  throw new CliFailure(
    2,
    `${option} ${written} is not a queue: write its URL, such as https://sqs.eu-central-1.amazonaws.com/123456789012/tickets, or its ARN.`,
  );
}

function fromArn(text: string): QueueArn | undefined {
  const [, partition = '', region = '', account = ''] =
    /^arn:([a-z-]+):sqs:([a-z0-9-]+):(\d{12}):[\w-]+(?:\.fifo)?$/.exec(text) ?? [];
  return partition === '' ? undefined : { arn: text, partition, region, account };
}

/** Of the domains that belong to one alone. */
const PARTITIONS: Readonly<Record<string, string>> = { 'com.cn': 'aws-cn', eu: 'aws-eusc' };

function fromUrl(text: string): QueueArn | undefined {
  const [, region = '', domain = '', account = '', name = ''] =
    /^https:\/\/sqs(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.(com|com\.cn|eu)\/(\d{12})\/([\w-]+(?:\.fifo)?)$/.exec(text) ??
    [];
  if (region === '') return undefined;
  const partition = PARTITIONS[domain] ?? (region.startsWith('us-gov-') ? 'aws-us-gov' : 'aws');
  return { arn: `arn:${partition}:sqs:${region}:${account}:${name}`, partition, region, account };
}

/** What each role calls: on the queue, and on its dead-letter queue. */
const CALLS: Readonly<Record<IamRole, { readonly queue: readonly string[]; readonly deadLetters: readonly string[] }>> =
  {
    worker: {
      // It sends follow-ups and delayed copies, too.
      queue: ['ReceiveMessage', 'ChangeMessageVisibility', 'DeleteMessage', 'SendMessage', 'GetQueueAttributes'],
      deadLetters: ['SendMessage'],
    },
    producer: { queue: ['SendMessage', 'GetQueueAttributes'], deadLetters: [] },
    operator: {
      queue: ['SendMessage', 'GetQueueAttributes'],
      // To look at a message is to receive it, and to give it back.
      deadLetters: ['ReceiveMessage', 'ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes'],
    },
    // Receivers and those who make tables have nothing to do with queues.
    guard: { queue: [], deadLetters: [] },
    deployer: { queue: [], deadLetters: [] },
  };

/** What a role needs of SQS, and what the reader should know about it. */
export function sqsStatements(
  role: IamRole,
  queue: QueueArn | undefined,
  deadLetters: QueueArn | undefined,
): { readonly statements: readonly IamStatement[]; readonly notes: readonly string[] } {
  const { [role]: calls } = CALLS;
  const allow = (Sid: string, actions: readonly string[], target: QueueArn | undefined): readonly IamStatement[] =>
    actions.length === 0 || !target
      ? []
      : [{ Sid, Effect: 'Allow', Action: actions.map((call) => `sqs:${call}`), Resource: target.arn }];
  const notes: string[] = [];
  if (calls.queue.length > 0 && !queue) notes.push('about the table alone; give --queue for what is needed of SQS');
  if (calls.deadLetters.length > 0 && queue && !deadLetters)
    notes.push('without --dead-letter-queue it allows nothing there');
  if (calls.queue.length === 0 && (queue ?? deadLetters)) notes.push(`the role ${role} needs no queue`);
  const statements = [...allow('Queue', calls.queue, queue), ...allow('DeadLetters', calls.deadLetters, deadLetters)];
  if (statements.length > 0)
    notes.push(
      'a queue that is encrypted with a KMS key of yours also needs kms:Decrypt and kms:GenerateDataKey on that key',
    );
  return { statements, notes };
}
