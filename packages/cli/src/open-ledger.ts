import { existsSync } from 'node:fs';
import { createTaskClient, isLeaseholdError, type LedgerDriver, type TaskClient } from '@leasehold/core';
import { CliFailure } from './failure.ts';
import { parseAddress, type Address } from './stores/address.ts';
import { awsTrouble } from './stores/aws-trouble.ts';
import { LEDGER_KINDS, type LedgerKindName } from './stores/ledger-kinds.ts';
import { listening } from './stores/listening.ts';

const DEFAULT_FILE = './.leasehold/demo.sqlite';

/** What says which ledger, and which queue. */
export interface StoreOptions {
  readonly db?: string;
  readonly ledger?: string;
  readonly queue?: string;
}

/** A ledger, and a client over it. */
export interface OpenLedger {
  readonly ledger: LedgerDriver;
  readonly client: TaskClient;
  readonly address: Address<LedgerKindName>;
}

/**
 * Opens the ledger of `--ledger` or `--db`, else of the environment, else of the last demo, for the time of `work`. It is never made: a wrong
 * name is an error.
 */
export async function withLedger<Result>(
  options: StoreOptions,
  work: (open: OpenLedger) => Promise<Result>,
): Promise<Result> {
  const address = ledgerAddress(options);
  const { [address.kind]: kind } = LEDGER_KINDS;
  let failure: unknown;
  const ledger = listening(await refusedAs(address.said, () => kind.open(address)), (error) => (failure = error));
  try {
    return await work({ ledger, client: createTaskClient({ ledger }), address });
  } catch (error) {
    // Core says what is known then; why the store did not answer is for whoever has to mend it.
    throw failure !== undefined && !(error instanceof CliFailure) ? explained(error, failure, ledger, address) : error;
  } finally {
    await ledger.close();
  }
}

/** An option that a driver refuses is named as it was written, and so is a store that may not be used. */
export async function refusedAs<Result>(said: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const trouble = awsTrouble(error, said, 'address');
    if (trouble) throw trouble;
    if (!isLeaseholdError(error) || error.code !== 'bad-option') throw error;
    throw new CliFailure(2, `${said}: ${error.message}`, { cause: error });
  }
}

function ledgerAddress({ db, ledger }: StoreOptions): Address<LedgerKindName> {
  const { LEASEHOLD_LEDGER, LEASEHOLD_DB } = process.env;
  const both = (one: string, other: string): CliFailure =>
    new CliFailure(2, `${one} and ${other} both name the ledger: give one of them.`);
  if (db !== undefined && ledger !== undefined) throw both('--db', '--ledger');
  if (ledger !== undefined) return parseAddress('--ledger', ledger, LEDGER_KINDS);
  if (db !== undefined) return fileAddress(db, `--db ${db}`);
  if (LEASEHOLD_DB && LEASEHOLD_LEDGER) throw both('LEASEHOLD_DB', 'LEASEHOLD_LEDGER');
  if (LEASEHOLD_LEDGER) return parseAddress('LEASEHOLD_LEDGER', LEASEHOLD_LEDGER, LEDGER_KINDS);
  if (LEASEHOLD_DB) return fileAddress(LEASEHOLD_DB, `LEASEHOLD_DB ${LEASEHOLD_DB}`);
  if (existsSync(DEFAULT_FILE)) return fileAddress(DEFAULT_FILE, DEFAULT_FILE);
  throw new CliFailure(
    2,
    `there is no database: give one with --db <file> or in LEASEHOLD_DB, another ledger with --ledger or in LEASEHOLD_LEDGER, or make one with "leasehold demo --keep" (${DEFAULT_FILE}).`,
  );
}

function fileAddress(file: string, said: string): Address<'sqlite'> {
  return { kind: 'sqlite', place: file, options: {}, said };
}

function explained(error: unknown, cause: unknown, ledger: LedgerDriver, address: Address<LedgerKindName>): Error {
  const { remedy } = LEDGER_KINDS[address.kind];
  const { said } = address;
  const trouble = awsTrouble(cause, said, 'address');
  if (trouble) return trouble;
  const name = cause instanceof Error ? cause.name : 'unknown error';
  const because = (): string => {
    switch (ledger.classify(cause)) {
      case 'not-found':
        return `${said} was not found: ${remedy.missing(address)}.`;
      case 'denied':
        return `${said} may not be used (${name}): ${remedy.denied(address)}.`;
      case 'throttled':
        return `${said} is throttled (${name}): try again.`;
      case 'unavailable':
        return `${said} does not answer (${name}): check its endpoint and the network.`;
      default:
        return `${said}: ${cause instanceof Error ? cause.message : name}`;
    }
  };
  const message = error instanceof Error && error !== cause ? `${error.message} ` : '';
  return new CliFailure(1, `${message}${because()}`, { cause });
}
