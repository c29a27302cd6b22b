import { Option } from 'commander';

/** `--db`. */
export function database(): Option {
  return new Option(
    '--db <file>',
    'the SQLite file (default: LEASEHOLD_DB, else ./.leasehold/demo.sqlite, if it is there)',
  );
}

/** `--ledger`. */
export function ledger(): Option {
  return new Option(
    '--ledger <address>',
    'the ledger, if it is not a file: dynamodb:TABLE?region=...&endpoint=... (default: LEASEHOLD_LEDGER)',
  );
}

/** `--queue`. */
export function queue(): Option {
  return new Option(
    '--queue <address>',
    'sqs:QUEUE_URL?region=...&endpoint=..., or the name of a queue in the SQLite file (default: LEASEHOLD_QUEUE)',
  );
}
