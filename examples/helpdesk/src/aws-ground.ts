import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { LeaseholdError } from '@leasehold/core';
import type { SqsBroker } from '@leasehold/sqs';
import { loadPackages, openAws } from './aws-stores.ts';
import type { Serving } from './child-messages.ts';
import { createFleet, type Fleet } from './fleet.ts';
import { buried, type AwsPlace, type Ground, type GroundAsk, type QueueSight } from './place.ts';

type Servers = Omit<AwsPlace, 'profile' | 'queueUrl' | 'table'>;

/** Something to be undone at the end. */
interface Undo {
  readonly what: string;
  step(): unknown;
}

/** A message that was received so often is dead-lettered unseen: far more than the ledger's own limit of attempts. */
const MAX_RECEIVES = '50';
const CALL_TIMEOUT_MS = 20_000;

/** A queue with its dead-letter queue and a table, under names of their own: on embedded servers, or those of `endpoints`. */
export async function prepareAws(ask: GroundAsk): Promise<Ground> {
  const { stopping, endpoints, region } = ask;
  const undo: Undo[] = [];
  const remove = async (known?: string): Promise<void> => {
    for (const { what, step } of undo.toReversed()) {
      try {
        await step();
      } catch (error) {
        // Where nothing could be made, for the same reason nothing can be removed.
        if (messageOf(error) !== known) ask.leftBehind(`${what} (${messageOf(error)})`);
      }
    }
  };
  try {
    // What is not installed shows before anything is started.
    const sdk = await loadSdk(endpoints === undefined);
    let servers: Servers;
    if (endpoints) {
      const { sqs, dynamodb } = endpoints;
      servers = { sqsEndpoint: sqs, dynamodbEndpoint: dynamodb, ...(region !== undefined && { region }) };
    } else {
      const fleet = createFleet((what) => stopping.abort(new Error(what)));
      undo.push({ what: 'the servers', step: () => fleet.end() });
      servers = await startServers(fleet, stopping.signal);
    }
    const place = await makeStores(sdk, servers, stopping.signal, undo);
    if (endpoints) ask.note(`queue ${place.queueUrl} and table ${place.table} were made, and are removed at the end`);
    const stores = await openAws(place);
    return {
      place,
      stores,
      // The service has a database of its own, which no worker ever sees.
      serviceFile: join(ask.folder, 'tickets.sqlite'),
      look: queueReader(stores.driver as SqsBroker),
      isFree: () => true,
      remove: () => remove(),
    };
  } catch (error) {
    await remove(error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : undefined);
    throw error;
  }
}

async function loadSdk(embedded: boolean) {
  return loadPackages(async () => {
    // The process of the servers loads these itself.
    if (embedded) import.meta.resolve('@leasehold/emulators');
    const [sqsSdk, dynamodbSdk, { createTable }] = await Promise.all([
      import('@aws-sdk/client-sqs'),
      import('@aws-sdk/client-dynamodb'),
      import('@leasehold/dynamodb'),
    ]);
    return { sqsSdk, dynamodbSdk, createTable };
  });
}

async function startServers(fleet: Fleet, signal: AbortSignal): Promise<Servers> {
  const { sqs, dynamodb, region, credentials } = await new Promise<Serving>((resolve, reject) => {
    const stop = (): void => reject(new Error(`stopped while waiting for the servers: ${messageOf(signal.reason)}`));
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    fleet.start('emulators-process', 'the process of SQS and DynamoDB', {}, (message) => {
      signal.removeEventListener('abort', stop);
      resolve(message as Serving);
    });
  });
  return { sqsEndpoint: sqs, dynamodbEndpoint: dynamodb, region, madeUp: credentials };
}

