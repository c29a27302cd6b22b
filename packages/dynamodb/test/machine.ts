import { randomUUID } from 'node:crypto';
import { DynamoDBClient, GetItemCommand, PutItemCommand, type AttributeValue } from '@aws-sdk/client-dynamodb';
import type { CaseHarness } from '@leasehold/contract';
import { SCHEMA_VERSION, virtualClock, type GuardStore, type TaskRecord, type VirtualClock } from '@leasehold/core';
import { steadyTime, type SteadyTime } from '@leasehold/core/testing';
import {
  createTable,
  dynamoDbGuard,
  dynamoDbLedger,
  type DynamoDbGuardOptions,
  type DynamoDbLedger,
  type DynamoDbLedgerOptions,
  type DynamoDbTableDesign,
} from '@leasehold/dynamodb';
import { startDynamoDb, type Emulator } from '@leasehold/emulators';

/** A signal that never aborts. */
export function never(): AbortSignal {
  return new AbortController().signal;
}

/** A record of a task that was just claimed, without an expiry: the driver stamps that. */
export function claimed(taskId: string, more: Partial<TaskRecord> = {}): TaskRecord {
  const at = 1_700_000_000_000;
  return {
    schemaVersion: SCHEMA_VERSION,
    taskId,
    taskType: 'test',
    state: 'running',
    stage: 'preflight',
    stageEnteredAt: at,
    renewalCount: 0,
    history: [],
    leaseOwner: 'test/1#a',
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: `key of ${taskId}`,
    effects: {},
    version: 1,
    opId: `op 1 of ${taskId}`,
    createdAt: at,
    updatedAt: at,
    ...more,
  };
}

/** The next write of a record. */
export function after(record: TaskRecord, change: Partial<TaskRecord> = {}): TaskRecord {
  const version = record.version + 1;
  return { ...record, version, opId: `op ${version} of ${record.taskId}`, ...change };
}

/** A DynamoDB server whose time a test moves, and drivers on it. */
export interface Machine {
  readonly clock: VirtualClock;
  readonly server: Emulator;
  readonly time: SteadyTime;
  /** A new table, or with `table` a part of one that is there, under a prefix of its own. */
  table(design?: Partial<DynamoDbTableDesign>): Promise<Table>;
  /** A client of a test's own. */
  client(maxAttempts?: number): DynamoDBClient;
  close(): Promise<void>;
}

/** A table of one test. */
export interface Table {
  readonly design: DynamoDbTableDesign;
  /** A driver as another process would have it, its calls counted. Not opened yet. */
  ledger(options?: Partial<DynamoDbLedgerOptions>): DynamoDbLedger;
  guard(options?: Partial<DynamoDbGuardOptions>): GuardStore;
  /** An item as it is stored, by its partition key without the prefix. */
  item(id: string): Promise<Record<string, AttributeValue> | undefined>;
  /** Puts an item by hand. */
  forge(id: string, attributes: Record<string, AttributeValue>): Promise<void>;
  dispose(): Promise<void>;
}

/** Starts one. */
export async function machine(): Promise<Machine> {
  const clock = virtualClock();
  // The service's clock is not the container's: a step of the wall clock does not move it.
  const lead = clock.wall() - clock.monotonic();
  const server = await startDynamoDb({ time: { wall: () => clock.monotonic() + lead } });
  const time = steadyTime(clock, [server]);
  const { endpoint, region, credentials } = server;
  const connection = { endpoint, region, credentials };
  const clients: DynamoDBClient[] = [];
  const client = (maxAttempts = 1): DynamoDBClient => {
    const made = new DynamoDBClient({ ...connection, maxAttempts });
    clients.push(made);
    return made;
  };
  return {
    clock,
    server,
    time,
    client,
    async table(given = {}) {
      // Every case begins at another part of a second, which is all that a Date header leaves out.
      await time.advance(137);
      const shared = given.table !== undefined;
      const design: DynamoDbTableDesign = {
        table: `t-${randomUUID()}`,
        ...given,
        ...(shared && { prefix: `${randomUUID()}#` }),
      };
      await createTable({ ...connection, ...design });
      const { table, prefix = '', keys = { partition: 'pk' } } = design;
      const own = client();
      const key = (id: string): Record<string, AttributeValue> => ({
        [keys.partition]: { S: `${prefix}${id}` },
        ...(keys.sort !== undefined && { [keys.sort]: { S: 'leasehold' } }),
      });
      const opened: { close(): Promise<void> }[] = [];
      const kept = <Driver extends { close(): Promise<void> }>(driver: Driver): Driver => {
        opened.push(driver);
        return time.watch(driver);
      };
      return {
        design,
        ledger: (more = {}) => kept(dynamoDbLedger({ ...connection, ...design, clock, ...more })),
        guard: (more = {}) => kept(dynamoDbGuard({ ...connection, ...design, clock, ...more })),
        item: async (id) => (await own.send(new GetItemCommand({ TableName: table, Key: key(id) }))).Item,
        async forge(id, attributes) {
          await own.send(new PutItemCommand({ TableName: table, Item: { ...attributes, ...key(id) } }));
        },
        async dispose() {
          await Promise.all(opened.map((driver) => driver.close()));
        },
      };
    },
    async close() {
      for (const made of clients) made.destroy();
      await server.close();
    },
  };
}

/** The harness of the contract, on a table of its own. */
export function harnessOn<Driver extends object>(
  one: Machine,
  table: Table,
  open: () => Promise<Driver> | Driver,
): CaseHarness<Driver> {
  return {
    open: async () => open(),
    advance: (ms) => one.time.advance(ms),
    dispose: () => table.dispose(),
  };
}
