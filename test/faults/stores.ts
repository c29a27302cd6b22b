import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrokerDriver, DeadLetter, LedgerDriver, VirtualClock } from '@leasehold/core';
import { memoryBroker, memoryLedger, memoryQueue, memoryTable } from '@leasehold/core/memory';
import { sqliteBroker, sqliteLedger, type BootClock } from '@leasehold/sqlite';

/** Where one run keeps its data. All of its drivers go by one clock. */
interface Site {
  readonly clock: VirtualClock;
  /** A directory of its own, which is removed after the run. */
  directory(): string;
}

/** One queue: a driver for each process that uses it, and how many messages are left in it. */
export interface Queue {
  driver(): BrokerDriver;
  left(): Promise<number>;
}

/** One ledger: a driver for each process that uses it. */
export interface Table {
  driver(): LedgerDriver;
}

/** What a driver needs to take part: a new queue and a new table at a site. */
export interface Adapter {
  queue(site: Site): Queue;
  table(site: Site): Table;
}

const memory: Adapter = {
  queue({ clock }) {
    const queue = memoryQueue();
    return { driver: () => memoryBroker({ queue, clock }), left: async () => queue.messages.length };
  },
  table({ clock }) {
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
  queue(site) {
    const options = sqliteFile(site);
    const counter = sqliteBroker(options);
    return {
      driver: () => sqliteBroker(options),
      async left() {
        const { visible, inFlight, delayed, blocked } = await counter.depth();
        return visible + inFlight + delayed + blocked;
      },
    };
  },
  table(site) {
    const options = sqliteFile(site);
    return { driver: () => sqliteLedger(options) };
  },
};

/** The drivers by name. One line here, and every cell of the matrix and every pair with it can be asked for. */
export const ADAPTERS: Readonly<Record<string, Adapter>> = { memory, sqlite };

/** A broker and a ledger on one clock, and what was opened of them. */
export class Stores {
  readonly clock: VirtualClock;
  readonly #queue: Queue;
  readonly #table: Table;
  readonly #opened: (BrokerDriver | LedgerDriver)[] = [];
  #directory: string | undefined;

  /** @throws RangeError for a name that is not in the table. */
  constructor(clock: VirtualClock, broker: string, ledger: string) {
    this.clock = clock;
    const site: Site = {
      clock,
      directory: () => (this.#directory ??= mkdtempSync(join(tmpdir(), 'leasehold-faults-'))),
    };
    this.#queue = adapter(broker).queue(site);
    this.#table = adapter(ledger).table(site);
  }

  broker(): BrokerDriver {
    return this.#keep(this.#queue.driver());
  }

  ledger(): LedgerDriver {
    return this.#keep(this.#table.driver());
  }

  /** Messages that are not done with, held ones included. */
  left(): Promise<number> {
    return this.#queue.left();
  }

  async deadLetters(): Promise<readonly DeadLetter[]> {
    const page = await this.broker().deadLetters?.({ limit: 100 }, new AbortController().signal);
    if (!page) throw new TypeError('the matrix needs a broker whose dead letters can be read.');
    return page.letters;
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map((driver) => driver.close()));
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true });
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
