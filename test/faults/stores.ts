import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrokerCapabilities, BrokerDriver, DeadLetter, LedgerDriver, VirtualClock } from '@leasehold/core';
import { steadyTime, type RemoteServer, type SteadyTime } from '@leasehold/core/testing';
import { memoryBroker, memoryLedger, memoryQueue, memoryTable } from '@leasehold/core/memory';
import { sqliteBroker, sqliteLedger, type BootClock } from '@leasehold/sqlite';
import { dynamodb, sqs } from './aws-stores.ts';

/** Where one run keeps its data. All of its drivers go by one clock. */
export interface Site {
  readonly clock: VirtualClock;
  /** A directory of its own, which is removed after the run. */
  directory(): string;
}

/** One queue: a driver for each process that uses it, how many messages are left in it, and what went to its dead-letter queue. */
export interface Queue {
  driver(): BrokerDriver;
  left(): Promise<number>;
  deadLetters(): Promise<readonly DeadLetter[]>;
  /** The server it is at, where that is not in this thread. */
  readonly server?: RemoteServer;
  close?(): Promise<void>;
}

/** One ledger: a driver for each process that uses it. */
export interface Table {
  driver(): LedgerDriver;
  readonly server?: RemoteServer;
}

/** What a driver needs to take part: a new queue or a new table at a site. Beside a driver that is only one of both, memory is the other. */
export interface Adapter {
  queue?(site: Site): Promise<Queue>;
  table?(site: Site): Promise<Table>;
}

const memory: Required<Adapter> = {
  async queue({ clock }) {
    const queue = memoryQueue();
    return {
      driver: () => memoryBroker({ queue, clock }),
      left: async () => queue.messages.length,
      deadLetters: async () => queue.deadLetters,
    };
  },
  async table({ clock }) {
    const table = memoryTable();
    return { driver: () => memoryLedger({ table, clock }) };
  },
};

const sqliteFile = (site: Site) => {
  const { clock } = site;
  const bootClock: BootClock = { bootId: 'boot', uptimeMs: () => clock.monotonic(), resolutionMs: 0 };
  return { file: join(site.directory(), 'store.db'), clock, bootClock };
};

const sqlite: Adapter = {
  async queue(site) {
    const options = sqliteFile(site);
    const counter = sqliteBroker(options);
    return {
      driver: () => sqliteBroker(options),
      async left() {
        const { visible, inFlight, delayed, blocked } = await counter.depth();
        return visible + inFlight + delayed + blocked;
      },
      deadLetters: async () => (await counter.deadLetters({ limit: 100 })).letters,
    };
  },
  async table(site) {
    const options = sqliteFile(site);
    return { driver: () => sqliteLedger(options) };
  },
};

/** The drivers by name. One line here, and every cell of the matrix and every pair with it can be asked for. */
export const ADAPTERS: Readonly<Record<string, Adapter>> = {
  memory,
  sqlite,
  sqs: sqs(''),
  'sqs-fifo': sqs('.fifo'),
  dynamodb,
};

const POLL_ENDS_MS = 60_000;

/** A broker and a ledger on one clock, and what was opened of them. */
export class Stores {
  /** Stands still while a driver or its server works. */
  readonly time: SteadyTime;
  readonly #queue: Queue;
  readonly #table: Table;
  readonly #remove: () => void;
  readonly #opened: (BrokerDriver | LedgerDriver)[] = [];

  private constructor(clock: VirtualClock, queue: Queue, table: Table, remove: () => void) {
    this.#queue = queue;
    this.#table = table;
    this.#remove = remove;
    this.time = steadyTime(
      clock,
      [queue.server, table.server].filter((server) => server !== undefined),
    );
  }

  /** @throws RangeError for a name that is not in the table. */
  static async open(clock: VirtualClock, broker: string, ledger: string): Promise<Stores> {
    let directory: string | undefined;
    const site: Site = {
      clock,
      directory: () => (directory ??= mkdtempSync(join(tmpdir(), 'leasehold-faults-'))),
    };
    const queue = await (adapter(broker).queue ?? memory.queue)(site);
    const table = await (adapter(ledger).table ?? memory.table)(site);
    return new Stores(clock, queue, table, () => {
      if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
    });
  }

  broker(): BrokerDriver {
    return this.time.watch(this.#keep(this.#queue.driver()), { local: this.#queue.server === undefined });
  }

  ledger(): LedgerDriver {
    return this.time.watch(this.#keep(this.#table.driver()));
  }

  /** Messages that are not done with, held ones included. */
  left(): Promise<number> {
    return this.#queue.left();
  }

  /** How the queue's messages get to its dead-letter queue. */
  get deadLetter(): BrokerCapabilities['deadLetter'] {
    return this.#opened.find((driver) => 'receive' in driver)?.capabilities.deadLetter ?? 'none';
  }

  deadLetters(): Promise<readonly DeadLetter[]> {
    return this.#queue.deadLetters();
  }

  async close(): Promise<void> {
    const closing = Promise.all([...this.#opened.map((driver) => driver.close()), this.#queue.close?.()]);
    // A poll that a server holds ends when its time has come.
    let closed = false;
    const done = (): void => void (closed = true);
    closing.then(done, done);
    await this.time.until(() => closed, POLL_ENDS_MS);
    await closing;
    this.#remove();
  }

  #keep<Driver extends BrokerDriver | LedgerDriver>(driver: Driver): Driver {
    this.#opened.push(driver);
    return driver;
  }
}

function adapter(name: string): Adapter {
  const found = Object.hasOwn(ADAPTERS, name) ? ADAPTERS[name] : undefined;
  if (!found)
    throw new RangeError(`driver ${name} is not in the table; there are ${Object.keys(ADAPTERS).join(', ')}.`);
  return found;
}
