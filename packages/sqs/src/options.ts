import {
  badOption,
  checkNames,
  parseDuration,
  systemClock,
  type Clock,
  type Duration,
  type OptionNames,
} from '@leasehold/core';
import { MOST_BYTES, regionOf, type SqsQueueSettings } from './queue-settings.ts';
import type { SqsClient, SqsConnection } from './sqs-client.ts';

/** What {@link sqsBroker} takes. */
export interface SqsBrokerOptions extends SqsConnection {
  /** The queue's URL, such as `https://sqs.eu-central-1.amazonaws.com/123456789012/tickets`; of a FIFO queue it ends in `.fifo`. */
  readonly queueUrl: string;
  /**
   * A client of yours, of any installed copy of the SDK (3.1000 or later), instead of one built from `region`, `endpoint` and `credentials`. It stays yours:
   * `close` leaves it open. Give it `maxAttempts: 1`, since core repeats what failed, and sockets enough.
   */
  readonly client?: SqsClient;
  /** Another one for polls, which keep their connections for seconds. Default: `client`, or one built for it. */
  readonly pollClient?: SqsClient;
  /** What the queue's attributes say, where the role may not read them; then they are not asked for. */
  readonly settings?: SqsQueueSettings;
  /**
   * How long one ReceiveMessage waits, in whole seconds; a longer wait is made of several. Default `'4s'`, at most `'20s'`. A stop or a close lets the
   * one under way end, since SQS would go on and hand a message to nobody: longer means fewer empty polls, and slower stops.
   */
  readonly longPoll?: Duration;
  /** Measures how old a delivery is, and how long a poll may take. Default: the machine's. */
  readonly clock?: Clock;
}

/** Options with their defaults, checked. */
export interface BrokerOptions {
  readonly queueUrl: string;
  readonly connection: SqsConnection;
  readonly clients: { readonly client?: SqsClient; readonly pollClient?: SqsClient };
  readonly settings?: SqsQueueSettings;
  readonly longPollSeconds: number;
  readonly clock: Clock;
}

const OPTIONS: OptionNames<SqsBrokerOptions> = {
  queueUrl: true,
  region: true,
  endpoint: true,
  credentials: true,
  client: true,
  pollClient: true,
  settings: true,
  longPoll: true,
  clock: true,
};
const SETTINGS: OptionNames<SqsQueueSettings> = {
  deadLetterQueueUrl: true,
  maxReceiveCount: true,
  maxMessageBytes: true,
};
const MOST_POLL_MS = 20_000;
const CONNECTION = ['region', 'endpoint', 'credentials'] as const;

/** @throws LeaseholdError `bad-option` naming the option. */
export function brokerOptions(options: SqsBrokerOptions): BrokerOptions {
  if (typeof options !== 'object' || options === null)
    throw badOption('options', options, 'pass an object with at least queueUrl.');
  checkNames(options, OPTIONS);
  const { client, pollClient, region, endpoint, credentials, clock } = options;
  const queueUrl = url('queueUrl', options.queueUrl);
  for (const [field, given] of [
    ['client', client],
    ['pollClient', pollClient],
  ] as const) {
    if (given !== undefined && typeof (given as SqsClient | null)?.send !== 'function')
      throw badOption(field, given, 'pass an SQSClient of @aws-sdk/client-sqs.');
  }
  for (const field of CONNECTION) {
    if (client !== undefined && options[field] !== undefined)
      throw badOption(field, '…', 'client has its own; give one or the other.');
  }
  if (region !== undefined && (typeof region !== 'string' || region === ''))
    throw badOption('region', region, "write a region such as 'eu-central-1'.");
  if (credentials !== undefined && (credentials === null || !['object', 'function'].includes(typeof credentials)))
    throw badOption('credentials', '…', 'pass an object with accessKeyId and secretAccessKey, or what gives one.');
  const longPollMs = parseDuration(options.longPoll ?? 4_000, 'longPoll', { min: 1_000, max: MOST_POLL_MS });
  if (longPollMs % 1_000 !== 0) throw badOption('longPoll', options.longPoll, 'SQS waits for whole seconds.');
  return {
    queueUrl,
    connection: {
      ...placeOf(queueUrl),
      ...(region !== undefined && { region }),
      ...(endpoint !== undefined && { endpoint: url('endpoint', endpoint) }),
      ...(credentials !== undefined && { credentials }),
    },
    clients: { ...(client && { client }), ...(pollClient && { pollClient }) },
    ...(options.settings !== undefined && { settings: queueSettings(options.settings, queueUrl) }),
    longPollSeconds: longPollMs / 1_000,
    clock: clock ?? systemClock(),
  };
}

function url(field: string, value: unknown): string {
  const found = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined;
  if (!found || !['http:', 'https:'].includes(found.protocol)) {
    const remedy = 'write a URL such as https://sqs.eu-central-1.amazonaws.com/123456789012/tickets.';
    throw badOption(field, value, field === 'queueUrl' ? `${remedy} An ARN or a name is not enough.` : remedy);
  }
  return value as string;
}

/** What the URL says: the region its requests have to be signed for, and the server where it is none of the usual ones. */
function placeOf(queueUrl: string): SqsConnection {
  const { hostname, origin } = new URL(queueUrl);
  const region = regionOf(queueUrl);
  const usual = /^sqs\.[a-z0-9-]+\.amazonaws\.(?:com|com\.cn|eu)$/.test(hostname);
  return { ...(region !== undefined && { region }), ...(!usual && { endpoint: origin }) };
}

function queueSettings(settings: SqsQueueSettings, queueUrl: string): SqsQueueSettings {
  if (typeof settings !== 'object' || settings === null)
    throw badOption('settings', settings, 'pass an object with what GetQueueAttributes would say.');
  checkNames(settings, SETTINGS, 'settings.');
  const { deadLetterQueueUrl, maxReceiveCount, maxMessageBytes } = settings;
  if (deadLetterQueueUrl !== undefined) {
    url('settings.deadLetterQueueUrl', deadLetterQueueUrl);
    if (deadLetterQueueUrl === queueUrl)
      throw badOption('settings.deadLetterQueueUrl', deadLetterQueueUrl, 'it is the queue itself; name another one.');
  }
  if (maxReceiveCount !== undefined) {
    if (!Number.isSafeInteger(maxReceiveCount) || maxReceiveCount < 1 || maxReceiveCount > 1_000)
      throw badOption('settings.maxReceiveCount', maxReceiveCount, 'write a whole number from 1 to 1000.');
    if (deadLetterQueueUrl === undefined)
      throw badOption(
        'settings.deadLetterQueueUrl',
        deadLetterQueueUrl,
        'with maxReceiveCount there is one; write its URL.',
      );
  }
  if (
    maxMessageBytes !== undefined &&
    !(Number.isSafeInteger(maxMessageBytes) && maxMessageBytes >= 1_024 && maxMessageBytes <= MOST_BYTES)
  )
    throw badOption('settings.maxMessageBytes', maxMessageBytes, `write a whole number from 1024 to ${MOST_BYTES}.`);
  return settings;
}
