import { startEmulator, type Emulator, type EmulatorOptions } from './emulator.ts';
import { EmulatorError } from './emulator-error.ts';
import { requestWith, type JsonObject, type ProxyRequest } from './exchange.ts';
import { SqsRules, type SqsRuleSettings } from './sqs-rules.ts';

const ACCOUNT = '000000000000';

/** What a queue has besides its name. */
export interface QueueOptions {
  /** Default: what the name says. A FIFO queue's name ends in `.fifo`, and gets that ending when it lacks it. */
  readonly fifo?: boolean;
  /** Visibility of a receive that names none, in seconds; default 30. */
  readonly visibilitySeconds?: number;
  readonly deadLetter?: { readonly queueUrl: string; readonly maxReceiveCount: number };
  /** Any other attribute by its AWS name. */
  readonly attributes?: Readonly<Record<string, string>>;
}

/** Amazon SQS, as far as `fauxqs` and the rules in front of it know it. */
export interface SqsEmulator extends Emulator {
  /** What AWS does and the server behind it does not; can be changed at any time. */
  readonly rules: SqsRuleSettings;
  /**
   * Creates a queue, or finds one of that name and with attributes that do not differ.
   *
   * @throws EmulatorError when the server refuses name or attributes
   * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
   */
  createQueue(name: string, options?: QueueOptions): Promise<{ readonly url: string; readonly arn: string }>;
}

/**
 * Starts an SQS server. Stale receipt handles and the 12-hour limit are judged as AWS judges them, by the kind of the queue.
 *
 * @throws EmulatorError when the port is taken or the server does not start
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/Welcome.html
 */
export async function startSqs(options: EmulatorOptions = {}): Promise<SqsEmulator> {
  const settings: SqsRuleSettings = { staleHandle: 'by-queue', totalVisibilityMs: 12 * 60 * 60 * 1000 };
  const now = (): number => options.time?.wall() ?? Date.now();
  const { emulator, proxy } = await startEmulator(
    'sqs',
    options,
    (endpoint) => new SqsRules(settings, endpoint, now).apply,
  );
  const ask = async (operation: string, json: JsonObject): Promise<JsonObject> => {
    const answer = await proxy.send(requestWith(blankRequest(emulator.endpoint), json, operation));
    if (answer.status === 200) return answer.json;
    const says = typeof answer.json['message'] === 'string' ? answer.json['message'] : `status ${answer.status}`;
    throw new EmulatorError('createQueue', `the server refused: ${says}`, 'change the name or the attributes');
  };
  return {
    ...emulator,
    get waiting() {
      return emulator.waiting;
    },
    rules: settings,
    async createQueue(name, { fifo = name.endsWith('.fifo'), visibilitySeconds, deadLetter, attributes = {} } = {}) {
      const fullName = fifo && !name.endsWith('.fifo') ? `${name}.fifo` : name;
      const given: Record<string, string> = { ...attributes };
      if (fifo) given['FifoQueue'] = 'true';
      if (visibilitySeconds !== undefined) given['VisibilityTimeout'] = String(visibilitySeconds);
      if (deadLetter) {
        const target = arnOf(deadLetter.queueUrl.slice(deadLetter.queueUrl.lastIndexOf('/') + 1));
        given['RedrivePolicy'] = JSON.stringify({
          deadLetterTargetArn: target,
          maxReceiveCount: deadLetter.maxReceiveCount,
        });
      }
      await ask('CreateQueue', { QueueName: fullName, Attributes: given });
      return { url: `${emulator.endpoint}/${ACCOUNT}/${fullName}`, arn: arnOf(fullName) };
    },
  };
}

function arnOf(queueName: string): string {
  return `arn:aws:sqs:us-east-1:${ACCOUNT}:${queueName}`;
}

function blankRequest(endpoint: string): ProxyRequest {
  return {
    operation: '',
    method: 'POST',
    path: '/',
    headers: {
      host: new URL(endpoint).host,
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': 'AmazonSQS.',
    },
    body: Buffer.alloc(0),
    json: {},
  };
}
