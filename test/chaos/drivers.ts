import type { BrokerDriver, GuardStore, LedgerDriver } from '@leasehold/core';
import { dynamoDbGuard, dynamoDbLedger } from '@leasehold/dynamodb';
import { sqliteBroker, sqliteGuard, sqliteLedger, type SqliteGuard } from '@leasehold/sqlite';
import { sqsBroker } from '@leasehold/sqs';

/** How to reach broker, ledger and guard store: plain data, for a child process to build its drivers from. */
export type Connection = LocalConnection | AwsConnection;

/** One SQLite file for all, and the receiver's own. */
interface LocalConnection {
  readonly profile: 'local';
  readonly file: string;
  readonly queue: string;
  /** The receiver's rows, and the guard's memory beside them. */
  readonly receiverFile: string;
}

/** SQS and DynamoDB, each at a port of this machine. */
export interface AwsConnection {
  readonly profile: 'aws';
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly queueUrl: string;
  readonly dynamoDb: string;
  readonly table: string;
  readonly guardTable: string;
}

/** A guard store: with the file in which effect and key can be committed together, or without. */
export type ReceiverStore =
  | { readonly transactional: SqliteGuard; readonly file: string }
  | { readonly plain: GuardStore };

/** The drivers of one process. */
export interface Drivers {
  broker(): BrokerDriver;
  ledger(): LedgerDriver;
  guard(): ReceiverStore;
}

/** Builds a process's drivers. */
export function driversOf(connection: Connection): Drivers {
  if (connection.profile === 'local') {
    const { file, queue, receiverFile } = connection;
    return {
      broker: () => sqliteBroker({ file, queue }),
      ledger: () => sqliteLedger({ file }),
      guard: () => ({ transactional: sqliteGuard({ file: receiverFile, embed: true }), file: receiverFile }),
    };
  }
  const { region, credentials, queueUrl, dynamoDb: endpoint, table, guardTable } = connection;
  return {
    broker: () => sqsBroker({ region, credentials, queueUrl, longPoll: '2s' }),
    ledger: () => dynamoDbLedger({ region, credentials, endpoint, table }),
    guard: () => ({ plain: dynamoDbGuard({ region, credentials, endpoint, table: guardTable }) }),
  };
}
