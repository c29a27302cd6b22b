import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { sqsBroker } from '@leasehold/sqs';
import type { ServersStart } from './child.ts';
import { readAll } from './dead-letters.ts';
import type { AwsConnection } from './drivers.ts';
import { freePort } from './free-port.ts';
import type { Backend, Profile } from './profiles.ts';

const QUEUE = 'chaos';
const ACCOUNT = '000000000000';
const REGION = 'us-east-1';
const CREDENTIALS = { accessKeyId: 'chaos', secretAccessKey: 'chaos' };

/** SQS and DynamoDB, as emulators in a process of their own. */
export const aws: Profile = {
  // The ledger's clock has a resolution of a second, which the margin of a lease has to exceed.
  leaseMs: 9_000,
  clockErrorMs: 1_250,
  brokerDelayMs: 2_000,
  links: { worker: ['broker', 'ledger'], receiver: ['ledger'], producer: ['broker', 'ledger'] },
  hasServers: true,
  async open(_directory, fleet) {
    const ports = { broker: await freePort(), ledger: await freePort() };
    const options: ServersStart = { sqsPort: ports.broker, dynamoDbPort: ports.ledger, queue: QUEUE };
    const servers = fleet.start({ entry: 'servers-process', who: 'servers.1', options });
    await servers.ready;
    const connection = (at: Readonly<Record<string, number>>): AwsConnection => ({
      profile: 'aws',
      region: REGION,
      credentials: CREDENTIALS,
      queueUrl: `http://127.0.0.1:${at['broker'] ?? ports.broker}/${ACCOUNT}/${QUEUE}`,
      dynamoDb: `http://127.0.0.1:${at['ledger'] ?? ports.ledger}`,
      table: 'leasehold',
      guardTable: 'receiver',
    });
    const { region, credentials, queueUrl, dynamoDb: endpoint, table, guardTable } = connection(ports);
    const dynamoDb = { region, credentials, endpoint };
    await createTable({ ...dynamoDb, table }, AbortSignal.timeout(30_000));
    await createTable({ ...dynamoDb, table: guardTable }, AbortSignal.timeout(30_000));
    const broker = sqsBroker({ region, credentials, queueUrl });
    const ledger = dynamoDbLedger({ ...dynamoDb, table });
    await broker.open(AbortSignal.timeout(30_000));
    const backend: Backend = {
      ports,
      connection,
      servers,
      mayStop: () => true,
      ledger,
      async left() {
        const { visible, inFlight, delayed } = await broker.depth();
        return visible + inFlight + delayed;
      },
      deadLetters: () =>
        readAll(
          async (cursor) =>
            (await broker.deadLetters?.({ ...(cursor !== undefined && { cursor }) })) ?? { letters: [] },
        ),
      async close() {
        await broker.close();
        await ledger.close();
      },
    };
    return backend;
  },
};
