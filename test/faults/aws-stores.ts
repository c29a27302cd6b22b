import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { startDynamoDb, startSqs, type Emulator, type EmulatorTime, type SqsEmulator } from '@leasehold/emulators';
import { sqsBroker } from '@leasehold/sqs';
import type { Adapter, Site } from './stores.ts';

/** Time at the servers, which outlive the runs: every run begins where the one before ended. */
class Epochs implements EmulatorTime {
  #site: Site | undefined;
  #offset = 0;

  wall(): number {
    return (this.#site?.clock.wall() ?? 0) + this.#offset;
  }

  begin(site: Site): void {
    if (this.#site === site) return;
    // On a full second: what the service's clock shows of it must not differ from run to run.
    const now = Math.ceil((this.#site ? this.wall() : 0) / 1_000) * 1_000;
    this.#site = site;
    this.#offset = Math.max(0, now - site.clock.wall());
  }
}

const epochs = new Epochs();
let sqsServer: Promise<SqsEmulator> | undefined;
let dynamoDbServer: Promise<Emulator> | undefined;
let places = 0;

/** Runs a program to its exit code, and ends the servers that were started for it. */
export async function runWithServers(main: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await main();
  } finally {
    await closeServers();
  }
}

/** Ends the servers that were started for this process's runs. */
export async function closeServers(): Promise<void> {
  const starting = [sqsServer, dynamoDbServer].filter((server) => server !== undefined);
  [sqsServer, dynamoDbServer] = [undefined, undefined];
  const servers = await Promise.all<Emulator>(starting);
  await Promise.all(servers.map((server) => server.close()));
}

const NEVER = new AbortController().signal;
/** Only ours move messages to the dead-letter queue. */
const MOST_RECEIVES = 1_000;

/** A queue of the SQS emulator. */
export function sqs(ending: '' | '.fifo'): Adapter {
  return {
    async queue(site) {
      epochs.begin(site);
      const server = await (sqsServer ??= startSqs({ time: epochs }));
      const name = `q${++places}`;
      const dead = await server.createQueue(`${name}-dead${ending}`);
      const { url } = await server.createQueue(`${name}${ending}`, {
        deadLetter: { queueUrl: dead.url, maxReceiveCount: MOST_RECEIVES },
      });
      const { endpoint, region, credentials } = server;
      const driver = (queueUrl: string) => sqsBroker({ queueUrl, endpoint, region, credentials, clock: site.clock });
      const counter = driver(url);
      return {
        server,
        driver: () => driver(url),
        async left() {
          const { visible, inFlight, delayed } = await counter.depth();
          return visible + inFlight + delayed;
        },
        async deadLetters() {
          const reader = driver(dead.url);
          const ask = { max: 10, leaseMs: 300_000, waitMs: 0 };
          const letters = await reader.receive(ask, NEVER);
          await reader.release(
            letters.map(({ handle }) => handle),
            0,
            NEVER,
          );
          await reader.close();
          return letters.map(({ messageId, body, attributes }) => {
            const { leaseholdreason: reason = '', leaseholddescription: description = '' } = attributes;
            return { messageId, body, attributes, reason, description };
          });
        },
        close: () => counter.close(),
      };
    },
  };
}

const TABLE = 'leasehold';

/** A part of a table of the DynamoDB emulator. */
export const dynamodb: Adapter = {
  async table(site) {
    epochs.begin(site);
    const server = await (dynamoDbServer ??= startWithTable());
    const { endpoint, region, credentials } = server;
    const prefix = `${++places}#`;
    return {
      server,
      driver: () => dynamoDbLedger({ table: TABLE, prefix, endpoint, region, credentials, clock: site.clock }),
    };
  },
};

async function startWithTable(): Promise<Emulator> {
  const server = await startDynamoDb({ time: epochs });
  const { endpoint, region, credentials } = server;
  await createTable({ table: TABLE, endpoint, region, credentials });
  return server;
}
