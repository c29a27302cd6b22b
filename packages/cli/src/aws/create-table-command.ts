import { isLeaseholdError } from '@leasehold/core';
import { CliFailure, EXIT } from '../failure.ts';
import { loadDynamoDb } from '../stores/adapter.ts';
import { awsTrouble } from '../stores/aws-trouble.ts';
import { given, tableOptions, type WrittenTable } from '../stores/table-options.ts';
import { plain } from '../wording.ts';

interface CreateTableCommandOptions extends WrittenTable {
  readonly table: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly json?: boolean;
}

/** A table is there within seconds, its index within a minute. */
const TIMEOUT_MS = 300_000;

/** `leasehold aws create-table` */
export async function createTableCommand(options: CreateTableCommandOptions): Promise<number> {
  const { table, region, endpoint } = options;
  const { createTable } = await loadDynamoDb('aws create-table');
  const design = { table, ...given('region', region), ...given('endpoint', endpoint), ...tableOptions(options) };
  const { created, ttl } = await createTable(design, AbortSignal.timeout(TIMEOUT_MS)).catch((error: unknown) => {
    const trouble = awsTrouble(error, `table ${table}`, 'options');
    if (trouble) throw trouble;
    throw isLeaseholdError(error) ? error : new CliFailure(1, explain(table, endpoint, error), { cause: error });
  });
  if (options.json) process.stdout.write(`${JSON.stringify({ table, created, ttl })}\n`);
  else process.stdout.write(`table ${table} ${created ? 'was made' : 'was there already, and fits'}; TTL: ${ttl}\n`);
  return EXIT.ok;
}

function explain(table: string, endpoint: string | undefined, error: unknown): string {
  const { name, message } = error instanceof Error ? error : { name: 'unknown error', message: '' };
  const code = (error as NodeJS.ErrnoException).code ?? name;
  const what = `table ${table} could not be made: ${code}${message === '' ? '' : `: ${plain(message)}`}`;
  if (name === 'AccessDeniedException')
    return `${what}; what has to be allowed is printed by "leasehold aws policy --role deployer --table ${table}".`;
  return endpoint === undefined ? `${what}.` : `${what}; check --endpoint ${endpoint}.`;
}
