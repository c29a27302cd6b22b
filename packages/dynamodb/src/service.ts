import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type {
  $Command,
  DynamoDBClientResolvedConfig,
  ServiceInputTypes,
  ServiceOutputTypes,
} from '@aws-sdk/client-dynamodb';
import { buildClient, namedRegion } from '@leasehold/aws';
import { badOption, LeaseholdError, type Clock, type StoreTime } from '@leasehold/core';
import type { DynamoDbConnection, DynamoDbSender } from './options.ts';
import { serviceClock, type ServiceClock } from './service-clock.ts';

/** Any command of the DynamoDB client. */
type Command<Input extends ServiceInputTypes, Output extends ServiceOutputTypes> = $Command<
  Input,
  Output,
  DynamoDBClientResolvedConfig,
  ServiceInputTypes,
  ServiceOutputTypes
>;

/** The service behind a client, and its clock as its answers show it. */
export interface Service {
  readonly clock: ServiceClock;
  /** Sends once (a client of the user may repeat it). Rejects with the SDK's error, or `closed`. */
  send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: Command<Input, Output>,
    signal: AbortSignal,
  ): Promise<Output>;
  /** The service's time, after an answer. @throws LeaseholdError `unavailable` when answers do not tell it. */
  now(): StoreTime;
  /** Destroys the client if it was made here. */
  close(): Promise<void>;
}

/** @throws LeaseholdError `bad-option` */
export function service(options: DynamoDbConnection, clock: Clock): Service {
  const own = options.client === undefined ? buildClient(DynamoDBClient, options) : undefined;
  const client: DynamoDbSender = options.client ?? (own as unknown as DynamoDbSender);
  if (typeof client?.send !== 'function') {
    throw badOption('client', client, 'pass a DynamoDBClient of @aws-sdk/client-dynamodb, or leave it out.');
  }
  const time = serviceClock(clock);
  const timed = clockReader(time);
  // A client of our own is told once; a client of the user stays as it is, so there each command brings it along.
  own?.middlewareStack.add((next) => (args) => timed(() => next(args)), CLOCK_READER);
  let closed = false;
  return {
    clock: time,
    async send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
      command: Command<Input, Output>,
      signal: AbortSignal,
    ): Promise<Output> {
      if (closed) throw new LeaseholdError('closed', 'This driver was closed; make another one to go on.');
      signal.throwIfAborted();
      if (!own) command.middlewareStack.add((next) => (args) => timed(() => next(args)), CLOCK_READER);
      try {
        return (await client.send(command as never, { abortSignal: signal })) as Output;
      } catch (error) {
        throw namedRegion(error);
      }
    },
    now() {
      const now = time.now();
      if (now) return now;
      throw new LeaseholdError(
        'unavailable',
        "client: its answers do not tell the service's time. Pass a DynamoDBClient of @aws-sdk/client-dynamodb, whose commands run their " +
          'middleware and whose answers bear a Date header, and a clock that answers numbers.',
        { field: 'client' },
      );
    },
    async close() {
      closed = true;
      own?.destroy();
    },
  };
}

/** Next to the wire: a refusal becomes an exception further out. */
const CLOCK_READER = { step: 'deserialize', priority: 'low', name: 'leaseholdServiceClock' } as const;

/** Reads the clock from the answer to a call: each attempt of the SDK by itself, refusals included. */
function clockReader(
  time: ServiceClock,
): <Result extends { readonly response: unknown }>(call: () => Promise<Result>) => Promise<Result> {
  return async (call) => {
    const sent = time.sending();
    const result = await call();
    const headers = headersOf(result.response);
    // Only the service's own answers have a request id: a proxy in between has a clock of its own.
    if (headers?.['date'] && headers['x-amzn-requestid']) time.observe(Date.parse(headers['date']), sent);
    return result;
  };
}

function headersOf(response: unknown): Readonly<Record<string, string | undefined>> | undefined {
  if (typeof response !== 'object' || response === null || !('headers' in response)) return undefined;
  return response.headers as Readonly<Record<string, string | undefined>>;
}
