import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { DeadLetter, LedgerDriver } from '@leasehold/core';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import type { Connection } from './drivers.ts';

/** Broker, ledger and guard store of one run. */
export interface Backend {
  /** The ports behind the network, by the name of their link. */
  readonly ports: Readonly<Record<string, number>>;
  /** How to get at them, each link by the port that this process is to use for it. */
  connection(ports: Readonly<Record<string, number>>): Connection;
  /** Whether a process that stands still just now leaves the others at work: an embedded store has one writer at a time. */
  mayStop(): boolean;
  /** Past every network, for the audit. */
  readonly ledger: LedgerDriver;
  /** Messages that are not done with, held ones included. */
  left(): Promise<number>;
  deadLetters(): Promise<readonly DeadLetter[]>;
  close(): Promise<void>;
}

/** A set of backends that a run can be made on. */
export interface Profile {
  readonly leaseMs: number;
  /** How far the store's clock may be off in either direction, in milliseconds. */
  readonly clockErrorMs: number;
  /** How long a message may take to come back once its lease has ended. */
  readonly brokerDelayMs: number;
  /** What lies behind a network, besides the receiver. */
  readonly links: readonly string[];
  open(directory: string): Promise<Backend>;
}

const local: Profile = {
  leaseMs: 4_000,
  clockErrorMs: 20,
  brokerDelayMs: 1_000,
  links: [],
  async open(directory) {
    const connection: Connection = {
      profile: 'local',
      file: join(directory, 'leasehold.db'),
      queue: 'chaos',
      receiverFile: join(directory, 'receiver.db'),
    };
    const { file, queue } = connection;
    const broker = sqliteBroker({ file, queue });
    const ledger = sqliteLedger({ file });
    await broker.open(AbortSignal.timeout(10_000));
    return {
      ports: {},
      connection: () => connection,
      mayStop: () => isWritable(file),
      ledger,
      async left() {
        const { visible, inFlight, delayed, blocked } = await broker.depth();
        return visible + inFlight + delayed + blocked;
      },
      async deadLetters() {
        const letters: DeadLetter[] = [];
        let cursor: string | undefined;
        do {
          const page = await broker.deadLetters({ limit: 500, ...(cursor !== undefined && { cursor }) });
          letters.push(...page.letters);
          cursor = page.cursor;
        } while (cursor !== undefined);
        return letters;
      },
      async close() {
        await broker.close();
        await ledger.close();
      },
    };
  },
};

/** The profiles by name. */
export const PROFILES: Readonly<Record<string, Profile>> = { local };

function isWritable(file: string): boolean {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 250');
    db.exec('BEGIN IMMEDIATE');
    db.exec('ROLLBACK');
    return true;
  } catch {
    // Locked; whatever else is wrong with the file shows elsewhere.
    return false;
  } finally {
    db.close();
  }
}
