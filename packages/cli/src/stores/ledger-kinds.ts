import type { LedgerDriver } from '@leasehold/core';
import { sqliteLedger } from '@leasehold/sqlite';
import { loadDynamoDb } from './adapter.ts';
import type { Address, AddressForm } from './address.ts';
import { checkFile } from './sqlite-file.ts';
import { given, tableOptions } from './table-options.ts';

/** A kind of ledger: how it is written, opened, and made. */
export interface LedgerKind extends AddressForm {
  open(address: Address): Promise<LedgerDriver>;
  /** What to do when it is not there, or may not be used. */
  readonly remedy: { missing(address: Address): string; denied(address: Address): string };
}

export type LedgerKindName = 'sqlite' | 'dynamodb';

/** The ledgers that the command knows, by the word their address begins with. */
export const LEDGER_KINDS: Readonly<Record<LedgerKindName, LedgerKind>> = {
  sqlite: {
    form: 'sqlite:FILE',
    options: [],
    async open({ place, said }) {
      checkFile(place, said);
      return sqliteLedger({ file: place });
    },
    remedy: {
      missing: () => 'give the file that the workers use',
      denied: () => 'check whose file it is',
    },
  },
  dynamodb: {
    form: 'dynamodb:TABLE?region=REGION&endpoint=URL',
    options: [
      'region',
      'endpoint',
      'prefix',
      'partition-key',
      'sort-key',
      'ttl',
      'index',
      'index-partition',
      'index-sort',
    ],
    async open({ place, options, said }) {
      const { dynamoDbLedger } = await loadDynamoDb(said);
      const { region, endpoint, ...written } = options;
      return dynamoDbLedger({
        table: place,
        ...given('region', region),
        ...given('endpoint', endpoint),
        ...tableOptions({
          ...written,
          ...given('partitionKey', written['partition-key']),
          ...given('sortKey', written['sort-key']),
          ...given('indexPartition', written['index-partition']),
          ...given('indexSort', written['index-sort']),
        }),
      });
    },
    remedy: {
      missing: ({ place }) =>
        `check its name, region and endpoint, or make it with "leasehold aws create-table --table ${place}"`,
      denied: ({ place }) =>
        `what has to be allowed is printed by "leasehold aws policy --role operator --table ${place}"`,
    },
  },
};
