import { TASK_ID_ATTRIBUTE, type BrokerDriver, type DeadLetter, type LedgerDriver } from '@leasehold/core';

/** A queue and a ledger in one SQLite file. */
export interface SqlitePlace {
  readonly profile: 'sqlite';
  readonly file: string;
  readonly queue: string;
}

/** An SQS queue and a DynamoDB table. What is left out is found by the SDK's own chain. */
export interface AwsPlace {
  readonly profile: 'aws';
  readonly queueUrl: string;
  readonly table: string;
  readonly region?: string;
  readonly sqsEndpoint?: string;
  readonly dynamodbEndpoint?: string;
  /** Of an embedded server, which takes any: real ones are never written here, since it goes over a command line. */
  readonly madeUp?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** Where the queue and the ledger of a run are: plain JSON, so that a child process can be told. */
export type Place = SqlitePlace | AwsPlace;

/** Queue and ledger, as a process uses them. */
export interface Stores {
  readonly driver: BrokerDriver;
  readonly ledger: LedgerDriver;
}

/** What a queue holds. */
export interface QueueSight {
  /** Messages that nobody holds. */
  readonly waiting: number;
  readonly held: number;
  /** A message that was moved twice is in here twice, with one `of`. */
  readonly deadLetters: readonly BuriedLetter[];
}

/** A dead letter as the audit needs it: of which task it is, or, unreadable, of which message. */
export interface BuriedLetter {
  readonly of: string;
  readonly reason: string;
}

/** A worker that is killed between moving a message and removing it leaves it to another, which moves it again: the copies have one `of`. */
export function buried({ messageId, attributes, reason }: DeadLetter): BuriedLetter {
  return { of: attributes[TASK_ID_ATTRIBUTE] ?? attributes['leaseholdmessageid'] ?? messageId, reason };
}

/** What a run works on: made for it, and empty. */
export interface Ground {
  readonly place: Place;
  readonly stores: Stores;
  /** The file of the ticket service, which has a database of its own or shares it with the queue. */
  readonly serviceFile: string;
  look(signal: AbortSignal): Promise<QueueSight>;
  /** Whether the others can work while a worker is stopped just now: it may hold a lock. */
  isFree(): boolean;
  /** Removes what was made. The stores are closed by then. */
  remove(): Promise<void>;
}

/** What a run asks of a profile. */
export interface GroundAsk {
  /** An existing folder for files. */
  readonly folder: string;
  /** Aborted when the run is to end; a profile aborts it itself when a server of its own dies. */
  readonly stopping: AbortController;
  /** Servers to use instead of embedded ones. */
  readonly endpoints?: { readonly sqs: string; readonly dynamodb: string };
  readonly region?: string;
  readonly note: (text: string) => void;
  /** For what could not be removed. */
  readonly leftBehind: (text: string) => void;
}

/** One way of running the demo. */
export interface Profile<Own extends Place> {
  /** How long a worker holds a task without a beat. Short, so that a takeover takes seconds. */
  readonly lease: string;
  /** A run that takes longer than this has failed. */
  readonly limitMs: number;
  /** How often queue and ledger are looked at. */
  readonly lookEveryMs: number;
  /** Makes queue and ledger. */
  prepare(ask: GroundAsk): Promise<Ground>;
  /** Opens queue and ledger in any process. */
  open(place: Own): Promise<Stores>;
}
