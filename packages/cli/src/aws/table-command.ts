import { EXIT } from '../failure.ts';
import { loadDynamoDb } from '../stores/adapter.ts';
import { tableOptions, type WrittenTable } from '../stores/table-options.ts';

/** `leasehold aws table` */
export async function tableCommand(
  options: WrittenTable & { readonly table: string; readonly format: string },
): Promise<number> {
  const { cloudFormation, terraform } = await loadDynamoDb('aws table');
  const render = options.format === 'terraform' ? terraform : cloudFormation;
  process.stdout.write(render({ table: options.table, ...tableOptions(options) }));
  return EXIT.ok;
}