/** Makes queues and table, and notes how each is removed before it may be there. */
async function makeStores(
  { sqsSdk, dynamodbSdk, createTable }: Awaited<ReturnType<typeof loadSdk>>,
  servers: Servers,
  stopping: AbortSignal,
  undo: Undo[],
): Promise<AwsPlace> {
  const { region, madeUp, sqsEndpoint, dynamodbEndpoint } = servers;
  const common = { ...(region !== undefined && { region }), ...(madeUp && { credentials: madeUp }) };
  const name = `leasehold-demo-${randomBytes(4).toString('hex')}`;
  const bound = AbortSignal.any([stopping, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
  // What is removed is removed even when the run was stopped.
  const alone = (): { readonly abortSignal: AbortSignal } => ({ abortSignal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
  // Embedded servers take with them what they hold.
  const onRemoval = (what: string, step: () => Promise<unknown>): void => {
    if (!madeUp) undo.push({ what, step: () => step().catch(unlessGone) });
  };

  const sqs = new sqsSdk.SQSClient({ ...common, ...(sqsEndpoint !== undefined && { endpoint: sqsEndpoint }) });
  undo.push({ what: 'the client of SQS', step: () => sqs.destroy() });
  const makeQueue = async (QueueName: string, Attributes: Record<string, string>): Promise<string> => {
    // By its name: whether it was made is not known when the answer is lost.
    onRemoval(`queue ${QueueName}`, async () => {
      const { QueueUrl } = await sqs.send(new sqsSdk.GetQueueUrlCommand({ QueueName }), alone());
      await sqs.send(new sqsSdk.DeleteQueueCommand({ QueueUrl }), alone());
    });
    const made = new sqsSdk.CreateQueueCommand({ QueueName, Attributes });
    return (await sqs.send(made, { abortSignal: bound })).QueueUrl ?? '';
  };
  const dynamodb = new dynamodbSdk.DynamoDBClient({
    ...common,
    ...(dynamodbEndpoint !== undefined && { endpoint: dynamodbEndpoint }),
  });
  undo.push({ what: 'the client of DynamoDB', step: () => dynamodb.destroy() });
  try {
    const deadUrl = await makeQueue(`${name}-dead`, {});
    const asked = new sqsSdk.GetQueueAttributesCommand({ QueueUrl: deadUrl, AttributeNames: ['QueueArn'] });
    const deadLetterTargetArn = (await sqs.send(asked, { abortSignal: bound })).Attributes?.['QueueArn'];
    const queueUrl = await makeQueue(name, {
      RedrivePolicy: JSON.stringify({ deadLetterTargetArn, maxReceiveCount: MAX_RECEIVES }),
    });
    onRemoval(`table ${name}`, () => dynamodb.send(new dynamodbSdk.DeleteTableCommand({ TableName: name }), alone()));
    await createTable({ table: name, client: dynamodb }, bound);
    return { profile: 'aws', queueUrl, table: name, ...servers };
  } catch (cause) {
    const where = [...new Set([sqsEndpoint, dynamodbEndpoint])].join(' and ');
    const text = `a queue and a table could not be made at ${where}: ${messageOf(cause)}${remedyOf(cause)}`;
    throw new LeaseholdError('unavailable', text, { cause });
  }
}

/** Reading a dead-letter queue means receiving from it, so it is read only when its length has changed. */
function queueReader(driver: SqsBroker): (signal: AbortSignal) => Promise<QueueSight> {
  let deadLetters: QueueSight['deadLetters'] = [];
  return async (signal) => {
    const { visible, delayed, blocked, inFlight, deadLetters: count } = await driver.depth(signal);
    if (count !== deadLetters.length)
      deadLetters = ((await driver.deadLetters?.({ limit: 1_000 }, signal))?.letters ?? []).map(buried);
    return { waiting: visible + delayed + blocked, held: inFlight, deadLetters };
  };
}

/** What was never made needs no removing. */
function unlessGone(error: unknown): void {
  if (!(error instanceof Error) || !/NonExistentQueue|QueueDoesNotExist|ResourceNotFound/.test(error.name)) throw error;
}

function remedyOf(error: unknown): string {
  const { name, message } = error instanceof Error ? error : { name: '', message: '' };
  if (message === 'Region is missing') return '. Give it, or set AWS_REGION.';
  if (name !== 'CredentialsProviderError') return '';
  return '. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or another source that the SDK knows; a local server takes any.';
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Of several addresses that were tried, each has its own error, and all of them no message.
  const code = (error as NodeJS.ErrnoException).code ?? error.name;
  return error.message === '' ? code : `${code}: ${error.message}`;
}
